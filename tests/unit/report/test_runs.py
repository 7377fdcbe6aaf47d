"""report/run_tables.py and run_view.py: one run, several runs, the runs of a folder, and the CPUs that hosts used."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from tfhet.__main__ import main
from tfhet.advice import of_run
from tfhet.errors import UsageError
from tfhet.events import Event
from tfhet.record import Pause, RunFolder, RunSummary, Spread, StepTime, Timeline, latest_in, runs_in
from tfhet.report import compare, run_table, text
from tfhet.report.run_tables import places
from tfhet.report.run_view import RunView, reading_s, use_of_hosts


def summary(**changes: object) -> RunSummary:
    values: dict[str, object] = {
        "name": "demo",
        "mode": "heterogeneous",
        "cluster": {
            "data_group": {"hosts": ["algo-1"], "instance_type": "ml.c5.xlarge"},
            "dnn_group": {"hosts": ["algo-2"]},
        },
        "exit_codes": {"algo-1": 0, "algo-2/0": 0, "algo-2/1": -9},
        "exit_code": 0,
        "step_ms": Spread(86.1, 80.0, 95.0),
        "wait_pct": 3.1,
        "examples_per_s": 95143.0,
        "epochs": [{"epoch": 0, "seen": 1437, "expected": 1437, "missing": 0, "repeated": 0}],
        "stages_where": {"rescale()": "trainer", "dilate(size=3)": "data_group", "random_flip()": "data_group"},
    }
    return RunSummary(**{**values, **changes})  # type: ignore[arg-type]


def rows(run: RunSummary, folder: str | None = None) -> dict[str, str]:
    found = [line.strip().split("  ", 1) for line in text(run_table(run, folder)).splitlines() if "  " in line.strip()]
    return {name: value.strip() for name, value in found}


def test_table_of_a_run() -> None:
    shown = rows(summary(), "runs/demo")
    assert shown["step time"] == "86.1 ms (p10 80.0, p90 95.0)"
    assert shown["waiting for data"].startswith("3.1 %") and shown["examples/s"] == "95,143"
    assert "1437 exactly once" in shown["examples"]
    assert shown["on data_group"] == "dilate(size=3); random_flip()" and shown["on trainer"] == "rescale()"
    assert shown["exit code of algo-2/1 (dnn_group)"] == "signal 9" and shown["exit code of the job"] == "0"
    assert shown["run record"] == "runs/demo"
    failed = rows(summary(exit_code=3, cause="algo-2: train.py exited with 3"))
    assert (failed["exit code of the job"], failed["cause"]) == ("3", "algo-2: train.py exited with 3")


def test_unknown_values_are_dashes() -> None:
    shown = rows(RunSummary())
    assert shown["step time"] == shown["waiting for data"] == shown["examples/s"] == "–"


def test_job_that_read_nothing_says_so() -> None:
    cluster = {"data_group": {"hosts": ["algo-1"], "role": "data"}, "dnn_group": {"hosts": ["algo-2"], "role": "dnn"}}
    unread = summary(step_ms=None, wait_pct=None, epochs=(), cluster=cluster, ranks=2, has_read=False)
    assert "nobody read from 1 x data_group" in rows(unread)["not read by tfhet"]
    assert of_run(unread).verdict.kind == "unread_data_group"
    alone = of_run(replace(unread, cluster={})).verdict
    assert alone.kind == "unread" and "data_group" not in alone.clause
    by_rank = [{"rank": 1, "steps": 9, "step_ms": 20.0, "wait_pct": 3.0}]
    others = replace(unread, exit_code=1), replace(unread, has_read=True), replace(unread, by_rank=by_rank), summary()
    for other in others:
        assert "not read by tfhet" not in rows(other)


EPOCH = {"epoch": 1, "seen": 40, "expected": 100, "once": 40, "missing": 0, "repeated": 0, "left": 60}
RANKS = [{"rank": n, "steps": 9, "step_ms": 20.0 + n, "wait_pct": 3.0 * n, "unused": 8} for n in (0, 1)]


@pytest.mark.parametrize(
    ("changes", "examples"),
    [
        ({"epochs": [{"epoch": 0, "examples": 288}], "not_counted": "no ids"}, ["not counted", "no ids"]),
        ({"epochs": [EPOCH], "by_rank": RANKS}, ["40 seen", "0 missing", "0 repeated", "60 not delivered", "16 held"]),
        (
            {"epochs": [{"seen": 10, "expected": 12, "missing": 2, "repeated": None}, {"loss": 1.0}]},
            ["10 seen", "2 missing", "0 repeated"],
        ),
    ],
)
def test_examples_are_accounted_for(changes, examples) -> None:
    shown = rows(summary(**changes))
    assert all(words in shown["examples"] for words in examples)
    assert ("of the ranks" in shown) == ("by_rank" in changes)


def test_epoch_starts_are_separate_from_steady_state() -> None:
    """Two epochs of 20 steps, whose first 3 steps are the warm-up; the second epoch begins with a wait."""
    wait_ms = [2.0] * 17 + [3700.0] + [2.0] * 19
    spreads = {"step_ms": Spread.of([98.0 + wait for wait in wait_ms]), "wait_ms": Spread.of(wait_ms)}
    run = summary(**spreads, wait_pct=None, epochs=[{"epoch": 0, "steps": 20}, {"epoch": 1, "steps": 20}])
    shown = rows(run)
    assert "51.0 %" in shown["waiting for data"] and "2.0 %" in shown["waiting for data"]
    assert all(part in shown["at epoch starts"] for part in ("50.0 %", "3.70 s in 1", "2.00 times"))
    assert shown["in the steady state"].startswith("1.0 %") and "in stalls" not in shown
    assert text(compare({"run": run})).count("2.00") == 2, "the median and the steady state"


def test_stall_is_reported_with_concurrent_events(tmp_path: Path) -> None:
    waits_s = [2.0 if at == 23 else 0.001 for at in range(40)]
    steps = [StepTime(0.1 + wait_s, wait_s, at_s=1000.0 + at) for at, wait_s in enumerate(waits_s)]
    folder = RunFolder(tmp_path)
    Timeline.of([*steps, Pause("checkpoint", 1019.0, 3.5)]).write(folder.timeline_path)
    folder.write_event(Event("service.restarted", 1024.0, {"name": "worker-1"}))
    folder.write_event(Event("reading.seen", 1024.0, {}))
    happened = RunView.of(RunSummary(), folder).happened
    assert [at_s for at_s, _ in happened] == [1022.5, 1024.0] and "worker-1" in happened[1][1]
    assert "2.00 s" in rows(RunSummary(), str(tmp_path))["in stalls"]


def test_places_are_in_order_of_the_cluster() -> None:
    found = places(summary(stages_where={"a": "moon", "b": "trainer", "c": "data_group"}))
    assert list(found) == ["data_group", "trainer", "moon"]


def test_runs_are_compared_with_the_first() -> None:
    slow = summary(name="homogeneous", mode="homogeneous", step_ms=Spread(172.2, 160.0, 190.0))
    shown = text(compare({"before": slow, "after": summary(), "empty": RunSummary()}))
    assert shown.split()[:3] == ["before", "after", "empty"]
    assert "86.1 (0.500x)" in shown and "USD" not in shown
    with pytest.raises(UsageError):
        compare({})


EVENTS = [
    {"event": "reading.seen", "time_s": 10.0},
    {"event": "rank.ended", "time_s": 50.0},
    {"event": "rank.ended", "time_s": 60.0},
    {"event": "host.ended", "time_s": 90.0},
    {"event": 3, "time_s": "x"},
]


def used(**changes: object) -> RunSummary:
    values = {
        "cluster": {"data_group": {"hosts": ["algo-2"]}, "dnn_group": {"hosts": ["algo-1"]}},
        "host_cpu_s": {"algo-1": 120.0, "algo-2": 60.0},
        "reading_cpu_s": {"algo-1": 50.0, "algo-2": 45.0},
        "limits": {"algo-2": {"cpus": 1.0, "memory_bytes": 5, "bits_per_s": 8.0}},
        "duration_s": 100.0,
    }
    return RunSummary(**{**values, **changes})


def test_reading_ends_with_the_last_rank() -> None:
    assert reading_s(EVENTS) == 50.0
    assert reading_s(EVENTS[1:]) is None and reading_s([]) is None


def test_cpu_use_counts_the_time_of_reading() -> None:
    data, dnn = use_of_hosts(used(), reading_s(EVENTS))
    assert (data.name, data.group, data.cpus_used, data.used_pct) == ("algo-2", "data_group", 0.9, 90.0)
    assert data.limits == {"cpus": 1.0, "memory_bytes": 5, "bits_per_s": 8.0}
    assert (dnn.name, dnn.cpus_used, dnn.limits, dnn.used_pct) == ("algo-1", 1.0, {}, None)
    for role, busiest in (("data", ("algo-2", 90.0)), ("dnn", None)):
        run = used(cluster={"data_group": {"hosts": ["algo-2"], "role": role}})
        assert RunView(run, "run", hosts=[data, dnn]).busiest_data_host == busiest
    assert [host.cpus_used for host in use_of_hosts(used())] == [0.6, 1.2], "of the whole run"
    assert [host.cpus_used for host in use_of_hosts(used(duration_s=None))] == [None, None]


def test_cpu_limit_is_drawn() -> None:
    chart = RunView(used(), "run", hosts=use_of_hosts(used(), 50.0)).use
    first, second = chart.figures
    drawn, limit = chart.axis.at(chart.figures[first].value), chart.axis.at(chart.limits[first])
    assert first == "algo-2 (data_group)" and limit == pytest.approx(drawn / 0.9) and second not in chart.limits
    assert RunView(used(), "run").use is None


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three runs, the latest called `b`, and a folder that is no run."""
    monkeypatch.chdir(tmp_path)
    summaries = {
        "a": RunSummary(name="a", started=1_700_000_000.0, exit_code=3, cause="it broke"),
        "b": RunSummary(name="b", started=1_700_000_100.0, exit_code=0, step_ms=Spread.of([86.1] * 3), wait_pct=3.14),
        "c": None,
    }
    for at, (name, content) in zip((10, 30, 20), summaries.items(), strict=True):
        folder = RunFolder(Path("runs") / name).create()
        if content is not None:
            folder.write_summary(content)
        os.utime(folder.logs_path, (at, at))
    Path("runs/notes").mkdir()
    return tmp_path / "runs"


def test_latest_run_is_found(runs):
    assert [run.path.name for run in runs_in(Path("runs"))] == ["b", "c", "a"]
    assert runs_in(Path("nowhere")) == []
    assert latest_in(Path("runs")) == Path("runs/b")
    for path in ("runs/a", "runs/notes", "nowhere", "runs/b/summary.json"):
        assert latest_in(Path(path)) == Path(path)


def test_runs_are_listed(runs, capsys):
    assert main(["runs"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if "runs/" in line]
    assert lines == [
        ["runs/b", "2023-11-14", "22:15:00", "succeeded", "86.1", "3.14"],
        ["runs/c", "–", "not", "ended", "–", "–"],
        ["runs/a", "2023-11-14", "22:13:20", "failed:", "3", "–", "–"],
    ]
    assert main(["runs", str(runs), "--json", "-"]) == 0
    found = [(Path(run["run"]).name, run["exit_code"], run["step_ms"]) for run in json.loads(capsys.readouterr().out)]
    assert found == [("b", 0, 86.1), ("c", None, None), ("a", 3, None)]


@pytest.mark.parametrize("words", [["top", "--once"], ["report"], ["top", "runs", "--once"], ["plan", "--run"]])
def test_commands_take_the_latest_run(runs, words, capsys):
    assert main(words) == (2 if words[0] == "plan" else 0)  # the run has no profile
    out, err = capsys.readouterr()
    assert "runs/b" in err and "runs/a" not in out


@pytest.mark.parametrize("command", ["runs", "top", "report"])
def test_missing_run_is_wrong_use(tmp_path, monkeypatch, command, capsys):
    monkeypatch.chdir(tmp_path)
    assert main([command]) == 2
    assert "runs" in capsys.readouterr().err
