"""One run of a command on every host of a simulated cluster."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import resource
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from tfhet.clock import SYSTEM
from tfhet.cluster import environment
from tfhet.errors import JobFailed, TfhetError, UsageError
from tfhet.events import Event
from tfhet.process import Child
from tfhet.record import EventTail, RunFolder, RunSummary, machine, usable_cores, versions
from tfhet.report import write_html
from tfhet.simulate import training_job
from tfhet.simulate.cluster_file import ClusterFile, channel_directories
from tfhet.simulate.drive import drive
from tfhet.simulate.fault import CUTS, Fault
from tfhet.simulate.host import HostBackend, SimulatedHost, hosts_of
from tfhet.simulate.injector import Injector
from tfhet.simulate.namespace_hosts import NamespaceHosts
from tfhet.simulate.process_hosts import ProcessHosts
from tfhet.simulate.scale import cost_of
from tfhet.simulate.submission import Submission, named_now
from tfhet.simulate.targets import Population, Targets, kill_all
from tfhet.simulate.training_job import STOPPED_ON_REQUEST
from tfhet.writer import Writer

STOP_GRACE_S = {"process": 30.0, "namespace": 120.0}
"""Seconds from SIGTERM to SIGKILL: as many as launchers promise to need, and as SageMaker waits."""
READER_S = 600.0
"""Maximum wait after the run for the reader of its lines (a pager may pause)."""
SILENT_SCRIPT_S = 30.0
"""Seconds after which a script that does not report its reading is assumed to read."""


class Simulation:
    """A command, a cluster and faults, run by `run`. Raises UsageError if they cannot be run."""

    def __init__(
        self,
        cluster: ClusterFile,
        command: Sequence[str],
        folder: Path,
        *,
        max_run_s: float = 3600.0,
        seed: int = 0,
        faults: Sequence[Fault] = (),
        on_line: Callable[[str], None] = print,
        gather: Callable[[Sequence[str]], Iterable[str]] | None = None,
        env: Mapping[str, str] | None = None,
        **how: Any,
    ):
        """gather: merges lines for `on_line`. how: options of `Submission.of`: hosts, start, code, checkpoints, ..."""
        self.submission = Submission.of(cluster, command, **how)
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise UsageError(f"--run_dir {folder} is there already; give a folder that is new or empty")
        self.cluster = cluster
        self.folder = RunFolder(folder)
        self.codes: dict[str, int] = {}
        """Exit codes by label: `host` or `host/rank` of a launcher, `host` of a container."""
        self._env = dict(environment() if env is None else env)
        self._max_run_s = max_run_s
        self._on_line, self._gather = on_line, gather
        self._last_exit_s = 0.0
        self._launchers_gone_s: float | None = None
        self._started_s: float | None = None
        self._are_up = False
        """Whether all hosts that are not late have started."""
        self._never_began: str | None = None
        self._cpu_s: dict[str, dict[str, float]] = {}
        """CPU seconds by host: of the `whole` run, `before` the ranks began to read, and `after` they ended."""
        self.hosts = hosts_of(self.submission, folder, seed, detours=any(fault.kind in CUTS for fault in faults))
        targets = self.targets = Targets(self.hosts, self.submission.dnn_group)
        for fault in faults:
            targets.check(fault)
        self._leader = RunFolder(targets.leader.paths.output_data / "tfhet")
        self._events = EventTail(self._leader.events_path)
        self._children: dict[str, Child] = {}
        kind = ProcessHosts if self.submission.host_kind == "process" else NamespaceHosts
        self._backend: HostBackend = kind(self.submission, self.hosts, self._env, self._logger, faults)
        has_come, report = self._has_come, self._report_fault
        self._injector = Injector(faults, targets, self._backend, self._children, has_come, report, seed)

    @property
    def cgroups(self) -> Mapping[str, Any]:
        """The control groups of the started hosts, by name; empty for process hosts."""
        return self._backend.cgroups

    def run(self) -> RunSummary:
        """Runs to the end of the last host, and returns the summary. A slow reader of lines delays nothing."""
        self.folder.create()
        began = SYSTEM.wall()
        late = "[simulate] {} lines were read too late: see logs/".format
        lines = Writer("lines", self._on_line, late, gather=self._gather)
        self._on_line = lines.put
        try:
            return self._conclude(drive(self._run), began)
        finally:
            lines.close(READER_S)

    def _cost(self) -> Iterator[str]:
        """Yields what many hosts cost, and lets this process open the files that they need."""
        ready_s = self.submission.settings.ready_timeout_s
        if note := cost_of(len(self.hosts), usable_cores(), psutil.virtual_memory().total, ready_s):
            most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
            yield note

    async def _run(self, stop: asyncio.Event) -> str | None:
        """Returns why the simulator ended the job, or None."""
        channels = await channel_directories(self.cluster.channels, self._env, self._on_line, stop)
        children, backend = self._children, self._backend
        tasks: list[asyncio.Task[None]] = []
        begun_s = SYSTEM.monotonic()
        try:
            for note in (*self._cost(), *backend.notes):
                self._on_line(f"[simulate] {note}")
            await backend.open(channels)
            tasks = [asyncio.create_task(self._injector.run()), asyncio.create_task(self._watch())]
            starts = {host.name: asyncio.create_task(self._start(host, begun_s, stop)) for host in self.hosts}
            tasks += starts.values()
            await asyncio.gather(*(starts[host.name] for host in self.hosts if not self._injector.delay_s(host)))
            self._are_up = True
            await asyncio.gather(*starts.values())
            if not children:
                return STOPPED_ON_REQUEST
            self._note("hosts.started", launchers=sorted(children))
            return await self._wait(stop)
        except JobFailed as failure:
            self._never_began = str(failure)
            for child in children.values():
                child.kill()
            return None
        finally:
            for task in tasks:
                task.cancel()
            ends = await asyncio.gather(*tasks, return_exceptions=True)
            for what, error in zip(("a fault could not be done", "the job could not be watched"), ends, strict=False):
                if isinstance(error, Exception):
                    self._report_fault(f"{what}: {error!r}")
            await self._stop()
            try:
                self._cpu_s["whole"] = backend.cpu_s()
            finally:
                await backend.close()

    async def _start(self, host: SimulatedHost, begun_s: float, stop: asyncio.Event) -> None:
        """Starts a host, late if a fault says so, unless the job is over by then."""
        at_s = begun_s + self._injector.delay_s(host)
        while not stop.is_set():
            if (left_s := at_s - SYSTEM.monotonic()) <= 0:
                self._injector.prepare(host)
                await self._backend.start(host, self._children)
                return
            if self._children and all(child.code is not None for child in self._children.values()):
                return
            await asyncio.sleep(min(left_s, 0.2))

    async def _stop(self) -> None:
        grace_s = STOP_GRACE_S[self.submission.host_kind]
        await asyncio.gather(*(child.stop(grace_s) for child in self._children.values()))

    async def _watch(self) -> None:
        """Records when the ranks begin to read, when they have ended, and when the last launcher has ended."""
        while not self._has_come():
            await asyncio.sleep(0.1)
        if self.submission.limits_from == "reading":
            self._backend.limit()
        self._cpu_s["before"] = self._backend.cpu_s()
        self._note("reading.seen")
        while len(self._rank_ends()) < self.targets.ranks:
            await asyncio.sleep(0.1)
        self._cpu_s["after"] = self._backend.cpu_s()
        if self.submission.host_kind == "namespace":
            while any(Population.below(child.pid).launchers for child in self._children.values()):
                await asyncio.sleep(0.02)
            self._launchers_gone_s = SYSTEM.wall()

    async def _wait(self, stop: asyncio.Event) -> str | None:
        """Waits for the end of all hosts. Returns why the simulator ended them, or None."""
        every, stopped = asyncio.create_task(self._ends()), asyncio.create_task(stop.wait())
        await asyncio.wait({every, stopped}, timeout=self._max_run_s, return_when=asyncio.FIRST_COMPLETED)
        cause = None
        if not every.done():
            cause = STOPPED_ON_REQUEST if stopped.done() else f"the job ran longer than {self._max_run_s:g} s"
            await self._stop()
        await every
        stopped.cancel()
        return cause

    async def _ends(self) -> None:
        """Waits for the end of all launchers; frozen ones are killed when the others have ended."""
        ends = {label: asyncio.create_task(self._see_end(label, child)) for label, child in self._children.items()}
        while not all(end.done() for label, end in ends.items() if label not in self._injector.frozen):
            await asyncio.wait([end for end in ends.values() if not end.done()], timeout=0.2)
        await asyncio.gather(*(kill_all(self._children[label]) for label in self._injector.frozen))
        await asyncio.gather(*ends.values())

    async def _see_end(self, label: str, child: Child) -> None:
        self.codes[label] = await child.wait()
        self._note("host.ended", host=label, code=self.codes[label])
        if label not in self._injector.frozen:
            self._last_exit_s = SYSTEM.wall()

    def _conclude(self, cause: str | None, began: float) -> RunSummary:
        self._injector.conclude()
        gone_s, ended = self._launchers_gone_s or self._last_exit_s, SYSTEM.wall()
        self._note("launchers.gone", at_s=gone_s)
        if cause is None and self._never_began is None:
            self._never_began = self._backend.not_made(self._children.values())
        summary = training_job.completed(self.hosts, self.codes, self._leader, cause, self._never_began, self.folder)
        whole, before, after = (self._cpu_s.get(name, {}) for name in ("whole", "before", "after"))
        ends = self._rank_ends()
        summary = dataclasses.replace(
            summary,
            name=self.cluster.name,
            mode="heterogeneous" if len({host.group for host in self.hosts}) > 1 else "homogeneous",
            started=began,
            duration_s=ended - began,
            teardown_s=max(0.0, gone_s - max(ends)) if ends else None,
            machine=machine(),
            versions=versions(),
            host_cpu_s=whole,
            reading_cpu_s={name: after[name] - before.get(name, 0.0) for name in after},
            **self._backend.facts(),
        )
        self.folder.write_summary(summary)
        for join in (self.folder.join_events, self.folder.join_timeline):
            with contextlib.suppress(OSError, TfhetError):  # the parts that hosts wrote stay where they are
                join()
        write_html(self.folder)
        return summary

    def _note(self, name: str, *, at_s: float | None = None, **fields: object) -> None:
        try:
            self.folder.write_event(Event(name, SYSTEM.wall() if at_s is None else at_s, fields))
        except OSError as error:  # a full disk must not end the job
            self._on_line(f"[simulate] {name} could not be recorded: {error}")

    def _report_fault(self, line: str) -> None:
        self._note("fault.injected", fault=line.removeprefix("fault "))
        self._on_line(f"[simulate] {line}")

    def _rank_ends(self) -> list[float]:
        """Times at which ranks ended, in seconds since 1970."""
        with contextlib.suppress(TfhetError, OSError):
            return [float(event["time_s"]) for event in self._leader.events() if event.get("event") == "rank.ended"]
        return []

    def _has_come(self, moment: str = "steps") -> bool:
        if moment == "start":
            return self._are_up
        with contextlib.suppress(OSError):
            found = self._events.read()
            if moment == "end":
                return found.get("rank.ended", {}).get("code") == 0
            if "training.started" in found and self._started_s is None:
                self._started_s = SYSTEM.monotonic()
            silent = self._started_s is not None and SYSTEM.monotonic() > self._started_s + SILENT_SCRIPT_S
            return silent or ("training.started" if moment == "scripts" else "training.reading") in found
        return False

    def _logger(self, host: str) -> Callable[[str], None]:
        path = self.folder.log_path(host)
        tag = f"{host} | " if self.submission.host_kind == "namespace" else ""

        def write(line: str) -> None:
            with contextlib.suppress(OSError), open(path, "a", encoding="utf-8", errors="replace") as log:
                print(line, file=log)
            self._on_line(f"{tag}{line}")

        return write


def run_dir(cluster: ClusterFile) -> Path:
    """Default folder of a run record: `runs/NAME-TIME`."""
    return Path("runs") / named_now(cluster)


def simulate(cluster: ClusterFile, command: Sequence[str], folder: Path | None = None, **how: Any) -> RunSummary:
    """Runs a command, a Python file and its arguments, on every host of a simulated cluster, to the end of the last
    host.

        summary = simulate(load("demo"), ["scripts/launcher.py", "--epochs", "1"], Path("runs/demo"))

    Args:
        folder: New or empty folder for the run record; None: `run_dir(cluster)`.
        how: Options of `Simulation` and `Submission.of`, such as `checkpoints`, `seed` and `faults`.

    Returns the summary of the run, also if the job fails. Raises UsageError if it cannot be run.
    """
    return Simulation(cluster, command, folder or run_dir(cluster), **how).run()
