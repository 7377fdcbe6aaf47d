"""The table's form, the invariants, and the search for what a job left behind."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from faults import leftovers
from faults.case import (
    BUSY,
    CONTINUES,
    DAMAGES,
    FAILS,
    LIMITS_S,
    NEVER_JOINS,
    REFUSES,
    STOPS,
    FaultCase,
    seconds_to_exit,
    unexpected,
)
from faults.cases import CASES
from faults.invariants import violations
from faults.job import CLUSTERS, ROOT, FinishedJob
from faults.judge import Verdict
from faults.sabotage import busy_cpus, damaged_digits
from tfhet.container.cgroup import Cgroup
from tfhet.container.hierarchy import Hierarchy
from tfhet.errors import DataError
from tfhet.record import RunSummary
from tfhet.simulate import Fault, Simulation, load, presets
from tfhet.simulate.fault import KINDS
from tfhet.source import TFRecordSource, find

HOSTS = {"data-1": "algo-3", "data-2": "algo-1", "dnn-1": "algo-2", "dnn-2": "algo-4"}
LAUNCHERS = ("algo-3", "algo-1", "algo-2/0", "algo-2/1", "algo-4/2", "algo-4/3")
WHOLE = {"expected": 100, "before": 10, "once": 90, "repeated": 0, "missing": 0}
EPOCH_0, EPOCH_1 = {"epoch": 0, **WHOLE}, {"epoch": 1, **WHOLE}
TOLD = "second-job:data-1: the second job ended: exit code"


def finished(*faults: str, code: int = 0, told: tuple[str, ...] = (), **given: Any) -> FinishedJob:
    """A job whose launchers ended with `code`, under faults that were all done."""
    codes = {**dict.fromkeys(LAUNCHERS, code), **given.pop("codes", {})}
    cause = given.pop("cause", "algo-4/2: rank 2 died" if any(codes.values()) else None)
    epochs, lost = given.pop("epochs", [EPOCH_0, EPOCH_1]), given.pop("lost", {})
    lines = [*(f"{fault}: done" for fault in faults), *told]
    events = [{"event": "fault.injected", "time_s": 10.0, "fault": line} for line in lines]
    events.append({"event": "launchers.gone", "time_s": 12.5})
    summary = RunSummary(exit_codes=codes, exit_code=code, cause=cause, epochs=epochs, lost_hosts=lost, started=5.0)
    parsed = tuple(map(Fault.parse, faults))
    return FinishedJob(parsed, summary, HOSTS, 4, events, **given)


@pytest.mark.parametrize(
    ("job", "word"),
    [
        (finished(), ""),
        (finished("kill:worker", "kill:host@data-1", codes={"algo-3": -9}), ""),
        (finished("kill:launcher@dnn-1", code=1, codes={"algo-2/0": -9, "algo-2/1": 2}), ""),
        (finished("partition:data-1", codes={"algo-3": 1}), ""),  # it cannot know how the job ended
        (finished("hang:host@data-1:for=12", codes={"algo-3": 1}, lost={"algo-3": "silent"}), ""),
        (finished("hang:host@data-1", codes={"algo-3": -9}), ""),
        (finished("second-job:data-1", told=(f"{TOLD} 2: the port 6001 is in use",)), ""),
        (finished("late-join:data-1:after=50", code=1), ""),
        (finished(code=137, epochs=[]), ""),
        (finished(left=("process 7",)), "left behind: process 7"),
        (finished(codes={"algo-1": 1}), "do not agree"),
        (finished("kill:host@data-1", codes={"algo-1": -9}), "do not agree"),
        (finished("partition-in:data-1:for=1", codes={"algo-3": 1}), "do not agree"),
        (finished("hang:launcher@dnn-1:for=11", codes=dict.fromkeys(LAUNCHERS[:2], 1)), "do not agree"),
        (finished("partition:data-1", code=1, codes={"algo-3": 0}), "ended with 0"),
        (finished(code=1, cause=""), "no cause"),
        (finished(code=1, cause="no launcher said why ()"), "no cause"),
        (finished(code=143, cause="the job ran longer than 100 s"), "deadline"),
        (finished("second-job:data-1", told=(f"{TOLD} 1: the port",)), "second job"),
        (finished("second-job:data-1", told=(f"{TOLD} 0: ",)), "second job"),
        (finished(epochs=[EPOCH_0]), "1 of 2 epochs"),
        (finished(epochs=[EPOCH_0, {**EPOCH_1, "once": 87}]), "97 of 100"),
        (finished(epochs=[EPOCH_0, {**EPOCH_1, "once": 87, "missing": 3}]), "counts 3 examples missing, the judge 0"),
    ],
)
def test_violated_invariants_are_found(job: FinishedJob, word: str) -> None:
    found = violations(job, Verdict())
    assert len(found) == bool(word)
    assert word in "".join(found)


def test_judge_decides_and_the_audit_must_agree() -> None:
    repeated = Verdict(("epoch 1: 3 examples repeated",), repeated=3)
    assert len(violations(finished(), repeated)) == 2
    assert len(violations(finished(), repeated, has_audit=False)) == 1
    assert len(violations(finished(code=1), repeated)) == 1


def test_stopped_job_is_accounted_for_by_the_next() -> None:
    stopped = finished("sigterm:host@data-1", code=143, epochs=[EPOCH_0])
    assert violations(stopped, Verdict(), finished()) == []
    assert violations(stopped, Verdict(), finished(epochs=[EPOCH_1])) == []  # the stop came in the last epoch
    assert len(violations(stopped, Verdict(), finished(epochs=[EPOCH_0]))) == 1
    assert len(violations(stopped, Verdict(), finished(code=1))) == 1
    torn = finished(code=1, cause="none of the 1 checkpoints in /x is whole: remove them")
    assert len(violations(stopped, Verdict(), torn)) == 1
    assert (
        violations(dataclasses.replace(stopped, faults=(Fault.parse("half-checkpoint:dnn-1"),)), Verdict(), torn) == []
    )


def test_checkpoints_are_whole_or_absent(tmp_path: Path) -> None:
    for name, size in (("checkpoint-0001-0000000010", 3), ("checkpoint-0001-0000000020", 2)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "state").write_bytes(b"123"[:size])
        files = {"state": {"size": 3, "sha256": hashlib.sha256(b"123").hexdigest()}}
        (tmp_path / name / "manifest.json").write_text(json.dumps({"files": files}))
    assert violations(finished(checkpoints=tmp_path), Verdict()) == ["checkpoint-0001-0000000020 is not whole"]
    assert violations(finished("half-checkpoint:dnn-1", checkpoints=tmp_path), Verdict()) == []


def test_cases_have_names_ends_and_causes() -> None:
    assert len(CASES) >= 90
    assert len({case.name for case in CASES}) == len(CASES)
    assert {case.end for case in CASES} == set(LIMITS_S)
    assert {fault.kind for case in CASES for fault in case.parsed} == set(KINDS)
    for case in CASES:
        assert case.cluster in {*presets(), *CLUSTERS}
        assert not case.before or case.before in DAMAGES or case.before.startswith(BUSY)
        assert case.named or case.end == CONTINUES


def case(end: str, *faults: str, **more: Any) -> FaultCase:
    return FaultCase(faults, end, **more)


@pytest.mark.parametrize(
    ("case", "job", "word"),
    [
        (case(CONTINUES, "kill:worker"), finished("kill:worker"), ""),
        (case(CONTINUES), finished(code=1), "exit codes"),
        (case(CONTINUES, lost=("data-1",)), finished(lost={"algo-3": "silent"}), ""),
        (case(CONTINUES, lost=("data-1",)), finished(), "lost hosts"),
        (case(CONTINUES, bad=1), finished(epochs=[{**EPOCH_0, "bad": 1}, {**EPOCH_1, "bad": 1}]), ""),
        (case(CONTINUES, bad=1), finished(), "skipped"),
        (case(FAILS, named=("data-1",)), finished("kill:rank=1", code=1, cause="algo-3 was lost"), ""),
        (case(FAILS, named=("data-",)), finished("kill:rank=1", code=1, cause="algo-1 was lost"), ""),
        (case(FAILS, named=("data-1",)), finished("kill:rank=1", code=1, cause="algo-1 was lost"), "does not name"),
        (case(FAILS), finished("kill:rank=1", code=143), "exit codes"),
        (case(FAILS), finished("kill:rank=1", code=1, codes={"algo-1": 2}), "different codes"),
        (case(FAILS, is_linked=False), finished("kill:rank=1", code=1, codes={"algo-1": 2}), ""),
        (case(FAILS), finished(code=1), "the last exit"),
        (case(NEVER_JOINS, before="truncated"), finished(code=1), ""),
        (case(REFUSES), finished(code=1), "the last exit"),
        (case(STOPS, code=143), finished("sigterm:launcher", code=143), ""),  # before the first step
    ],
)
def test_other_ends_than_the_case_says_are_found(case: FaultCase, job: FinishedJob, word: str) -> None:
    found = unexpected(case, dataclasses.replace(job, faults=()), None)
    assert len(found) == bool(word)
    assert word in "".join(found)


def test_time_to_exit_counts_from_the_first_harm() -> None:
    events = [
        {"event": "fault.injected", "time_s": 2.0, "fault": "same-base:dnn-1: algo-1"},
        {"event": "fault.injected", "time_s": 12.0, "fault": "kill:rank=1: SIGKILL to process 7"},
        {"event": "job.decided", "time_s": 14.0},
        {"event": "launchers.gone", "time_s": 15.0},
    ]
    job = dataclasses.replace(finished(), events=events)
    assert [seconds_to_exit(case(end), job) for end in (FAILS, REFUSES, NEVER_JOINS)] == [3.0, 1.0, 10.0]
    assert seconds_to_exit(case(FAILS), finished()) is None
    assert case(FAILS, "hang:launcher@dnn-1:for=12").limit_s == 17.0


@pytest.mark.parametrize("damage", DAMAGES)
def test_one_data_file_is_damaged(damage: str, tmp_path: Path) -> None:
    source = TFRecordSource.from_directory(damaged_digits(tmp_path / "data", damage))
    if damage == "truncated":
        with pytest.raises(DataError, match="00005"):
            source.check()
    else:
        source.check()
        found = find(source)
        assert found is not None and "00005" in found.file


def test_busy_processes_end_with_the_context() -> None:
    before = set(psutil.Process().children())
    with busy_cpus():
        busy = set(psutil.Process().children()) - before
        assert len(busy) == len(os.sched_getaffinity(0))
    assert not any(process.is_running() for process in busy)


@pytest.fixture
def job(tmp_path: Path) -> Simulation:
    return Simulation(load("demo"), ["scripts/launcher.py"], tmp_path / "run", code=ROOT)


def test_a_process_of_the_run_is_found(tmp_path: Path) -> None:
    env = {**os.environ, "HERE": str(tmp_path / "hosts")}
    with subprocess.Popen([sys.executable, "-c", "input()"], env=env, stdin=subprocess.PIPE) as process:
        assert [line.split(":")[0] for line in leftovers.processes(tmp_path)] == [f"process {process.pid}"]
        process.communicate(b"\n", timeout=30)
    assert leftovers.processes(tmp_path) == []


def test_a_listener_is_found_unless_it_is_older() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert len(leftovers.listeners([port], 0.0)) == 1
        assert leftovers.listeners([port], 1e11) == []
    assert leftovers.listeners([port], 0.0) == []


def test_folders_and_control_groups_are_found(job: Simulation, tmp_path: Path, monkeypatch) -> None:
    tree = Hierarchy(tmp_path / "cpu", 1, ("cpu",))
    paths = [
        tmp_path / "tmp" / "tfhet-1",
        job.hosts[0].paths.base / "tfhet" / "tfhet-journal-2",
        job.folder.path / "hosts" / ".scratch-3",
        tree.top / "tfhet-abcd-algo-1",
    ]
    for path in paths:
        path.mkdir(parents=True)
    monkeypatch.setattr(Simulation, "cgroups", {"algo-1": Cgroup("tfhet-abcd-algo-1", [tree])})
    assert len(leftovers.left_behind(job, 0.0, (), 0.0)) == 4
    assert len(leftovers.left_behind(job, 0.0, {job.hosts[0].name}, 0.0)) == 3
    for path in paths:
        path.rmdir()
    assert leftovers.left_behind(job, 0.0, (), 0.0) == []
