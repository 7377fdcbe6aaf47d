"""The training script of one rank: its process, its messages and its log lines."""

from __future__ import annotations

import asyncio
import itertools
import re
import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tfhet.errors import JobFailed
from tfhet.launch.assignment import Assignment
from tfhet.launch.job_result import JobResult
from tfhet.launch.script_output import ScriptOutput
from tfhet.messages import Channel, link, rank
from tfhet.planes import LauncherSide
from tfhet.process import Child
from tfhet.report import ErrorFinder
from tfhet.strategies import JobContext
from tfhet.telemetry import oom_kills

SCRIPT_GRACE_S = 20.0
"""Seconds that a training script may take from SIGTERM to its checkpoint and its end."""

_STACK_S, _STACK_LOOKS = 0.5, 10
"""Seconds between two looks for the stack of a stalled script, and the maximum number of looks."""
_FRAME = re.compile(r'  File "(.+)", line (\d+) in (\S+)')
"""A frame, as `faulthandler` prints it: the innermost one first, after _STACK."""
_STACK = "(most recent call first)"
_SHUTDOWN = re.compile(r'/threading\.py", line \d+ in _shutdown$')
"""The outermost frame of a main thread that waits for other threads after its code."""
_NO_FRAME = "<no Python frame>"
"""The line of `faulthandler` once Python has begun to end: objects are destroyed."""
_PACKAGE = re.compile(r"/(site|dist)-packages/")
_INSTALLED = re.compile(rf"{_PACKAGE.pattern}|/lib/python3|^<")
"""Code that is not the user's. `<string>` is code that a library generated, for example for a loaded operation."""
_READING = re.compile(r"/data/ops/")
"""Modules in which a rank waits for the next batch."""


@dataclass(frozen=True)
class Standstill:
    """Where a script without progress stands, from its stack."""

    description: str
    patience: int
    """0: the script hangs in its own code. 1: it waits for data. 2: it may wait for another rank."""

    @classmethod
    def of(cls, tail: Iterable[str]) -> Standstill:
        """Reads the last lines of the script, which end with the stack of its main thread. If the main thread is over,
        the stack of another thread, for which the script waits, may precede it (`process.stack_of_last_thread`)."""
        lines, prefix = list(tail), ""
        begins = [number for number, line in enumerate(lines) if _STACK in line]
        stacks = [lines[begin:end] for begin, end in itertools.pairwise([*begins, len(lines)])] or [lines]
        if any(_NO_FRAME in line for line in stacks[-1]):
            return cls("its code is over, and a library hangs at the end of Python", 1)
        if any(map(_SHUTDOWN.search, stacks[-1])):
            prefix = "its code is over, but a thread goes on: "
            stacks = [stack for stack in stacks if not any(map(_SHUTDOWN.search, stack))] or [[]]
        frames = [found for found in map(_FRAME.match, stacks[-1]) if found]
        depth = next((number for number, frame in enumerate(frames) if not _INSTALLED.search(frame[1])), len(frames))
        at = "".join(f" at {Path(own[1]).name}:{own[2]} in {own[3]}" for own in frames[depth : depth + 1])
        within = [frame[1] for frame in frames[:depth]]
        if begins and at and not any(map(_PACKAGE.search, within)):
            return cls(f"{prefix}it hangs{at}", 0)
        if any(map(_READING.search, within)):
            return cls(f"{prefix}it waits for data{at}", 1)
        return cls(f"{prefix}it waits for data, or for another rank, or hangs{at}", 2)


_PATIENCE_S = 3.0
"""Minimum seconds per level of patience before a standstill of one of several ranks is reported: they stop at about the
same time, and the first one that is reported is the cause."""


class Script:
    """The process of the script of this launcher's rank, which is started at most once."""

    def __init__(self, assignment: Assignment, output: ScriptOutput, say: Callable[[str], None]):
        self._assignment, self._output, self._say = assignment, output, say
        self._oom_kills = oom_kills()
        self._errors = ErrorFinder(assignment.strategy.is_consequence)
        self._channel: Channel | None = None
        self._early: list[rank.Order] = []
        self._child: Child | None = None
        self._is_stopping = self._is_reported = False
        self._ending: asyncio.Task[int] | None = None

    @property
    def pid(self) -> int | None:
        """Id of its process; None while none runs."""
        return self._child.pid if self._child is not None and self._child.code is None else None

    async def start(self, command: Sequence[str], env: Mapping[str, str]) -> int:
        """Starts it and returns its process id. Raises OSError."""
        number = self._assignment.place.rank
        assert number is not None
        self._channel = channel = Channel(self._output.take, rank.Report)
        for order in self._early:
            self.send(order)
        name, on_line = f"rank {number.rank}", self._on_line
        self._child = await Child.start(
            name, command, env=env, on_line=on_line, channel=channel, is_noise=self._is_no_reason
        )
        if self._is_stopping:
            self.request_stop()
        if not self._assignment.settings.train_script:
            self._output.expect_progress()
        return self._child.pid

    def _on_line(self, line: str) -> None:
        self._errors.feed(line)
        self._output.on_line(line)

    def _is_no_reason(self, line: str) -> bool:
        """Whether a line cannot explain the end of the script."""
        plane = self._assignment.plane
        return plane.is_noise(line) or plane.is_of_others(line)

    async def ended(self) -> JobResult:
        """Waits for its end and returns its part of the job result. Raises JobFailed for a stalled script."""
        child, place, settings = self._child, self._assignment.place, self._assignment.settings
        assert child is not None and place.rank is not None
        stall = asyncio.create_task(self._kill_when_stalled(child), name="stall")
        try:
            code = await child.wait()
        finally:
            stall.cancel()
        if stall.done() and not stall.cancelled():
            raise JobFailed(
                f"rank {place.rank.rank} on {place.host} {self._output.missing} for {settings.stall_timeout_s:g} s; "
                f"{stall.result()} (--stall_timeout_s)",
                log_tail=child.tail,
            )
        self._is_reported = True
        return self._result(child, code)

    def unreported_failure(self) -> JobResult | None:
        """The result of a script that failed while its launcher was ending for another reason; else None. A script that
        a signal ended had failed if it printed an error: shutting down takes a while."""
        child = self._child
        if child is None or self._is_reported or self._is_stopping or not child.code:
            return None
        has_failed = child.code > 0 or self._errors.has_error
        return self._result(child, max(1, child.code)) if has_failed else None

    def _result(self, child: Child, code: int) -> JobResult:
        place, settings = self._assignment.place, self._assignment.settings
        assert place.rank is not None
        if self._is_stopping and code == signal.SIGTERM:  # a library's handler, which calls sys.exit(signum)
            code = -signal.SIGTERM
        whose = f"{settings.train_script or 'the built-in trainer'} ended on {place.host}, rank {place.rank.rank}"
        error, tail = self._errors.error(code), list(child.tail)
        if code == -signal.SIGKILL:
            if self._is_stopping:
                return JobResult.of(128 - code, f"{whose}: it had {SCRIPT_GRACE_S:g} s to stop, and was killed", tail)
            if oom_kills() > self._oom_kills:
                error = f"out of memory: the kernel killed a process of this host{f'; {error}' if error else ''}"
        return JobResult.of_script(code, whose, error, tail)

    def send(self, order: rank.Order) -> None:
        """Sends it a message, now or when it starts."""
        if self._channel is None:
            self._early.append(order)
        else:
            self._channel.send(order)

    def request_stop(self) -> None:
        """Asks it to stop, now or when it has started."""
        self._is_stopping = True
        if self._child is not None and self._ending is None:
            self._say(f"the script is asked to stop; it has {SCRIPT_GRACE_S:g} s")
            self._ending = asyncio.create_task(self._child.stop(SCRIPT_GRACE_S), name="stop")

    def has_begun_to_read(self) -> None:
        """Repeats an earlier request to stop, which the script missed if a library blocked the signal."""
        if self._is_stopping and self._child is not None:
            self._child.kill(signal.SIGTERM)

    async def stop(self, grace_s: float) -> None:
        """Stops the script: SIGHUP first (SIGTERM means "checkpoint now"), SIGKILL after `grace_s` seconds."""
        if self._ending is not None:
            self._ending.cancel()
            await asyncio.gather(self._ending, return_exceptions=True)
        if self._child is not None:
            await self._child.stop(grace_s, signal.SIGTERM if self._is_stopping else signal.SIGHUP)

    async def _kill_when_stalled(self, child: Child) -> str:
        """Kills a stalled script and returns where it stood. A script that takes a step in the meantime continues."""
        limit_s, place = self._assignment.settings.stall_timeout_s, self._assignment.place
        wait_s = min(60.0, max(_PATIENCE_S, limit_s / 20)) if place.size > 1 else 0.0
        while True:
            await self._output.stalls(limit_s)
            if self._output.totals:  # tfhet sends them, and has prepared the script for this
                child.ask_for_stack()
                for _ in range(_STACK_LOOKS):
                    await asyncio.sleep(_STACK_S)
                    if any(_STACK in line for line in child.tail):
                        break
            found = Standstill.of(child.tail)
            await asyncio.sleep(found.patience * wait_s)
            if self._output.silent_s() >= limit_s:
                child.kill()
                return found.description


def environment_of(
    assignment: Assignment, side: LauncherSide, start: link.Start, record: Path, timeline: Path | None
) -> dict[str, str]:
    """The environment of the script. start: the leader's order. record: folder of the run record. timeline: folder for
    the times of its steps, or None. Raises ClusterError if this host cannot follow the order."""
    place, rank = assignment.place, assignment.place.rank
    assert rank is not None
    job = JobContext(
        job_id=start.job_id,
        mode=place.mode,
        rank=rank.rank,
        size=rank.size,
        local_rank=rank.local_rank,
        local_size=rank.local_size,
        plane=assignment.plane.name,
        order=start.plane,
        strategy=assignment.strategy.name,
        seed=assignment.settings.job_seed,
        host=place.host,
        group=place.identity.current_group,
        output_dir=str(place.paths.output_data),
        record_dir=str(record),
        timeline_dir=None if timeline is None else str(timeline),
        checks_weights=assignment.checks_weights,
    )
    env = side.environment(start.plane, {**place.env, **job.to_env(), "PYTHONUNBUFFERED": "1"})
    return assignment.strategy.environment(start.strategy, place.host, rank, env)
