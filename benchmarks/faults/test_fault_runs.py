"""How a case of the table is run, and what is found afterwards."""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.cluster_runs import leftovers
from benchmarks.cluster_runs.observed_job import ObservedJob
from benchmarks.faults import sabotage, suite as faults, table as fault_table
from benchmarks.faults.case import DAMAGES, FaultCase
from tfhet.cluster import HostPaths, Ports
from tfhet.container.cgroup import Cgroup
from tfhet.container.hierarchy import Hierarchy
from tfhet.errors import DataError, JobFailed, UsageError
from tfhet.events import Event
from tfhet.record import Figure, Record, RunSummary
from tfhet.simulate import Fault, load
from tfhet.simulate.host import SimulatedHost
from tfhet.simulate.simulation import STOPPED_ON_REQUEST, Simulation


def host(name: str, group: str, tmp_path: Path, ports: Ports) -> SimulatedHost:
    serves = bool(ports.plane.get("workers"))
    return SimulatedHost(name, group, "ml.c5.xlarge", "127.0.0.2", ports, 1, HostPaths(tmp_path / name), serves=serves)


def watched(tmp_path: Path, *faults: str) -> ObservedJob:
    launcher = tmp_path / "launcher.py"
    launcher.write_text("", encoding="utf-8")
    parsed = [Fault.parse(text) for text in faults]
    return ObservedJob(load("two-data-two-dnn"), [str(launcher)], tmp_path / "place", faults=parsed)


def test_places_are_the_hosts_in_order_and_a_host_that_is_gone_for_good_cannot_clean_up(
    tmp_path: Path,
) -> None:
    job = watched(tmp_path)
    names = fault_table.places(job)
    assert list(names) == ["data-1", "data-2", "dnn-1", "dnn-2"] and len(set(names.values())) == 4

    for text in ("kill:host@data-2", "hang:launcher@data-2"):
        assert leftovers.taken_away(Fault.parse(text), job) == {names["data-2"]}
    for text in ("partition:data-2", "hang:host@data-2:for=2", "kill:worker@data-2", "sigterm:host@data-2"):
        assert leftovers.taken_away(Fault.parse(text), job) == set()


def test_a_case_that_is_run_comes_out_with_its_times_hosts_and_checkpoints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Lost(ObservedJob):
        def run(self) -> RunSummary:
            self.folder.create()
            for name, at_s in (("fault.injected", 10.0), ("job.decided", 11.0), ("launchers.gone", 12.5)):
                self.folder.write_event(Event(name, at_s))
            self.checkpoints.mkdir()
            (self.checkpoints / "state").touch()
            data = self.named("data-1")[0].name
            codes = {host.name: -9 if host.name == data else 1 for host in self.hosts}
            return RunSummary(exit_codes=codes, exit_code=1, cause=f"{data} was lost", started=5.0, duration_s=8.0)

    monkeypatch.setattr(fault_table, "ObservedJob", Lost)
    monkeypatch.setattr(leftovers, "PATIENCE_S", 0.0)
    monkeypatch.setattr(leftovers.Before, "left_by", lambda *_: ())
    case = FaultCase(("kill:host@data-1",), "failure", ("data-1",))
    found = fault_table.run_case(case, _launcher(tmp_path), tmp_path / "case")
    assert found.breaches == []
    assert (found.exit_s, found.happened, found.checkpoints, found.ended) == (2.5, 1, 1, True)
    assert found.struck == {found.hosts["data-1"]} and set(found.hosts) == {"data-1", "dnn-1"}


def test_a_user_who_stops_a_case_stops_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Simulation, "run", lambda self: RunSummary(exit_code=1, cause=STOPPED_ON_REQUEST))
    with pytest.raises(JobFailed, match="stopped on request"):
        fault_table.run_case(FaultCase(("kill:worker",), "goes on"), _launcher(tmp_path), tmp_path / "case")


@pytest.mark.parametrize("damage", DAMAGES)
def test_one_data_file_is_damaged_where_a_reader_finds_it(
    damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tfhet.source import TFRecordSource, digits, find

    whole = digits.digits(tmp_path / "digits", shards=8)
    monkeypatch.setattr(digits, "digits", lambda directory: whole)
    folder = sabotage.damaged_digits(tmp_path / "data", damage)
    source = TFRecordSource.from_directory(folder)
    if damage == "truncated":
        with pytest.raises(DataError, match="00005"):
            source.check()
    else:
        source.check()
        found = find(source)
        assert found is not None and "00005" in found.file and found.offset > 0


def _launcher(tmp_path: Path) -> Path:
    path = tmp_path / "launcher.py"
    path.touch()
    return path


def test_the_lines_of_rank_0_are_noted_with_the_first_one_told(tmp_path: Path) -> None:
    job, told = watched(tmp_path), []
    job.on_first_step = lambda: told.append(len(job.steps))
    job.hear("[algo-1/0] [tfhet] step=10 epoch=0 step_ms=1.0 examples_per_s=3 wait_pct=0.0")
    job.hear("[algo-1/0] [tfhet] step=20 epoch=1 step_ms=1.0 examples_per_s=3 wait_pct=0.0")
    job.hear("[algo-1/0] [tfhet] end of epoch=1 steps=20")
    assert [(moment.step, moment.epoch) for moment in job.steps] == [(10, 0), (20, 1)]
    assert [moment.epoch for moment in job.epoch_ends] == [1] and told == [1]


def test_a_process_with_the_runs_folder_in_its_environment_is_found(tmp_path: Path) -> None:
    env = {**os.environ, "HERE": str(tmp_path / "hosts")}
    with subprocess.Popen([sys.executable, "-c", "input()"], env=env, stdin=subprocess.PIPE) as process:
        assert any(f"process {process.pid}:" in thing for thing in leftovers.processes(tmp_path))
        process.communicate(b"\n", timeout=30)
    assert leftovers.processes(tmp_path) == ()


def test_a_socket_that_listens_is_found_unless_its_process_is_older_than_the_run() -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        port = listening.getsockname()[1]
        (found,) = leftovers.sockets([port], 0.0, 1e12)
        assert found == f"port {port}: process {os.getpid()} listens"
        assert leftovers.sockets([port], 1e11, 1e12) == ()
    assert leftovers.sockets([port], 0.0, 1e12) == ()


def test_journals_and_temporary_folders_are_found_but_not_those_of_a_host_that_was_taken_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leftovers, "PATIENCE_S", 0.0)
    job = watched(tmp_path)
    before = leftovers.Before.now()
    (job.temporary / "tfhet-journal-1").mkdir()
    (job.hosts[0].paths.base / "tfhet" / "tfhet-journal-2").mkdir(parents=True)
    left = before.left_by(job)
    assert len([thing for thing in left if thing.startswith("folder")]) == 2
    left = before.left_by(job, {job.hosts[0].name})
    assert [thing for thing in left if thing.startswith("folder")] == [f"folder {job.temporary / 'tfhet-journal-1'}"]


def test_a_control_group_that_was_not_removed_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leftovers, "PATIENCE_S", 0.0)
    trees = [Hierarchy(tmp_path / name, 1, (name,)) for name in ("cpu", "memory")]
    for tree in trees:
        (tree.top / "tfhet-abcd-algo-1").mkdir(parents=True)
    cgroups = {"algo-1": Cgroup("tfhet-abcd-algo-1", trees)}
    monkeypatch.setattr(ObservedJob, "cgroups", cgroups)
    job, before = watched(tmp_path), leftovers.Before.now()
    left = {thing for thing in before.left_by(job) if thing.startswith("cgroup")}
    assert left == {f"cgroup {tree.top / 'tfhet-abcd-algo-1'}" for tree in trees}
    for tree in trees:
        (tree.top / "tfhet-abcd-algo-1").rmdir()
    assert not [thing for thing in before.left_by(job) if thing.startswith("cgroup")]


def test_a_taken_port_is_the_one_that_was_asked_for(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    chief = host("algo-1", "dnn_group", tmp_path, Ports(1, {"dispatcher": (port,), "workers": ()}))
    data = host("algo-2", "data_group", tmp_path, Ports(1, {"dispatcher": (2,), "workers": (3,)}))
    with sabotage.taken([chief, data], chief, "dispatcher") as taken, socket.socket() as other:
        assert taken == port
        with pytest.raises(OSError):
            other.bind(("0.0.0.0", port))
    with pytest.raises(UsageError), sabotage.taken([chief, data], chief, "door"):
        pass


def test_options_that_exclude_each_other_are_refused() -> None:
    parser = argparse.ArgumentParser(exit_on_error=False)
    faults.SUITE.options(parser)
    with pytest.raises((SystemExit, argparse.ArgumentError)):
        parser.parse_args(["--endurance", "--overhead"])


def test_a_record_names_files_without_their_places():
    from benchmarks.faults.case import bare

    assert bare("bad record in /tmp/x-1/run/part-0.tfrecord at byte 5") == "bad record in part-0.tfrecord at byte 5"
    assert (
        bare("process 6 (/opt/venv/bin/python -m tfhet) / 3 s; and/or") == "process 6 (python -m tfhet) / 3 s; and/or"
    )


def test_the_command_fails_when_any_run_broke_a_promise() -> None:
    is_kept = faults.SUITE.is_kept
    assert is_kept is not None
    for breaches, kept in (([], True), (["it waits for data"], False)):
        details = {"cases": [{"case": "nothing", "breaches": []}, {"case": "calibration", "breaches": breaches}]}
        assert is_kept(Record.of("faults.endurance", {"x": Figure.of([1.0], unit="x")}, details=details)) is kept
