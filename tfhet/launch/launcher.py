"""One host's life: find the place, join, serve or train, report, leave. Every wait in it has a deadline.

settings, rest = LaunchSettings.parse(sys.argv[1:])
code = asyncio.run(Launcher(Assignment.of(environment(), settings), rest).run())
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Awaitable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from tfhet.clock import SYSTEM
from tfhet.cluster import DATA, job_name
from tfhet.control import Message, Secret
from tfhet.deadline import Deadline
from tfhet.errors import JobFailed, TfhetError, UsageError
from tfhet.events import Event, Observer, ignore
from tfhet.launch.assignment import Assignment
from tfhet.launch.emf import emf_line
from tfhet.launch.endpoint import Endpoint
from tfhet.launch.exposition import Exposition, labels
from tfhet.launch.failure import write_failure
from tfhet.launch.follower import Follower
from tfhet.launch.hearing import Hearing
from tfhet.launch.job_result import JobResult
from tfhet.launch.leader import LINGER_S, SCRIPT_GRACE_S, STOP_S, Leader
from tfhet.launch.outcome import write_outcome
from tfhet.launch.sampler import Sampler
from tfhet.launch.script import command_of, environment_of
from tfhet.planes import Outlets
from tfhet.process import Child
from tfhet.record import MetricLine, RunFolder
from tfhet.record.folder import PARTS

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
KILL_GRACE_S = 1.0
"""Seconds that a training script may take to end after SIGTERM when the job has failed. It is short, because a script
that takes the signal for a request to stop may wait for other ranks in an allreduce."""
SERVER_GRACE_S = 1.0
"""Seconds that a process of the data plane may take to end."""


class Link(Protocol):
    """What leader and follower have in common."""

    async def join(self) -> None: ...

    async def started(self) -> Message: ...

    def report(self, message: Mapping[str, object]) -> None: ...

    async def ended(self) -> JobResult: ...

    def clock_offset(self) -> tuple[float, float] | None: ...

    async def leave(self, code: int, cause: str, hurry: asyncio.Future[Any]) -> None: ...


class Launcher:
    """The launcher of one host, or of one rank of it."""

    def __init__(self, assignment: Assignment, script_arguments: Sequence[str]):
        self.assignment = assignment
        self.place = assignment.place
        self.began_s = SYSTEM.wall()
        self._settings = assignment.settings
        self._arguments = list(script_arguments)
        self._link: Link | None = None
        self._script: Child | None = None
        self._is_stopping = False
        self._has_read = False
        self._ending: asyncio.Task[int] | None = None
        self._hearing = Hearing(self.say, self._write_emf, self._reads)
        self._record = self.place.paths.output_data / "tfhet"
        self._timeline = self._record / PARTS
        # One launcher writes the events of the job: lines of several hosts would need one clock.
        self._observe: Observer = self._write_event if self.place.is_leader else ignore
        outlets = Outlets(self.say, self._report, self._observe, self._record, self._settings.ready_timeout_s)
        self._side = assignment.plane.launcher_side(assignment.plane_settings, self.place, outlets)

    async def run(self) -> int:
        """Lives to the end and returns the exit code."""
        place = self.place
        stopped: asyncio.Future[JobResult] = asyncio.get_running_loop().create_future()
        self._on_signals(stopped)
        names = {*place.roles.other_hosts, *place.roles.dnn_hosts}
        secret = Secret.from_env(place.env, job_name(place.env), names)
        self.say(self._introduction(secret))
        self._link = link = self._linked(secret)
        beside = [
            asyncio.create_task(self._watch(stopped), name="source of ranks"),
            asyncio.create_task(self._sample(link), name="sampler"),
            asyncio.create_task(self._expose(), name="metrics"),
        ]
        work = asyncio.create_task(self._work(link), name="work")
        ended = asyncio.create_task(link.ended(), name="end")
        every: set[asyncio.Future[Any]] = {work, ended, stopped}
        await asyncio.wait(every, return_when=asyncio.FIRST_COMPLETED)
        result = await self._conclude(link, work, ended, stopped)
        if result.code:  # at once: what started the ranks may kill this launcher once one of another host has failed
            self._tell_why(result)
        for task in (work, ended, *beside):
            task.cancel()
        await asyncio.wait({work}, timeout=1.0)  # what it is starting must be there to be stopped
        if place.is_leader:  # the followers hear of it at once, and end side by side with this host's processes
            await asyncio.gather(link.leave(result.code, result.cause, stopped), self._stop_children())
        else:  # a follower that has left has nothing running any more
            await self._stop_children()
            await link.leave(result.code, result.cause, stopped)
        await asyncio.gather(work, ended, *beside, return_exceptions=True)
        self._close(link, result)
        return result.code

    def _linked(self, secret: Secret) -> Leader | Follower:
        if not self.place.is_leader:
            return Follower(self.assignment, secret, self._observe, on_stop=self._stop_script)
        return Leader(
            self.assignment,
            self._side,
            secret,
            self._observe,
            on_stop=self._stop_script,
            on_host_lost=self._goes_on_without,
        )

    async def _work(self, link: Link) -> None:
        place = self.place
        await link.join()
        serving = asyncio.create_task(self._side.serve()) if self._side.serves else None
        training = asyncio.create_task(self._train(link)) if place.rank is not None else None
        further = place.roles.current in self.assignment.strategy.roles
        helping = asyncio.create_task(self._help(link)) if further else None
        tasks = {task for task in (serving, training, helping) if task is not None}
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _help(self, link: Link) -> None:
        """What a host of a role of the strategy's own does."""
        start = await link.started()
        await self.assignment.strategy.serve(self.place, start["strategy"])

    async def _train(self, link: Link) -> None:
        """Runs this rank's script once all is ready, and reports how it ended."""
        place, script = self.place, self._settings.train_script
        if script and not Path(script).is_file():
            raise UsageError(f"--train_script {script}: no such file, seen from {Path.cwd()}")
        start = await link.started()
        rank, command = place.rank, command_of(self._settings, self._arguments)
        assert rank is not None
        timeline = self._timeline if self._settings.timeline == "steps" else None
        env = environment_of(self.assignment, self._side, start, self._record, timeline)
        self._observe(Event("training.started", SYSTEM.wall(), {"command": command, "job_id": start["job_id"]}))
        if place.is_leader:
            self._side.begins()
        self._script = await Child.start(f"rank {rank.rank}", command, env=env, on_line=self._hearing.hear)
        if self._is_stopping:
            self._stop_script()
        if not script:
            self._hearing.expect_progress()
        stall = asyncio.create_task(self._stall(self._script), name="stall")
        beside = asyncio.create_task(self._side.beside(self._script.pid), name="beside")
        try:
            code = await self._script.wait()
        finally:
            stall.cancel()
            beside.cancel()
        if stall.done() and not stall.cancelled():
            raise JobFailed(
                f"rank {rank.rank} on {place.host} took no step for {self._settings.stall_timeout_s:g} s; it waits for "
                "data, or for another rank, or hangs (--stall_timeout_s)",
                log_tail=self._script.tail,
            )
        whose = f"{script or 'the built-in trainer'} ended on {place.host}, rank {rank.rank}"
        result = JobResult.of_script(code, whose, self._script.tail, self.assignment.is_noise)
        link.report({"type": "result", "rank": rank.rank, "code": result.code, "cause": result.cause})

    def _reads(self, endlessly: bool) -> None:
        self._side.reads(endlessly)
        if not self._has_read:
            self._has_read = True
            self._observe(Event("training.reading", SYSTEM.wall(), {}))

    def _report(self, message: Mapping[str, Any]) -> None:
        if self._link is not None:
            self._link.report(message)

    def _goes_on_without(self, host: str) -> None:
        leader = self._link
        assert isinstance(leader, Leader)
        left = ", ".join(leader.serving) or "no host"
        self.say(f"{host} was lost: {leader.lost_hosts[host]}; training goes on, {left} serves data")

    async def _stall(self, script: Child) -> None:
        """Returns once a script that used to report progress has been silent for too long, having killed it."""
        await self._hearing.stalls(self._settings.stall_timeout_s)
        script.kill()

    async def _sample(self, link: Link) -> None:
        """Notes what this launcher's processes use, and, where it leads its host, what the host does."""
        if self._settings.timeline != "off":
            await Sampler.of(self.place, self._timeline, self._processes, link.clock_offset, self.say).run()

    async def _expose(self) -> None:
        """Runs the Prometheus endpoint, where there is to be one."""
        place, port = self.place, self.assignment.metrics_port
        exposed = Exposition(place, self._hearing, self._processes, self._side.counts)
        if port is not None:
            await Endpoint(exposed.text, self.say).run(place.address(place.host), port)

    def _processes(self) -> dict[str, int]:
        """Ids of the processes that run for this launcher, by name."""
        script, rank = self._script, self.place.rank
        running = {} if script is None or rank is None or script.code is not None else {f"rank-{rank.rank}": script.pid}
        return {"launcher": os.getpid(), **running, **self._side.processes()}

    def _stop_script(self) -> None:
        """Tells the script to stop, now or when it has started; the job goes on until all have."""
        self._is_stopping = True
        if self._script is not None and self._ending is None:
            self.say(f"the script is told to stop; it has {SCRIPT_GRACE_S:g} s")
            self._ending = asyncio.create_task(self._script.stop(SCRIPT_GRACE_S), name="stop")

    async def _conclude(
        self,
        link: Link,
        work: asyncio.Task[None],
        ended: asyncio.Task[JobResult],
        stopped: asyncio.Future[JobResult],
    ) -> JobResult:
        """The job result: the leader's, once it is known; until then this launcher's own."""
        if not ended.done() and not stopped.done() and work.done() and (error := work.exception()) is not None:
            own = JobResult.of_error(error, self.place.label, self.assignment.is_noise)
            try:
                link.report({"type": "failed", "code": own.code, "cause": own.cause})
                if self.place.rank is None:
                    # Others may go on without this host; it ends with the job, whose lease bounds the wait.
                    self.say(f"serves no more: {own.headline}")
                    await self._stop_children()
                    await asyncio.wait({ended, stopped}, return_when=asyncio.FIRST_COMPLETED)
                else:
                    await asyncio.wait({ended}, timeout=self._settings.lease_s)
            except TfhetError:
                return own
            if not ended.done() and not stopped.done():
                return own
        if not ended.done() and not stopped.done():
            await asyncio.wait({ended, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if not ended.done():
            own = stopped.result()
            try:
                link.report({"type": "stop", "code": own.code, "cause": own.cause})
                async with Deadline(STOP_S + LINGER_S):
                    return await asyncio.shield(ended)
            except (TfhetError, asyncio.TimeoutError):
                return own
        return ended.result()

    async def _stop_children(self) -> None:
        ends: list[Awaitable[object]] = []
        if self._ending is not None:
            self._ending.cancel()
            await asyncio.gather(self._ending, return_exceptions=True)
        if self._script is not None:
            ends.append(self._script.stop(KILL_GRACE_S))
        ends.append(self._side.stop(SERVER_GRACE_S))
        await asyncio.gather(*ends)

    def _tell_why(self, result: JobResult) -> None:
        self.say(f"the job ended with exit code {result.code}: {result.headline}")
        write_failure(self.place.paths.failure, result.headline, self.place.label, result.code, result.log)
        if self.assignment.source is not None:
            self.assignment.source.release(self.place)

    def _close(self, link: Link, result: JobResult) -> None:
        if isinstance(link, Leader):
            try:
                write_outcome(RunFolder(self._record), self.assignment, link, result, self.began_s)
            except OSError as error:  # a full disk: the exit code must not be lost over it
                self.say(f"the record cannot be written: {error}")

    def _introduction(self, secret: Secret) -> str:
        place, source = self.place, self.assignment.source
        rank = place.rank
        words = source.words if source else ""
        idle = "delivers data" if place.roles.current is DATA else f"role {place.roles.current.name}"
        part = idle if rank is None else f"rank {rank.rank} of {rank.size} ({words})"
        weak = "; secret derived from the job's name (set TFHET_SECRET for a real one)" if secret.derived else ""
        return f"{place.mode} job: {part}, {self._side.words}, group {place.identity.current_group}{weak}"

    def _on_signals(self, stopped: asyncio.Future[JobResult]) -> None:
        def on_signal(number: signal.Signals) -> None:
            if not stopped.done():
                stopped.set_result(JobResult(128 + number, f"{self.place.label} was told to stop ({number.name})"))

        loop = asyncio.get_running_loop()
        for number in STOP_SIGNALS:
            loop.add_signal_handler(number, on_signal, number)

    async def _watch(self, stopped: asyncio.Future[JobResult]) -> None:
        """Takes the death of what started the ranks for a request to stop, which it cannot send any more."""
        if self.assignment.source is None:
            return
        why = await self.assignment.source.gone(self.place)
        if not stopped.done():
            stopped.set_result(JobResult(128 + signal.SIGTERM, f"{self.place.label} was told to stop ({why})"))

    def say(self, line: str) -> None:
        """Writes one line to the log, with the host in front; noise is left out."""
        if not self.assignment.is_noise(line):
            _print(f"[{self.place.label}] {line}")

    def _write_emf(self, line: MetricLine) -> None:
        """Prints a metric line once more for CloudWatch, where that is asked for. It must be pure JSON, so it has no
        prefix."""
        if self._settings.emf_namespace:
            _print(emf_line(self._settings.emf_namespace, labels(self.place), line, SYSTEM.wall()))

    def _write_event(self, event: Event) -> None:
        try:
            RunFolder(self._record).write_event(event)
        except OSError as error:
            self.say(f"the event {event.name} cannot be recorded: {error}")


def _print(line: str) -> None:
    with contextlib.suppress(OSError):  # the reader of our log may end before us
        # In one write: what started this launcher may put a prefix before all it gets, and tear a line from its end.
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
