"""bench/faults.py and the files of its table: the cases, and what is called a breach."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tfhet.bench.code import ROOT

from benchmarks.cluster_runs.clusters import CLUSTERS
from benchmarks.cluster_runs.second_jobs import not_refused
from benchmarks.faults import suite as faults, table as fault_table
from benchmarks.faults.case import BUSY, DAMAGES, EPOCHS, LIMITS_S, FaultCase
from benchmarks.faults.cases import CASES
from benchmarks.faults.outcome import FaultOutcome
from benchmarks.judge.judge import Verdict
from tfhet.cli.bench import run_suite
from tfhet.record import Record, RunSummary
from tfhet.simulate import Fault, presets
from tfhet.simulate.fault import KINDS, NETWORK

HOSTS = {"data-1": "algo-2", "dnn-1": "algo-1"}
GOOD_EPOCH = {"expected": 100, "seen": 100, "once": 100, "repeated": 0, "missing": 0}


def outcome(case: FaultCase, codes: dict[str, int | None], cause: str | None = None, **more: Any) -> FaultOutcome:
    """An outcome that keeps every promise of a job that goes on, but for what is given."""
    epochs = more.pop("epochs", [{"epoch": n, **GOOD_EPOCH} for n in range(EPOCHS)])
    given = {"ended": True, "exit_s": 1.0, "happened": len(case.faults), "hosts": HOSTS, "checkpoints": 1}
    given |= {"verdict": Verdict() if case.is_judged else None, **more}
    summary = RunSummary(
        exit_codes=codes, exit_code=max((c or 0 for c in codes.values()), default=0), cause=cause, epochs=epochs
    )
    return FaultOutcome(case=case, summary=summary, **given)


def case_of(kind: str, *faults: str, **more: Any) -> FaultCase:
    return FaultCase(faults, kind, **more)


def test_every_case_can_be_read_and_has_a_name_of_its_own() -> None:
    assert len(CASES) >= 90
    assert len({case.name for case in CASES}) == len(CASES)
    assert {case.kind for case in CASES} == set(LIMITS_S)
    for case in CASES:
        assert case.cluster in {*presets(), *(cluster.name for cluster in CLUSTERS)}
        assert not case.before or case.before in DAMAGES or case.before.startswith(BUSY)
        for text in case.faults:
            Fault.parse(text)


def test_every_case_has_a_day_in_ci_and_every_word_of_a_day_a_case() -> None:
    lane = (ROOT / ".ci/run").read_text().split("faults_of_the_day() {")[1].split("\n}")[0]
    words = re.search(r"days=\((.*?)\)", lane, re.S)[1].replace('"', "").split()  # type: ignore[index]
    assert len(words) > 20
    assert [case.name for case in CASES if not any(word in case.name for word in words)] == []
    assert all(fault_table.chosen(word) for word in words)


def test_every_kind_of_fault_is_in_the_table() -> None:
    assert {Fault.parse(text).kind for case in CASES for text in case.faults} == set(KINDS) - set(
        NETWORK
    )  # on process hosts


def test_every_case_that_ends_badly_says_what_its_cause_must_name() -> None:
    assert all(case.named for case in CASES if case.kind != "goes on")


def test_a_job_that_goes_on_and_saw_everything_keeps_its_promise() -> None:
    assert outcome(case_of("goes on", "kill:worker"), {"algo-1/0": 0, "algo-2": 0}).breaches == []


def test_what_the_judge_finds_is_a_breach_and_so_is_an_audit_that_does_not_say_it() -> None:
    case, codes = case_of("goes on"), {"algo-1/0": 0}
    verdict = Verdict(("epoch 1: 1 examples missing",), missing=1)
    lost = [{"epoch": 0, **GOOD_EPOCH}, {"epoch": 1, **GOOD_EPOCH, "missing": 1, "once": 99}]
    judged = ["by the judge: epoch 1: 1 examples missing"]
    assert outcome(case, codes, epochs=lost, verdict=verdict).breaches == judged
    differ = "the audit counts 0 examples missing, the judge 1"
    assert outcome(case, codes, verdict=verdict).breaches == [*judged, differ]
    assert outcome(case, codes, epochs=lost).breaches == ["the audit counts 1 examples missing, the judge 0"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"repeated": 1, "once": 99}, "the audit counts 1 examples repeated, the judge 0"),
        ({"bad": 1, "once": 99}, "examples were skipped, 0 expected"),
        ({"once": 99}, "99 of 100 examples are accounted for"),
    ],
)
def test_what_the_audit_says_beyond_the_judge_is_a_breach(change: dict[str, int], said: str) -> None:
    epochs = [{"epoch": 0, **GOOD_EPOCH}, {"epoch": 1, **GOOD_EPOCH, **change}]
    breaches = outcome(case_of("goes on"), {"algo-1/0": 0}, epochs=epochs).breaches
    assert len(breaches) == 1 and said in breaches[0]


def test_a_silence_that_ends_ends_with_the_code_that_is_promised_and_in_its_own_time() -> None:
    case = case_of("failure", "hang:launcher@dnn-1:for=12", named=("stood still",), exits=1)
    assert case.limit_s == 17.0 and case_of("failure", "hang:host@data-1:for=2").limit_s == LIMITS_S["failure"]
    assert outcome(case, {"algo-1/0": 1, "algo-2": 1}, "it had stood still", exit_s=13.0).breaches == []
    (breach,) = outcome(case, {"algo-1/0": 143, "algo-2": 143}, "it had stood still").breaches
    assert breach.startswith("exit codes 143 x2")


def test_records_that_are_to_be_skipped_must_be_counted() -> None:
    case = case_of("goes on", before="corrupt", bad=1)
    skipped = [{"epoch": n, **GOOD_EPOCH, "once": 99, "bad": 1} for n in range(EPOCHS)]
    assert outcome(case, {"algo-1/0": 0}, epochs=skipped).breaches == []
    assert outcome(case, {"algo-1/0": 0}).breaches == [f"0 examples were skipped, {EPOCHS} expected"]


def test_launchers_that_live_must_agree_and_those_that_the_fault_killed_are_left_out() -> None:
    case = case_of("failure", "kill:host@data-1", named=("data-1",))
    codes = {"algo-1/0": 1, "algo-1/1": 1, "algo-2": -9}
    assert outcome(case, codes, "algo-2 was lost", struck=frozenset({"algo-2"})).breaches == []
    (breach,) = outcome(case, codes, "algo-2 was lost").breaches
    assert "do not agree" in breach
    (breach,) = outcome(case, {**codes, "algo-1/1": 0}, "algo-2 was lost", struck=frozenset({"algo-2"})).breaches
    assert "do not agree" in breach


def test_launchers_that_cannot_tell_each_other_only_have_to_fail_all_of_them() -> None:
    case = case_of("never joined", before="busy:control", named=("port",), linked=False)
    assert outcome(case, {"algo-1/0": 2, "algo-2": 1}, "port 16000 is in use").breaches == []
    (breach,) = outcome(case, {"algo-1/0": 2, "algo-2": 0}, "port 16000 is in use").breaches
    assert breach.startswith("exit codes")


def test_a_host_cut_off_while_the_others_go_on_may_end_with_a_code_of_its_own() -> None:
    case = case_of("goes on", "partition:data-1", lost=("data-1",))
    found = outcome(case, {"algo-1/0": 0, "algo-2": 1}, struck=frozenset({"algo-2"}))
    found = dataclasses.replace(found, summary=_with_lost(found.summary, ["algo-2"]))
    assert found.breaches == []


def test_a_lost_host_that_is_not_named_is_a_breach() -> None:
    case = case_of("goes on", "kill:host@data-1", lost=("data-1",))
    found = outcome(case, {"algo-1/0": 0, "algo-2": -9}, struck=frozenset({"algo-2"}))
    assert dataclasses.replace(found, summary=_with_lost(found.summary, [])).breaches == [
        "lost hosts: none, not algo-2"
    ]


def _with_lost(summary: RunSummary, lost: list[str]) -> Any:
    return SimpleNamespace(**{**summary.__dict__, "lost_hosts": lost})


def test_a_failure_must_come_out_as_one_in_time_with_its_cause() -> None:
    case = case_of("failure", "kill:host@data-1", named=("data-1",))
    assert outcome(case, {"algo-1/0": 1}, "algo-2 was lost").breaches == []
    late = f"the last exit came after 9.5 s, the limit is {LIMITS_S['failure']:g} s"
    assert outcome(case, {"algo-1/0": 1}, "algo-2 was lost", exit_s=9.5).breaches == [late]
    assert "the last exit is not known" in outcome(case, {"algo-1/0": 1}, "algo-2", exit_s=None).breaches[0]
    assert outcome(case, {"algo-1/0": 1}, "something").breaches == ["the cause does not name 'algo-2': something"]
    assert outcome(case, {"algo-1/0": 0}, "algo-2 was lost").breaches == ["exit codes 0: algo-2 was lost"]


def test_any_of_the_data_hosts_may_be_named_where_all_are_lost() -> None:
    case = case_of("failure", named=("data-",))
    assert outcome(case, {"algo-1/0": 1}, "algo-2 was lost").breaches == []
    assert outcome(case, {"algo-1/0": 1}, "algo-1 was lost").breaches == [
        "the cause names no data host: algo-1 was lost"
    ]


def test_a_stop_is_143_everywhere_and_leaves_a_checkpoint() -> None:
    case = case_of("stop", "sigterm:launcher@data-1", named=("SIGTERM",))
    assert outcome(case, {"algo-1/0": 143, "algo-2": 143}, "told to stop (SIGTERM)").breaches == []
    assert outcome(case, {"algo-1/0": 1}, "SIGTERM").breaches == ["exit codes 1: SIGTERM"]
    assert outcome(case, {"algo-1/0": 143}, "SIGTERM", checkpoints=0).breaches == ["no checkpoint was written"]


def test_the_run_after_a_stop_must_go_on_where_it_was_and_read_only_the_rest() -> None:
    case = case_of("stop", "sigterm:launcher@dnn-1", named=("SIGTERM",), resumes=True)

    def breaches(first: dict[str, int], code: int = 0) -> list[str]:
        epochs = [{"epoch": 0, **GOOD_EPOCH, **first}, {"epoch": 1, **GOOD_EPOCH}]
        again = RunSummary(exit_codes={"algo-1/0": code}, exit_code=code, cause="a disk", epochs=epochs)
        return outcome(case, {"algo-1/0": 143}, "SIGTERM", resumed=again).breaches

    assert breaches({"before": 40, "once": 60}) == []
    assert breaches({}) == ["the next run began its epoch anew"]
    assert breaches({"before": 40, "once": 60}, code=1) == ["the next run ended with 1: a disk"]
    lost = breaches({"before": 40, "once": 59, "missing": 1})
    assert lost == ["the audit counts 1 examples missing, the judge 0"]
    assert breaches({"before": 40, "once": 100}) == ["epoch 0: 140 of 100 examples are accounted for"]


def test_what_never_happened_never_ended_or_was_left_is_a_breach() -> None:
    case = case_of("goes on", "kill:worker")
    assert outcome(case, {"algo-1/0": 0}, happened=0).breaches == ["a fault never happened"]
    assert outcome(case, {"algo-1/0": 0}, ended=False).breaches == ["the job did not end by itself"]
    assert outcome(case, {"algo-1/0": 0}, left=("process 7: x",)).breaches == ["left behind: process 7: x"]


def test_a_case_whose_launchers_listen_elsewhere_says_so() -> None:
    case = case_of("goes on", "second-job:dnn-1")
    assert case.variables == {"TFHET_LISTEN": "0.0.0.0"} and case.name == "TFHET_LISTEN=0.0.0.0 second-job:dnn-1"
    assert case_of("goes on", "second-job:data-1").variables == {}


def test_a_second_job_must_find_that_its_port_is_in_use() -> None:
    name = "fault second-job:data-1:after=0.5"
    told = [name, f"{name}: the second job ended: exit code 2: the port 6001 is in use by process 7"]
    events = [{"event": "fault.injected", "fault": line} for line in told]
    assert not_refused(events) == []
    late = f"{name}: the second job found no port in use, and was ended after 60 s"
    wrong = [
        late,
        f"{name}: the second job ended: exit code 1: the port",
        f"{name}: the second job ended: exit code 0: ",
    ]
    assert not_refused([*events, *({"event": "fault.injected", "fault": line} for line in wrong)]) == wrong
    assert outcome(case_of("goes on", "second-job:data-1"), {"algo-1/0": 0}, odd=(late,)).breaches == [late]


def test_the_time_to_the_exit_counts_from_what_the_kind_of_case_says() -> None:
    events: list[dict[str, Any]] = [
        {"event": "fault.injected", "time_s": 2.0, "fault": "fault same-base:dnn-1: algo-1"},
        {"event": "fault.injected", "time_s": 12.0, "fault": "fault kill:rank=1: SIGKILL to process 7"},
        {"event": "fault.injected", "time_s": 13.0},
        {"event": "job.decided", "time_s": 14.0},
        {"event": "launchers.gone", "time_s": 15.0},
    ]
    assert fault_table.exit_s("failure", events, 10.0) == 3.0
    assert fault_table.exit_s("stop", events, 10.0) == 3.0
    assert fault_table.exit_s("refused", events, 10.0) == 1.0
    assert fault_table.exit_s("never joined", events, 10.0) == 5.0
    assert fault_table.exit_s("failure", events[3:], 10.0) is None


def test_the_figures_count_cases_breaches_and_leftovers_and_the_worst_exit_of_failures_only() -> None:
    found = [
        outcome(case_of("failure", "kill:rank=1", named=("rank 1",)), {"algo-1/0": 1}, "rank 1", exit_s=2.0),
        outcome(case_of("failure", "kill:rank=0", named=("rank 0",)), {"algo-1/0": 1}, "rank 0", exit_s=3.0),
        outcome(case_of("stop", "sigterm:launcher"), {"algo-1/0": 143}, "SIGTERM", exit_s=20.0),
        outcome(case_of("goes on"), {"algo-1/0": 0}, left=("port 1", "port 2")),
    ]
    figures = fault_table.figures_of([each.to_json() for each in found])
    assert {name: figure.value for name, figure in figures.items()} == {
        "faults.cases": 4,
        "faults.broken": 1,
        "faults.left_behind": 2,
        "faults.worst_exit_s": 3.0,
    }


def test_the_rows_and_every_breach_are_printed() -> None:
    broken = outcome(case_of("goes on", "kill:worker"), {"algo-1/0": 0, "algo-2": 0}, left=("port 6001",))
    record = Record.of("faults", {}, details={"rows": [broken.row()], "cases": [broken.to_json()]})
    printed = "\n".join(faults.SUITE.notes(record))
    assert "kill:worker" in printed and "0 x2" in printed
    assert "not kept: kill:worker: left behind: port 6001" in printed


def test_more_runs_what_the_record_lacks_or_saw_broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []

    def run_case(case: FaultCase, launcher: Path, place: Path) -> Any:
        ran.append(case.name)
        left = ("port 6001",) if len(ran) == 2 else ()  # the second case that ever runs breaks its promise
        return outcome(case_of("goes on", *case.faults), {"algo-1/0": 0}, left=left)

    cases = [case_of("goes on", *words) for words in ((), ("kill:worker",), ("hang:worker:for=1",))]
    monkeypatch.setattr(fault_table, "CASES", cases)
    monkeypatch.setattr(fault_table, "run_case", run_case)
    (tmp_path / "launcher.py").touch()
    words = ["--launcher", str(tmp_path / "launcher.py"), "--json", str(tmp_path / "faults.json")]
    assert run_suite(faults.SUITE, [*words, "--only", "kill"], "faults") == 0
    assert run_suite(faults.SUITE, [*words, "--more"], "faults") == 1
    assert run_suite(faults.SUITE, [*words, "--more", "--only", "kill"], "faults") == 1  # what broke stays
    assert run_suite(faults.SUITE, [*words, "--more"], "faults") == 0
    assert ran == ["kill:worker", "nothing", "hang:worker:for=1", "nothing"]
    record = Record.read(tmp_path / "faults.json")
    assert [case["case"] for case in record.details["cases"]] == [case.name for case in cases]
    assert len(record.details["commands"]) == 4 and record.figures["faults.broken"].value == 0
    assert run_suite(faults.SUITE, words[:2] + ["--more"], "faults") == 2


def test_the_list_shows_the_cases_and_runs_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_suite(faults.SUITE, ["--list", "--only", "partition"], "faults") == 0
    told = capsys.readouterr().out
    assert "partition:dnn-1" in told and "kill:rank" not in told


def test_an_unknown_case_or_a_launcher_that_is_not_there_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_suite(faults.SUITE, ["--only", "earthquake"], "faults") == 2
    assert "earthquake" in capsys.readouterr().err
    assert run_suite(faults.SUITE, ["--launcher", "nowhere.py"], "faults") == 2
    assert "nowhere.py" in capsys.readouterr().err
