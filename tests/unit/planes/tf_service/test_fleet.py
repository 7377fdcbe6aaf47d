from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
import tensorflow as tf
from own_wire import KEY, WIRE

from tfhet.cluster import check_free, free_ports
from tfhet.errors import JobFailed, NotReady, UsageError
from tfhet.planes.cpus import left_by, usable
from tfhet.planes.privileges import KEPT
from tfhet.planes.supervised import Happening, RestartPolicy
from tfhet.planes.tf_service import Fleet
from tfhet.planes.tf_service.transport import Transport, is_registered
from tfhet.schema import to_json

HOST = "algo-1"


@dataclass
class Heard:
    """All that a fleet says."""

    lines: list[str] = field(default_factory=list)
    events: list[tuple[str, dict]] = field(default_factory=list)

    def note(self, process: str, happening: Happening) -> None:
        """Events are named as their classes are: Started, Died, Ready and so on."""
        self.events.append((type(happening).__name__, {"process": process, **to_json(happening)}))

    def fleet(self, env: dict[str, str] | None = None, policy: RestartPolicy | None = None) -> Fleet:
        return Fleet(
            HOST,
            "127.0.0.1",
            dict(os.environ) if env is None else env,
            key=KEY,
            on_line=self.lines.append,
            observe=self.note,
            policy=policy or RestartPolicy(),
        )

    def pids(self) -> dict[str, int]:
        return {fields["process"]: fields["pid"] for event, fields in self.events if event == "Started"}


async def _until(happened: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not happened():
            await asyncio.sleep(0.02)


def run(scenario: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(scenario)


RIGHTS = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs")


def rights_of(pid: int) -> set[tuple[str, ...]]:
    """The kernel's values of RIGHTS for each thread of a process that does not end meanwhile, in that order."""
    found = set()
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            said = dict(line.split(":", 1) for line in (thread / "status").read_text().splitlines())
            found.add(tuple(said[name].strip() for name in RIGHTS))
    return found


# Real processes, one life for all of the facts


@dataclass
class Life:
    """Observations of a fleet from its start to its end."""

    heard: Heard = field(default_factory=Heard)
    ports: tuple[int, ...] = ()
    registered: int = 0
    elements: list[int] = field(default_factory=list)
    alive_before: list[bool] = field(default_factory=list)
    rights: dict[str, set[tuple[str, ...]]] = field(default_factory=dict)
    """By process: the rights that its threads have."""
    alive_after: list[bool] = field(default_factory=list)
    again: list[int] = field(default_factory=list)
    after_journal: list[int] = field(default_factory=list)
    killed: dict[str, int] = field(default_factory=dict)
    restarts: int = 0
    died: list[dict] = field(default_factory=list)


@pytest.fixture(scope="module")
def life() -> Life:
    seen = Life(ports=free_ports(3))

    async def scenario() -> None:
        fleet = seen.heard.fleet({**os.environ, "TF_CPP_MIN_LOG_LEVEL": "0"})
        dispatcher = f"127.0.0.1:{seen.ports[0]}"
        try:
            await fleet.start_dispatcher(seen.ports[0], 120)
            await fleet.start_workers(seen.ports[1:], dispatcher, 120)
            await _until(lambda: fleet.workers_registered == 2)
            seen.registered = fleet.workers_registered
            seen.elements = await asyncio.to_thread(read, dispatcher, "first")
            pids = seen.heard.pids()
            seen.alive_before = [psutil.pid_exists(pid) for pid in pids.values()]
            seen.rights = {name: rights_of(pid) for name, pid in pids.items()}
            seen.again = await killed_and_read("worker-1", "again")
            seen.after_journal = await killed_and_read("dispatcher", "after")
            seen.restarts = fleet.restarts
            seen.died = [fields for event, fields in seen.heard.events if event == "Died"]
        finally:
            await fleet.stop()
            seen.alive_after = [psutil.pid_exists(pid) for pid in seen.heard.pids().values()]

    async def killed_and_read(process: str, name: str) -> list[int]:
        seen.killed[process] = seen.heard.pids()[process]
        os.kill(seen.killed[process], signal.SIGKILL)
        await _until(lambda: seen.heard.pids()[process] != seen.killed[process])
        return await asyncio.to_thread(read, f"127.0.0.1:{seen.ports[0]}", name)

    def read(dispatcher: str, name: str) -> list[int]:
        transport, data = Transport(), tf.data.Dataset.range(20)
        transport.publish(WIRE, dispatcher, data, name)
        found = transport.read(WIRE, dispatcher, name, data.element_spec, "dynamic")
        return sorted(int(value) for value in found)

    run(scenario())
    return seen


def test_a_fleet_serves_data_from_processes_of_its_own(life: Life):
    assert life.elements == list(range(20))
    assert life.registered == 2
    assert set(life.heard.pids()) == {"dispatcher", "worker-0", "worker-1"}
    assert life.alive_before == [True] * 3
    assert os.getpid() not in life.heard.pids().values()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has capabilities to give up")
def test_every_thread_of_its_processes_is_without_roots_capabilities(life: Life):
    (own,) = rights_of(os.getpid())
    kept, none = sum(1 << number for number in KEPT), f"{0:016x}"
    permitted, bounding = (f"{int(own[RIGHTS.index(name)], 16) & kept:016x}" for name in ("CapPrm", "CapBnd"))
    expected = {(none, permitted, permitted, bounding, none, "1")}
    assert life.rights == dict.fromkeys(("dispatcher", "worker-0", "worker-1"), expected)


def test_what_happens_is_told_in_order(life: Life):
    told = [(event, fields["process"]) for event, fields in life.heard.events]
    assert told[:2] == [("Started", "dispatcher"), ("Ready", "dispatcher")]
    for worker in ("worker-0", "worker-1"):
        assert told.index(("Started", worker)) < told.index(("Ready", worker))
    counts = [fields["workers"] for event, fields in life.heard.events if event == "Registered"]
    assert counts[-1] == 2 and counts == sorted(counts)


def test_the_output_of_each_process_comes_with_its_name_and_without_its_reports(life: Life):
    assert all(line.startswith(("[dispatcher] ", "[worker-0] ", "[worker-1] ")) for line in life.heard.lines)
    assert any("Started tf.data WorkerServer" in line for line in life.heard.lines if "[worker-1]" in line)
    assert not any('"type"' in line for line in life.heard.lines)


def test_a_worker_or_dispatcher_that_is_killed_is_started_again_at_its_port(life: Life):
    assert life.again == life.after_journal == list(range(20))
    assert life.restarts == 2
    assert [(told["process"], told["code"]) for told in life.died] == [
        ("worker-1", -signal.SIGKILL),
        ("dispatcher", -signal.SIGKILL),
    ]
    assert life.died[0]["cause"] == "worker-1 on algo-1 ended by itself (SIGKILL (out of memory?))"


def test_nothing_of_a_stopped_fleet_is_left(life: Life):
    assert life.alive_after == [False] * 3
    for port in life.ports:
        check_free(port)


# A stand-in for the server, for what a real one does rarely


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Makes the fleet run this shell script for its processes: $3 is the kind, the rest its arguments."""

    def install(script: str) -> None:
        path = tmp_path / "server"
        path.write_text("#!/bin/bash\n" + script)
        path.chmod(0o755)
        monkeypatch.setattr("tfhet.planes.tf_service.fleet.sys", SimpleNamespace(executable=str(path)))

    return install


SAYS = """printf '{}' >&${{TFHET_CHANNEL%%:*}}\n"""
READY = SAYS.format('{"type": "ready", "port": 1}')


def test_a_busy_port_is_an_error_before_anything_starts():
    with socket.socket() as taken:
        taken.bind(("0.0.0.0", 0))
        taken.listen()
        port = taken.getsockname()[1]
        heard = Heard()
        fleet = heard.fleet()
        with pytest.raises(UsageError, match=f"port {port} .* is in use by"):
            run(fleet.start_dispatcher(port, 5))
        with pytest.raises(UsageError, match=f"port {port} .* is in use by"):
            run(fleet.start_workers([*free_ports(1), port], "algo-1:1", 5))
        assert heard.events == []


def test_processes_that_do_not_come_up_are_named_at_the_deadline(server):
    server(f'case "$*" in *" --port $SLOW "*) ;; *) {READY} ;; esac\nexec sleep 60\n')
    ports = free_ports(2)

    async def scenario() -> None:
        fleet = Heard().fleet({**os.environ, "SLOW": str(ports[1])})
        try:
            await fleet.start_workers(ports, "algo-1:1", 1)
        finally:
            await fleet.stop()

    with pytest.raises(NotReady, match="^algo-1: worker-1 did not serve within 1 s$"):
        run(scenario())


def test_a_start_that_is_given_up_prints_nothing(server, caplog):
    server("exec sleep 60\n")

    async def scenario() -> None:
        fleet = Heard().fleet()
        starting = asyncio.create_task(fleet.start_workers(free_ports(2), "algo-1:1", 60))
        await asyncio.sleep(0.2)
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        await fleet.stop()

    run(scenario())
    gc.collect()  # what nobody has asked for is told when it goes
    assert caplog.messages == []


def test_a_process_that_fails_at_its_start_is_reported_with_its_code_and_last_lines(server):
    server("echo no such device\nexit 3\n")
    heard = Heard()

    async def scenario() -> None:
        fleet = heard.fleet()
        try:
            await fleet.start_dispatcher(free_ports(1)[0], 30)
        finally:
            await fleet.stop()

    with pytest.raises(JobFailed, match=r"dispatcher on algo-1 ended by itself \(exit code 3\)") as failed:
        run(scenario())
    assert failed.value.code == 3
    assert failed.value.log_tail == ("no such device",)
    assert heard.lines == ["[dispatcher] no such device"]


@pytest.mark.parametrize(("end", "words"), [("exit 0", "exit code 0"), ("kill -9 $$", "SIGKILL (out of memory?)")])
def test_a_process_that_keeps_dying_fails_the_job_with_the_number_of_deaths(server, end, words):
    server(READY + f"sleep 0.05\necho last words\n{end}\n")
    heard = Heard()

    async def scenario() -> JobFailed:
        fleet = heard.fleet(policy=RestartPolicy(limit=2, backoff_s=0.01))
        try:
            await fleet.start_dispatcher(free_ports(1)[0], 30)
            async with asyncio.timeout(30):
                return await fleet.failure()
        finally:
            await fleet.stop()

    failed = run(scenario())
    assert isinstance(failed, JobFailed)
    assert f"dispatcher on algo-1 ended by itself ({words}), 3 times in 60 s" in str(failed)
    assert failed.log_tail[-1] == "last words"
    assert [event for event, _ in heard.events if event == "Died"] == ["Died"] * 2


def test_a_process_that_falls_silent_is_killed_and_started_again(server):
    server(READY + "exec sleep 60\n")
    heard = Heard()

    async def scenario() -> None:
        fleet = heard.fleet(policy=RestartPolicy(silence_s=0.3, backoff_s=0.01))
        try:
            await fleet.start_dispatcher(free_ports(1)[0], 30)
            await _until(lambda: len([1 for event, _ in heard.events if event == "Started"]) == 2)
        finally:
            await fleet.stop()

    run(scenario())
    (died,) = [fields for event, fields in heard.events if event == "Died"][:1]
    assert died["cause"] == "dispatcher on algo-1 said nothing for 0.3 s and was killed"


def test_a_process_that_is_stopped_is_killed_sooner_than_one_that_may_be_busy(server):
    server(READY + "kill -STOP $$\n")
    heard = Heard()

    async def scenario() -> None:
        fleet = heard.fleet(policy=RestartPolicy(silence_s=300, stopped_s=0.3, backoff_s=0.01))
        try:
            await fleet.start_dispatcher(free_ports(1)[0], 30)
            await _until(lambda: len([1 for event, _ in heard.events if event == "Started"]) == 2)
        finally:
            await fleet.stop()

    run(scenario())
    (died,) = [fields for event, fields in heard.events if event == "Died"][:1]
    assert died["cause"] == "dispatcher on algo-1 said nothing for 0.3 s and was killed"


def test_a_process_that_falls_silent_while_it_starts_again_is_killed_sooner_than_at_its_first_start(server, tmp_path):
    served = tmp_path / "served"
    server(f"[ -e {served} ] && exec sleep 60\n{READY}while [ ! -e {served} ]; do sleep 0.01; done\nexit 3\n")
    heard = Heard()

    def causes() -> list[str]:
        return [fields["cause"] for event, fields in heard.events if event == "Died"]

    async def scenario() -> None:
        fleet = heard.fleet(policy=RestartPolicy(start_s=120, restart_s=0.3, backoff_s=0.01))
        try:
            await fleet.start_dispatcher(free_ports(1)[0], 30)
            served.touch()  # only now it may end: a process that ends while it is waited for was never ready
            await _until(lambda: len(causes()) == 2)
        finally:
            await fleet.stop()

    run(scenario())
    assert "dispatcher on algo-1 said nothing for 0.3 s and was killed" in causes()[1]


def test_what_cannot_be_read_of_what_a_process_says_does_no_harm(server):
    odd = "".join(map(SAYS.format, ("rubbish", "[1]", '{"type": "odd"}', '{"type": "ready", "port": 0}')))
    server(f"{odd}{READY}exec sleep 60\n")

    async def scenario() -> None:
        fleet = Heard().fleet()
        try:
            await fleet.start_dispatcher(free_ports(1)[0], 30)
        finally:
            await fleet.stop()

    run(scenario())


def test_a_process_that_does_not_listen_to_sigterm_is_killed(server):
    server(f"trap '' TERM\n{READY}while true; do sleep 1; done\n")
    heard = Heard()

    async def scenario() -> None:
        fleet = heard.fleet()
        await fleet.start_dispatcher(free_ports(1)[0], 30)
        await fleet.stop(grace_s=0.1)
        await fleet.stop()  # again: nothing to do

    run(scenario())
    assert not psutil.pid_exists(heard.pids()["dispatcher"])


def test_each_process_is_told_its_port_address_and_dispatcher(server):
    server(f'echo "$@"\n{READY}exec sleep 60\n')
    heard = Heard()
    ports = free_ports(3)

    async def scenario() -> None:
        fleet = heard.fleet()
        fleet.listen = "127.0.0.1"
        try:
            await fleet.start_dispatcher(ports[0], 30)
            await fleet.start_workers(ports[1:], "algo-1:77", 30)
        finally:
            await fleet.stop()

    run(scenario())
    worker = "-m tfhet.planes.tf_service.server worker --port {} --dispatcher algo-1:77 "
    worker += "--address 127.0.0.1 --listen 127.0.0.1 --folder {}"
    folder = sorted(heard.lines)[0].split("--folder ")[1]
    assert sorted(heard.lines)[0].startswith(
        f"[dispatcher] -m tfhet.planes.tf_service.server dispatcher --port {ports[0]} --work_dir {folder}/"
    )
    assert sorted(heard.lines)[1:] == [
        f"[worker-0] {worker.format(ports[1], folder)}",
        f"[worker-1] {worker.format(ports[2], folder)}",
    ]


def test_a_dispatcher_that_is_renewed_keeps_its_port_and_has_another_journal(server):
    server(f'echo "$@"\n{READY}exec sleep 60\n')
    heard, (port,) = Heard(), free_ports(1)

    async def scenario() -> None:
        fleet = heard.fleet()
        try:
            await fleet.start_dispatcher(port, 30)
            for times in (2, 3):
                fleet.renew_dispatcher()
                assert fleet.workers_registered == 0
                await _until(lambda times=times: len(heard.lines) == times)
            assert fleet.restarts == 0
        finally:
            await fleet.stop()

    run(scenario())
    journals = [Path(line.split("--work_dir ")[1].split()[0]) for line in heard.lines]
    assert len(set(journals)) == 3 and len({journal.parent for journal in journals}) == 1
    assert all(f"--port {port} " in line for line in heard.lines)
    assert not journals[0].parent.exists()
    assert not [event for event, _ in heard.events if event == "Died"]


def test_what_a_dispatcher_said_before_it_was_renewed_does_not_count(server, tmp_path):
    """Two hosts lost within a second: the dispatcher of the first renewal is ready, and replaced before it is heard."""
    words = SAYS.format('{"type": "ready", "port": 1}') + SAYS.format('{"type": "registered", "workers": 7}')
    server(f"sleep 0.3\n{words}touch {tmp_path}/said-$$\nexec sleep 60\n")
    heard = Heard()

    async def scenario() -> None:
        fleet = heard.fleet()
        try:
            await fleet.start_dispatcher(free_ports(1)[0], 30)
            await _until(lambda: fleet.workers_registered == 7)
            before = heard.pids()["dispatcher"]
            fleet.renew_dispatcher()
            await _until(lambda: heard.pids()["dispatcher"] != before)
            until_s, said = time.monotonic() + 30, tmp_path / f"said-{heard.pids()['dispatcher']}"
            while not said.exists() and time.monotonic() < until_s:
                time.sleep(0.01)  # the event loop stands still: its words lie in the channel
            assert said.exists()
            told = len(heard.events)
            fleet.renew_dispatcher()
            assert fleet.workers_registered == 0
            await _until(lambda: [event for event, _ in heard.events].count("Started") == 3)
            between = [event for event, _ in heard.events[told:]]
            assert between[: between.index("Started")] == []
        finally:
            await fleet.stop()

    run(scenario())


def test_a_worker_that_cannot_report_what_it_has_finished_is_replaced_once(server, tmp_path):
    words = (
        "2026-11-23 07:09:04.73: W tensorflow/core/data/service/worker_impl.cc:518] Failed to send task updates to "
        "dispatcher: NOT_FOUND: Failed to send worker update: Task 4001 not found"
    )
    says = f"if mkdir {tmp_path}/was-here; then for n in 1 2 3; do echo '{words}'; done; fi\n"
    server(f"{READY}{says}echo level $TF_CPP_MIN_LOG_LEVEL\nexec sleep 60\n")
    heard = Heard()

    async def scenario() -> None:
        fleet = heard.fleet({**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"})
        try:
            await fleet.start_workers(free_ports(1), "algo-1:1", 30)
            await _until(lambda: [event for event, _ in heard.events].count("Ready") >= 2)
            await asyncio.sleep(0.3)
            assert fleet.restarts == 0
        finally:
            await fleet.stop()

    run(scenario())
    assert [event for event, _ in heard.events].count("Started") == 2
    assert not [event for event, _ in heard.events if event == "Died"]
    assert "[worker-0] level 1" in heard.lines  # warnings are printed whatever the user's level is
    assert any("is replaced, too" in line for line in heard.lines)


def test_a_death_after_a_renewal_counts_again(server):
    server(READY + "exec sleep 60\n")
    heard = Heard()

    async def scenario() -> int:
        fleet = heard.fleet()
        try:
            await fleet.start_dispatcher(free_ports(1)[0], 30)
            for _ in range(2):  # the second finds the first one's process being started
                before = heard.pids()["dispatcher"]
                fleet.renew_dispatcher()
                fleet.renew_dispatcher()
                await _until(lambda before=before: heard.pids()["dispatcher"] != before)
            await _until(lambda: [event for event, _ in heard.events].count("Ready") >= 3)
            before = heard.pids()["dispatcher"]
            os.kill(before, signal.SIGKILL)
            await _until(lambda: heard.pids()["dispatcher"] != before)
            return fleet.restarts
        finally:
            await fleet.stop()

    assert run(scenario()) == 1


def test_workers_come_back_to_a_renewed_dispatcher_which_knows_nothing_of_before():
    heard, ports = Heard(), free_ports(3)
    dispatcher, transport = f"127.0.0.1:{ports[0]}", Transport()

    def read(name: str) -> list[int]:
        data = tf.data.Dataset.range(40)
        transport.publish(WIRE, dispatcher, data, name)
        return sorted(int(i) for i in transport.read(WIRE, dispatcher, name, data.element_spec, "dynamic"))

    async def scenario() -> None:
        fleet = heard.fleet({**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"})
        try:
            await fleet.start_dispatcher(ports[0], 60)
            await fleet.start_workers(ports[1:], dispatcher, 60)
            await _until(lambda: fleet.workers_registered == 2)
            pids = heard.pids()
            assert await asyncio.to_thread(read, "before") == list(range(40))
            fleet.renew_dispatcher()
            await _until(lambda: fleet.workers_registered == 2)
            assert heard.pids()["dispatcher"] != pids["dispatcher"]
            assert {name: pid for name, pid in heard.pids().items() if name != "dispatcher"} == {
                name: pid for name, pid in pids.items() if name != "dispatcher"
            }
            assert not await asyncio.to_thread(is_registered, WIRE, dispatcher, "before")
            # The same name again: nothing of it was read from this one.
            assert await asyncio.to_thread(read, "before") == list(range(40))
            assert fleet.restarts == 0
        finally:
            await fleet.stop()

    run(scenario())


def test_a_fleet_needs_no_tensorflow(repository: Path):
    import subprocess

    code = "import sys; from tfhet.planes.tf_service import Fleet; print('tensorflow' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], cwd=repository, capture_output=True, text=True, timeout=60)
    assert found.stdout.strip() == "False", found.stderr


# CPUs


@pytest.mark.skipif(len(usable()) < 2, reason="this process has one CPU only")
def test_workers_keep_off_the_cpus_of_others_also_when_they_are_started_again():
    heard = Heard()
    ports = free_ports(2)
    others = tuple(left_by(1, usable()))

    async def scenario() -> None:
        fleet = Fleet(
            HOST,
            "127.0.0.1",
            dict(os.environ),
            key=KEY,
            on_line=heard.lines.append,
            observe=heard.note,
            gives_way=True,
        )
        try:
            await fleet.start_dispatcher(ports[0], 120)
            await fleet.start_workers(ports[1:], f"127.0.0.1:{ports[0]}", 120)
            first, dispatcher = heard.pids()["worker-0"], heard.pids()["dispatcher"]
            assert os.sched_getaffinity(first) == set(usable())
            assert fleet.keep_off(1) == others
            assert os.sched_getaffinity(first) == set(others)
            os.kill(first, signal.SIGKILL)
            await _until(lambda: sum(event == "Ready" for event, _ in heard.events) == 3)
            second = heard.pids()["worker-0"]
            assert second != first
            assert policies(second) == {os.SCHED_IDLE}
            assert os.sched_getaffinity(second) == set(others)
            assert fleet.keep_off(0) == usable()
            assert os.sched_getaffinity(second) == set(usable())
            assert os.sched_getaffinity(dispatcher) == set(usable())
            assert policies(dispatcher) == {os.sched_getscheduler(0)}
        finally:
            await fleet.stop()

    def policies(pid: int) -> set[int]:
        """Scheduling policies of its threads that do not end meanwhile, except the main one, which reports that all is
        well."""
        found = set()
        for thread in {int(name) for name in os.listdir(f"/proc/{pid}/task")} - {pid}:
            with contextlib.suppress(ProcessLookupError):
                found.add(os.sched_getscheduler(thread))
        return found

    run(scenario())


def test_the_processes_that_run_are_told_by_name():
    fleet = Heard().fleet()
    fleet._servers = {"dispatcher": SimpleNamespace(pid=7), "worker-0": SimpleNamespace(pid=None)}
    assert fleet.pids == {"dispatcher": 7}
