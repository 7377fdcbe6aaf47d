from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
import tensorflow as tf
from event_loop import in_event_loop, until
from own_wire import KEY, WIRE

from tfhet.cluster import check_free, free_ports
from tfhet.errors import JobFailed, NotReady, UsageError
from tfhet.planes.cpus import left_by, usable
from tfhet.planes.process import KEPT
from tfhet.planes.supervised import Happening, RestartPolicy
from tfhet.planes.tf_service import Fleet
from tfhet.planes.tf_service.transport import Transport, is_registered
from tfhet.schema import to_json

HOST = "algo-1"


@dataclass
class Observed:
    """The output and the events of a fleet."""

    lines: list[str] = field(default_factory=list)
    events: list[tuple[str, dict]] = field(default_factory=list)

    def note(self, process: str, happening: Happening) -> None:
        """Events are named as their classes: Started, Died, Ready and so on."""
        self.events.append((type(happening).__name__, {"process": process, **to_json(happening)}))

    @contextlib.asynccontextmanager
    async def fleet(self, env: dict[str, str] | None = None, **options: Any) -> AsyncIterator[Fleet]:
        env = dict(os.environ) if env is None else env
        fleet = Fleet(HOST, "127.0.0.1", env, key=KEY, on_line=self.lines.append, observe=self.note, **options)
        try:
            yield fleet
        finally:
            await fleet.stop()

    def of(self, name: str) -> list[dict]:
        """The fields of all events of a name."""
        return [fields for event, fields in self.events if event == name]

    def pids(self) -> dict[str, int]:
        return {fields["process"]: fields["pid"] for fields in self.of("Started")}


RIGHTS = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs")


def rights_of(pid: int) -> set[tuple[str, ...]]:
    """The kernel's values of RIGHTS for each thread of a process."""
    found = set()
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # the thread has ended
            status = dict(line.split(":", 1) for line in (thread / "status").read_text().splitlines())
            found.add(tuple(status[name].strip() for name in RIGHTS))
    return found


# Real processes, one life for all facts


@dataclass
class Life:
    """Observations of a fleet from its start to its end."""

    observed: Observed = field(default_factory=Observed)
    ports: tuple[int, ...] = ()
    registered: int = 0
    read: list[list[int]] = field(default_factory=list)
    """Elements at first, after the death of a worker and of the dispatcher, and after a renewal."""
    alive_before: list[bool] = field(default_factory=list)
    rights: dict[str, set[tuple[str, ...]]] = field(default_factory=dict)
    alive_after: list[bool] = field(default_factory=list)
    replaced: set[str] = field(default_factory=set)
    """Processes that the renewal has replaced."""
    knows_earlier_data: bool = True
    restarts: int = 0


@pytest.fixture(scope="module")
def life() -> Life:
    seen = Life(ports=free_ports(3))
    dispatcher, pids = f"127.0.0.1:{seen.ports[0]}", seen.observed.pids

    async def scenario() -> None:
        async with seen.observed.fleet({**os.environ, "TF_CPP_MIN_LOG_LEVEL": "0"}) as fleet:
            await fleet.start_dispatcher(seen.ports[0], 120)
            await fleet.start_workers(seen.ports[1:], dispatcher, 120)
            await until(lambda: fleet.workers_registered == 2)
            seen.registered = fleet.workers_registered
            seen.read.append(await asyncio.to_thread(read, "first"))
            seen.alive_before = [psutil.pid_exists(pid) for pid in pids().values()]
            seen.rights = {name: rights_of(pid) for name, pid in pids().items()}
            await killed_and_read("worker-1", "again")
            await killed_and_read("dispatcher", "after")
            before = pids()
            fleet.renew_dispatcher()
            await until(lambda: fleet.workers_registered == 2)
            seen.replaced = {name for name, pid in pids().items() if pid != before[name]}
            seen.knows_earlier_data = await asyncio.to_thread(is_registered, WIRE, dispatcher, "after")
            seen.read.append(await asyncio.to_thread(read, "after"))
            seen.restarts = fleet.restarts
        seen.alive_after = [psutil.pid_exists(pid) for pid in pids().values()]

    async def killed_and_read(process: str, name: str) -> None:
        killed = pids()[process]
        os.kill(killed, signal.SIGKILL)
        await until(lambda: pids()[process] != killed)
        seen.read.append(await asyncio.to_thread(read, name))

    def read(name: str) -> list[int]:
        transport, data = Transport(), tf.data.Dataset.range(20)
        transport.publish(WIRE, dispatcher, data, name)
        return sorted(int(one) for one in transport.read(WIRE, dispatcher, name, data.element_spec, "dynamic"))

    asyncio.run(scenario())
    return seen


def test_fleet_serves_data_from_own_processes(life: Life):
    assert life.read[0] == list(range(20)) and life.registered == 2
    assert set(life.observed.pids()) == {"dispatcher", "worker-0", "worker-1"}
    assert life.alive_before == [True] * 3 and os.getpid() not in life.observed.pids().values()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has capabilities to give up")
def test_no_thread_has_roots_capabilities(life: Life):
    (own,) = rights_of(os.getpid())
    kept, none = sum(1 << number for number in KEPT), f"{0:016x}"
    permitted, bounding = (f"{int(own[RIGHTS.index(name)], 16) & kept:016x}" for name in ("CapPrm", "CapBnd"))
    expected = {(none, permitted, permitted, bounding, none, "1")}
    assert life.rights == dict.fromkeys(("dispatcher", "worker-0", "worker-1"), expected)


def test_events_are_observed_in_order(life: Life):
    found = [(event, fields["process"]) for event, fields in life.observed.events]
    assert found[:2] == [("Started", "dispatcher"), ("Ready", "dispatcher")]
    for worker in ("worker-0", "worker-1"):
        assert found.index(("Started", worker)) < found.index(("Ready", worker))


def test_output_has_the_process_name_and_no_reports(life: Life):
    assert all(line.startswith(("[dispatcher] ", "[worker-0] ", "[worker-1] ")) for line in life.observed.lines)
    assert not any('"type"' in line for line in life.observed.lines)


def test_killed_processes_are_restarted_at_their_ports(life: Life):
    assert life.read[1:3] == [list(range(20))] * 2
    assert life.restarts == 2
    died = [(fields["process"], fields["code"]) for fields in life.observed.of("Died")]
    assert died == [("worker-1", -signal.SIGKILL), ("dispatcher", -signal.SIGKILL)]


def test_renewed_dispatcher_has_workers_and_no_memory(life: Life):
    assert life.replaced == {"dispatcher"} and not life.knows_earlier_data
    assert life.read[3] == list(range(20))


def test_stopped_fleet_leaves_nothing(life: Life):
    assert life.alive_after == [False] * 3
    for port in life.ports:
        check_free(port)


# A stand-in for the server, for rare events


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Makes the fleet run a shell script: $3 is the kind of the process, the rest its arguments."""

    def install(script: str) -> None:
        path = tmp_path / "server"
        path.write_text("#!/bin/bash\n" + script)
        path.chmod(0o755)
        monkeypatch.setattr("tfhet.planes.tf_service.fleet.sys", SimpleNamespace(executable=str(path)))

    return install


SENDS = """printf '{}' >&${{TFHET_CHANNEL%%:*}}\n"""
READY = SENDS.format('{"type": "ready", "port": 1}')


@in_event_loop
async def test_busy_port_is_refused_before_anything_starts():
    observed = Observed()
    with socket.create_server(("0.0.0.0", 0)) as other:
        port = other.getsockname()[1]
        async with observed.fleet() as fleet:
            with pytest.raises(UsageError, match=f"port {port}"):
                await fleet.start_dispatcher(port, 5)
            with pytest.raises(UsageError, match=f"port {port}"):
                await fleet.start_workers([*free_ports(1), port], "algo-1:1", 5)
    assert observed.events == []


@in_event_loop
async def test_late_processes_are_named_at_the_deadline(server):
    server(f'case "$*" in *" --port $SLOW "*) ;; *) {READY} ;; esac\nexec sleep 60\n')
    ports = free_ports(2)
    async with Observed().fleet({**os.environ, "SLOW": str(ports[1])}) as fleet:
        with pytest.raises(NotReady, match="^algo-1: worker-1 did"):
            await fleet.start_workers(ports, "algo-1:1", 1)


@in_event_loop
async def test_cancelled_start_prints_nothing(server, caplog):
    server("exec sleep 60\n")
    async with Observed().fleet() as fleet:
        starting = asyncio.create_task(fleet.start_workers(free_ports(2), "algo-1:1", 60))
        await asyncio.sleep(0.2)
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
    gc.collect()  # asyncio logs unread results when they are collected
    assert caplog.messages == []


@in_event_loop
async def test_failure_at_start_has_code_and_last_lines(server):
    server("echo no such device\nexit 3\n")
    observed = Observed()
    async with observed.fleet() as fleet:
        with pytest.raises(JobFailed, match="dispatcher on algo-1") as failed:
            await fleet.start_dispatcher(free_ports(1)[0], 30)
    assert (failed.value.code, failed.value.log_tail) == (3, ("no such device",))
    assert observed.lines == ["[dispatcher] no such device"]


@pytest.mark.parametrize(("end", "words"), [("exit 0", "exit code 0"), ("kill -9 $$", "SIGKILL")])
@in_event_loop
async def test_process_that_keeps_dying_fails_the_job(server, end, words):
    server(READY + f"sleep 0.05\necho last words\n{end}\n")
    observed = Observed()
    async with observed.fleet(policy=RestartPolicy(limit=2, backoff_s=0.01)) as fleet:
        await fleet.start_dispatcher(free_ports(1)[0], 30)
        failed = await fleet.failure()
    assert words in str(failed) and "3 times" in str(failed)
    assert failed.log_tail[-1] == "last words"
    assert len(observed.of("Died")) == 2


@pytest.mark.parametrize(
    ("script", "policy", "died"),
    [
        ("exec sleep 60\n", {"silence_s": 0.3}, 1),
        ("kill -STOP $$\n", {"silence_s": 300, "stopped_s": 0.3}, 1),
        ("while [ ! -e {served} ]; do sleep 0.01; done\nexit 3\n", {"start_s": 120, "restart_s": 0.3}, 2),
    ],
    ids=["silent", "stopped", "silent after a restart"],
)
@in_event_loop
async def test_silent_process_is_killed_and_restarted(server, tmp_path, script, policy, died):
    served = tmp_path / "served"
    server(f"[ -e {served} ] && exec sleep 60\n{READY}{script.format(served=served)}")
    observed = Observed()
    async with observed.fleet(policy=RestartPolicy(backoff_s=0.01, **policy)) as fleet:
        await fleet.start_dispatcher(free_ports(1)[0], 30)
        if died == 2:
            served.touch()  # from now on it may end, and never becomes ready again
        await until(lambda: len(observed.of("Died")) >= died)
    assert "0.3 s" in observed.of("Died")[died - 1]["cause"]


@in_event_loop
async def test_unreadable_reports_are_ignored(server):
    odd = "".join(map(SENDS.format, ("rubbish", "[1]", '{"type": "odd"}', '{"type": "ready", "port": 0}')))
    server(f"{odd}{READY}exec sleep 60\n")
    async with Observed().fleet() as fleet:
        await fleet.start_dispatcher(free_ports(1)[0], 30)


@in_event_loop
async def test_process_that_ignores_sigterm_is_killed(server):
    server(f"trap '' TERM\n{READY}while true; do sleep 1; done\n")
    observed = Observed()
    async with observed.fleet() as fleet:
        await fleet.start_dispatcher(free_ports(1)[0], 30)
        await fleet.stop(grace_s=0.1)
    assert not psutil.pid_exists(observed.pids()["dispatcher"])


@in_event_loop
async def test_renewed_dispatcher_keeps_port_and_changes_journal(server):
    server(f'echo "$@"\n{READY}exec sleep 60\n')
    observed, (port,) = Observed(), free_ports(1)
    async with observed.fleet() as fleet:
        await fleet.start_dispatcher(port, 30)
        for times in (2, 3):
            fleet.renew_dispatcher()
            assert fleet.workers_registered == 0
            await until(lambda times=times: len(observed.lines) == times)
            work_dir = Path(observed.lines[-1].split("--work_dir ")[1].split()[0])
            assert len(list(work_dir.rglob("journal_0"))) == 1  # with numbers of its own
        assert fleet.restarts == 0
    journals = [Path(line.split("--work_dir ")[1].split()[0]) for line in observed.lines]
    assert len(set(journals)) == 3 and len({journal.parent for journal in journals}) == 1
    assert all(f"--port {port} " in line for line in observed.lines)
    assert not journals[0].parent.exists()
    assert not observed.of("Died")


@in_event_loop
async def test_reports_of_a_replaced_dispatcher_do_not_count(server, tmp_path):
    """Two hosts lost within a second: the first renewed dispatcher is replaced before its reports are read."""
    reports = READY + SENDS.format('{"type": "registered", "workers": 7}')
    server(f"sleep 0.3\n{reports}touch {tmp_path}/sent-$$\nexec sleep 60\n")
    observed = Observed()
    async with observed.fleet() as fleet:
        await fleet.start_dispatcher(free_ports(1)[0], 30)
        await until(lambda: fleet.workers_registered == 7)
        before = observed.pids()["dispatcher"]
        fleet.renew_dispatcher()
        await until(lambda: observed.pids()["dispatcher"] != before)
        until_s, sent = time.monotonic() + 30, tmp_path / f"sent-{observed.pids()['dispatcher']}"
        while not sent.exists() and time.monotonic() < until_s:
            time.sleep(0.01)  # blocks the event loop: the reports stay in the channel
        assert sent.exists()
        count = len(observed.events)
        fleet.renew_dispatcher()
        assert fleet.workers_registered == 0
        await until(lambda: len(observed.of("Started")) == 3)
        assert observed.events[count][0] == "Started"


@in_event_loop
async def test_worker_with_unreportable_work_is_replaced_once(server, tmp_path):
    words = (
        "2026-11-23 07:09:04.73: W tensorflow/core/data/service/worker_impl.cc:518] Failed to send task updates to "
        "dispatcher: NOT_FOUND: Failed to send worker update: Task 4001 not found"
    )
    prints = f"if mkdir {tmp_path}/was-here; then for n in 1 2 3; do echo '{words}'; done; fi\n"
    server(f"{READY}{prints}echo level $TF_CPP_MIN_LOG_LEVEL\nexec sleep 60\n")
    observed = Observed()
    async with observed.fleet({**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}) as fleet:
        await fleet.start_workers(free_ports(1), "algo-1:1", 30)
        await until(lambda: len(observed.of("Ready")) >= 2)
        await asyncio.sleep(0.3)
        assert fleet.restarts == 0
    assert len(observed.of("Started")) == 2 and not observed.of("Died")
    assert "[worker-0] level 1" in observed.lines  # warnings are printed whatever the user's level is


@in_event_loop
async def test_death_after_a_renewal_counts(server):
    server(READY + "exec sleep 60\n")
    observed = Observed()

    async def changed(before: int) -> None:
        await until(lambda: observed.pids()["dispatcher"] != before)

    async with observed.fleet() as fleet:
        await fleet.start_dispatcher(free_ports(1)[0], 30)
        for _ in range(2):
            before = observed.pids()["dispatcher"]
            fleet.renew_dispatcher()
            fleet.renew_dispatcher()  # while the first one's process starts
            await changed(before)
        await until(lambda: len(observed.of("Ready")) >= 3)
        before = observed.pids()["dispatcher"]
        os.kill(before, signal.SIGKILL)
        await changed(before)
        assert fleet.restarts == 1


def test_fleet_needs_no_tensorflow(repository: Path):
    code = "import sys; from tfhet.planes.tf_service import Fleet; print('tensorflow' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], cwd=repository, capture_output=True, text=True, timeout=60)
    assert found.stdout.strip() == "False", found.stderr


# CPUs


@pytest.mark.skipif(len(usable()) < 2, reason="this process has one CPU only")
@in_event_loop
async def test_workers_stay_off_reserved_cpus_after_restarts():
    observed, ports, others = Observed(), free_ports(2), tuple(left_by(1, usable()))
    async with observed.fleet(gives_way=True) as fleet:
        await fleet.start_dispatcher(ports[0], 120)
        await fleet.start_workers(ports[1:], f"127.0.0.1:{ports[0]}", 120)
        first, dispatcher = observed.pids()["worker-0"], observed.pids()["dispatcher"]
        assert os.sched_getaffinity(first) == set(usable())
        assert fleet.keep_off(1) == others
        assert os.sched_getaffinity(first) == set(others)
        os.kill(first, signal.SIGKILL)
        await until(lambda: len(observed.of("Ready")) == 3)
        second = observed.pids()["worker-0"]
        assert second != first
        assert policies(second) == {os.SCHED_IDLE}
        assert os.sched_getaffinity(second) == set(others)
        assert fleet.keep_off(0) == usable()
        assert os.sched_getaffinity(second) == set(usable())
        assert os.sched_getaffinity(dispatcher) == set(usable())
        assert policies(dispatcher) == {os.sched_getscheduler(0)}


def policies(pid: int) -> set[int]:
    """Scheduling policies of its threads, except the main one, which reports."""
    found = set()
    for thread in {int(name) for name in os.listdir(f"/proc/{pid}/task")} - {pid}:
        with contextlib.suppress(ProcessLookupError):
            found.add(os.sched_getscheduler(thread))
    return found
