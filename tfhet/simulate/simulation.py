"""One run of a command on every host of a simulated cluster."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import psutil

from tfhet.clock import SYSTEM
from tfhet.cluster import environment
from tfhet.container import kernel
from tfhet.errors import JobFailed, TfhetError, UsageError
from tfhet.events import Event
from tfhet.process import Child, describe_exit
from tfhet.record import EventTail, RunFolder, RunSummary, machine, versions
from tfhet.report import write_html
from tfhet.simulate import training_job
from tfhet.simulate.channels import found
from tfhet.simulate.cluster_file import ClusterFile
from tfhet.simulate.drive import drive
from tfhet.simulate.fault import NETWORK, Fault
from tfhet.simulate.ground import Ground
from tfhet.simulate.host import SimulatedHost
from tfhet.simulate.injector import Injector
from tfhet.simulate.namespace_ground import NamespaceGround
from tfhet.simulate.population import Population
from tfhet.simulate.process_ground import ProcessGround
from tfhet.simulate.submission import Submission

STOP_GRACE_S = {"process": 30.0, "namespace": 120.0}
"""From SIGTERM to SIGKILL, by ground: what launchers promise, and what SageMaker gives."""
TOLD_TO_STOP = "told to stop"
NO_REASON = "no launcher said why"
SILENT_SCRIPT_S = 30.0
"""A script that does not say, through tfhet, that it reads its data is taken to have begun after so long."""
_POLL_S = 0.1
_SHORT_POLL_S = 0.02


class Simulation:
    """A command, a cluster and faults; `run` runs them. Raises UsageError for what cannot be run."""

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
        env: Mapping[str, str] | None = None,
        **how: Any,
    ):
        """how: see `Submission`: hosts, start, code, checkpoints, input_mode, cpu_scale, limits_from."""
        self.submission = Submission.of(cluster, command, **how)
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise UsageError(f"--run-dir {folder} is there already; give a folder that is new or empty")
        self.cluster = cluster
        self.folder = RunFolder(folder)
        self.codes: dict[str, int] = {}
        """Exit code by what was started: a launcher, as `host` or `host/rank`, or a host's container, as `host`."""
        self._env = dict(environment() if env is None else env)
        self._max_run_s = max_run_s
        self._on_line = on_line
        self._last_exit_s = 0.0
        self._launchers_gone_s: float | None = None
        self._started_s: float | None = None
        self._never_began: str | None = None
        """Why a host could not be made."""
        self._cpu_s: dict[str, dict[str, float]] = {}
        self.hosts = self.submission.hosts(folder, seed, any(fault.kind == "partition" for fault in faults))
        self._chief = next(host for host in self.hosts if host.group == self.submission.dnn_group)
        self._events = EventTail(RunFolder(self._chief.paths.output_data / "tfhet").events_path)
        self._children: dict[str, Child] = {}
        self._injector = Injector(
            faults, self.hosts, self.submission.dnn_group, self._children, self._has_begun, self._tell_fault, seed=seed
        )
        self._injector.check()
        self._injector.contained = self.submission.ground == "namespace"
        self._ground = self._made_ground(faults)

    @property
    def cgroups(self) -> Mapping[str, Any]:
        """The control groups of the hosts that run, by name; empty for process hosts."""
        return self._ground.cgroups if isinstance(self._ground, NamespaceGround) else {}

    def run(self) -> RunSummary:
        """Runs to the end of the last host, and gives the completed record."""
        self.folder.create()
        began = SYSTEM.wall()
        channels = found(self.cluster.channels, self._env, self._on_line)
        cause = drive(lambda stop: self._run(channels, stop))
        return self._conclude(cause, began)

    def _made_ground(self, faults: Sequence[Fault]) -> Ground:
        job = self.submission
        if job.ground == "process":
            for fault in faults:
                if fault.kind in NETWORK:
                    raise UsageError(f"fault {fault}: process hosts share one network; use --hosts namespace")
            slow = self._injector.of_kind("slow-disk")
            ground = ProcessGround(job, self.hosts, self._env, self._logger, slow)
            self._injector.disks = ground.disks
            return ground
        for fault in faults:
            if fault.kind == "slow-disk":
                raise UsageError(f"fault {fault}: disks are made slow for --hosts process only")
            if fault.kind in NETWORK:
                kernel.require(NETWORK[fault.kind])
        contained = NamespaceGround(job, self.hosts, self._env, self._logger)
        self._injector.usual = contained.network_limits
        return contained

    async def _run(self, channels: Mapping[str, Path], stop: asyncio.Event) -> str | None:
        children, ground = self._children, self._ground
        tasks: list[asyncio.Task[None]] = []
        begun_s = SYSTEM.monotonic()
        try:
            for note in ground.notes:
                self._on_line(f"[simulate] {note}")
            await ground.open(channels)
            self._injector.network = ground.network  # type: ignore[assignment]
            tasks = [asyncio.create_task(self._injector.run()), asyncio.create_task(self._watch())]
            starts = [asyncio.create_task(self._start(host, begun_s, stop)) for host in self.hosts]
            tasks += starts
            await asyncio.gather(*starts)
            if not children:
                return TOLD_TO_STOP
            self._note("hosts.started", launchers=sorted(children))
            return await self._wait(children, stop)
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
                    self._tell_fault(f"{what}: {error!r}")
            await asyncio.gather(*(child.stop(self._grace_s) for child in children.values()))
            try:
                self._cpu_s["whole"] = ground.cpu_s()
            finally:
                await ground.close()

    async def _start(self, host: SimulatedHost, begun_s: float, stop: asyncio.Event) -> None:
        if await self._comes(begun_s + self._injector.delay_s(host), stop):
            await self._ground.start(host, self._children)

    @property
    def _grace_s(self) -> float:
        return STOP_GRACE_S[self.submission.ground]

    async def _comes(self, at_s: float, stop: asyncio.Event) -> bool:
        """Waits until a host that joins late may start; False when the job is over by then."""
        while not stop.is_set():
            if (left_s := at_s - SYSTEM.monotonic()) <= 0:
                return True
            gone = [child.code is not None for child in self._children.values()]
            if gone and all(gone):
                return False
            await asyncio.sleep(min(left_s, 0.2))
        return False

    async def _watch(self) -> None:
        """Sees when the ranks begin to read and when they have ended, and when the last launcher has."""
        while not self._has_begun():
            await asyncio.sleep(_POLL_S)
        if self.submission.limits_from == "reading":
            self._ground.limit()
        self._cpu_s["before"] = self._ground.cpu_s()
        self._note("reading.seen")
        ranks = sum(host.ranks for host in self.hosts if host.group == self.submission.dnn_group)
        while sum(event.get("event") == "rank.ended" for event in self._chief_events()) < ranks:
            await asyncio.sleep(_POLL_S)
        self._cpu_s["behind"] = self._ground.cpu_s()
        if self.submission.ground == "namespace":
            while any(Population.below(child.pid).has_launchers for child in self._children.values()):
                await asyncio.sleep(_SHORT_POLL_S)
            self._launchers_gone_s = SYSTEM.wall()

    async def _wait(self, children: Mapping[str, Child], stop: asyncio.Event) -> str | None:
        async def see_end(label: str, child: Child) -> None:
            self.codes[label] = await child.wait()
            self._note("host.ended", host=label, code=self.codes[label])
            if label not in self._injector.frozen:
                self._last_exit_s = SYSTEM.wall()

        ends = {label: asyncio.create_task(see_end(label, child)) for label, child in children.items()}

        async def see_all() -> None:
            # A launcher that was frozen for ever is one that is gone: nobody waits for it, and nobody else can end it.
            while not all(end.done() for label, end in ends.items() if label not in self._injector.frozen):
                await asyncio.wait([end for end in ends.values() if not end.done()], timeout=0.2)
            for label, child in children.items():
                if label in self._injector.frozen:
                    await _killed(child)
            await asyncio.gather(*ends.values())

        every = asyncio.create_task(see_all())
        stopped = asyncio.create_task(stop.wait())
        await asyncio.wait({every, stopped}, timeout=self._max_run_s, return_when=asyncio.FIRST_COMPLETED)
        cause = None
        if not every.done():
            cause = TOLD_TO_STOP if stopped.done() else f"the job ran longer than {self._max_run_s:g} s"
            await asyncio.gather(*(child.stop(self._grace_s) for child in children.values()))
        await every
        stopped.cancel()
        return cause

    def _conclude(self, cause: str | None, began: float) -> RunSummary:
        """The chief's record, completed with what only the simulator saw."""
        kept = RunFolder(self._chief.paths.output_data / "tfhet")
        self._note("launchers.gone", at_s=self._launchers_gone_s or self._last_exit_s)
        try:
            summary = kept.read_summary()
        except TfhetError:
            # A launcher that is not ours leaves none; one of ours always does.
            ended_well = bool(self.codes) and not any(self.codes.values()) and not kept.path.exists()
            summary = RunSummary(exit_code=0 if ended_well else None)
        bad = {label: code for label, code in self.codes.items() if code and label not in summary.lost_hosts}
        exit_code = summary.exit_code if summary.exit_code is not None else max([1, *self.codes.values()])
        status = training_job.status(self.codes, stopped=cause is not None)
        secondary = training_job.OUT_OF_TIME if cause and cause != TOLD_TO_STOP else None
        reason = training_job.failure_reason(self.hosts, self.codes) if status == training_job.FAILED else cause
        if self._never_began:
            exit_code, cause, reason, status = 1, self._never_began, self._never_began, training_job.FAILED
        if bad and not exit_code:
            exit_code, cause = 1, "; ".join(f"{label}: {describe_exit(code)}" for label, code in bad.items())
        if exit_code or cause:
            cause = cause or summary.cause or self._first_failure()
            exit_code = exit_code or 1
        ended = SYSTEM.wall()
        training_job.describe(
            self.submission,
            self.folder.path,
            began=began,
            ended=ended,
            status=status,
            secondary=secondary,
            reason=reason,
            collected=self._collected(),
        )
        whole, before, behind = (self._cpu_s.get(name, {}) for name in ("whole", "before", "behind"))
        summary = dataclasses.replace(
            summary,
            name=self.cluster.name,
            mode="heterogeneous" if len({host.group for host in self.hosts}) > 1 else "homogeneous",
            started=began,
            duration_s=ended - began,
            teardown_s=self._teardown_s(kept),
            machine=machine(),
            versions=versions(),
            exit_codes=dict(sorted(self.codes.items())),
            exit_code=exit_code,
            cause=cause,
            status=status,
            failure_reason=reason,
            host_cpu_s=whole,
            reading_cpu_s={name: behind[name] - before.get(name, 0.0) for name in behind},
            **self._ground.facts(),
        )
        self.folder.write_summary(summary)
        for join in (self.folder.join_events, self.folder.join_timeline):
            with contextlib.suppress(OSError, TfhetError):  # the parts that hosts wrote stay where they are
                join()
        write_html(self.folder)
        return summary

    def _collected(self) -> Mapping[str, Path]:
        """What a platform would store; of process hosts nothing, whose directories are there to be looked at."""
        if self.submission.ground == "process":
            return {}
        try:
            return training_job.collect(self.hosts, self.folder.path)
        except OSError as error:  # a full disk: the record must not be lost over it
            self._on_line(f"[simulate] the hosts' files cannot be packed: {error}")
            return {}

    def _teardown_s(self, kept: RunFolder) -> float | None:
        """From the end of the last rank's script to the end of the last launcher; None when a rank never ended."""
        ends = [float(event["time_s"]) for event in kept.events() if event.get("event") == "rank.ended"]
        return None if not ends else max(0.0, (self._launchers_gone_s or self._last_exit_s) - max(ends))

    def _note(self, name: str, *, at_s: float | None = None, **fields: object) -> None:
        try:
            self.folder.write_event(Event(name, SYSTEM.wall() if at_s is None else at_s, fields))
        except OSError as error:  # a full disk: the job goes on
            self._on_line(f"[simulate] {name} could not be written down: {error}")

    def _tell_fault(self, line: str) -> None:
        self._note("fault.injected", fault=line)
        self._on_line(f"[simulate] {line}")

    def _chief_events(self) -> list[dict[str, Any]]:
        with contextlib.suppress(TfhetError, OSError):
            return list(RunFolder(self._chief.paths.output_data / "tfhet").events())
        return []

    def _has_begun(self) -> bool:
        with contextlib.suppress(OSError):
            found = self._events.read()
            if "training.started" in found and self._started_s is None:
                self._started_s = SYSTEM.monotonic()
            silent = self._started_s is not None and SYSTEM.monotonic() > self._started_s + SILENT_SCRIPT_S
            return silent or "training.reading" in found
        return False

    def _first_failure(self) -> str:
        for host in self.hosts:
            if host.paths.failure.is_file():
                return host.paths.failure.read_text(encoding="utf-8", errors="replace").split("\n")[0]
        codes = ", ".join(f"{label}: {describe_exit(code)}" for label, code in sorted(self.codes.items()))
        return f"{NO_REASON} ({codes})"

    def _logger(self, host: str) -> Callable[[str], None]:
        path = self.folder.log_path(host)
        tag = f"{host} | " if self.submission.ground == "namespace" else ""

        def write(line: str) -> None:
            with open(path, "a", encoding="utf-8") as log:
                log.write(line + "\n")
            self._on_line(f"{tag}{line}")

        return write


async def _killed(child: Child) -> None:
    """Ends a frozen launcher with all below it, which is in sessions of its own."""
    with contextlib.suppress(psutil.Error):
        for process in psutil.Process(child.pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                process.kill()
    child.kill()
    await child.wait()


def run_dir(cluster: ClusterFile) -> Path:
    """Where the record of a run goes when nobody says: `runs/NAME-TIME`."""
    return Path("runs") / f"{cluster.name}-{datetime.fromtimestamp(SYSTEM.wall()):%Y%m%d-%H%M%S}"


def simulate(cluster: ClusterFile, command: Sequence[str], folder: Path | None = None, **how: Any) -> RunSummary:
    """Runs `command` (a Python file and its arguments) on every host of `cluster`, to the end of the last one.

    `folder`: where the run record goes, new or empty. `how`: see `Simulation` and `Submission`; `checkpoints`: a
    directory that outlives the run; `seed`: which host gets which name; `faults`: what is done to the job on the way.
    Raises UsageError for what cannot be run; a job that fails is told by the record.
    """
    return Simulation(cluster, command, folder or run_dir(cluster), **how).run()
