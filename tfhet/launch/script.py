"""The training script of one rank: its process, from its start to its end, its messages and its log lines."""

from __future__ import annotations

import asyncio
import itertools
import re
import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from tfhet.clock import SYSTEM, Clock
from tfhet.errors import JobFailed
from tfhet.launch.assignment import Assignment
from tfhet.launch.job_result import JobResult, last_word
from tfhet.messages import Channel, MetricLine, link, rank
from tfhet.planes import LauncherSide
from tfhet.process import Child
from tfhet.report import is_error
from tfhet.strategies import JobContext


class Hearing:
    """Takes the messages and the log of one script. on_line: receives each line of the log, and each metric line that
    comes as a message. on_metrics: each metric line, from the messages of a script that sends them, else from its log.
    on_reading: whether a data set is endless, once it is read. on_report: what the leader needs of all ranks."""

    def __init__(
        self,
        on_line: Callable[[str], None],
        on_metrics: Callable[[MetricLine], None] = lambda line: None,
        on_reading: Callable[[bool], None] = lambda endless: None,
        on_report: Callable[[rank.Standing | rank.Delivered], None] = lambda report: None,
        clock: Clock = SYSTEM,
    ):
        self.metrics: MetricLine | None = None
        """The last metric line; None before the first, and on every rank but rank 0."""
        self.totals: Mapping[str, float] = {}
        """The last totals of `rank.Progress`, without those that the script never sent."""
        self.news = 0
        """Number of messages of its progress."""
        self._on_line, self._on_metrics, self._on_reading = on_line, on_metrics, on_reading
        self._on_report, self._clock = on_report, clock
        self._sends_metrics = False
        self._progress_s: float | None = None
        """When the script last sent its progress, on the clock; None for a script that never does."""

    def hear(self, line: str) -> None:
        self._on_line(line)
        if not self._sends_metrics and (metrics := MetricLine.parse(line)) is not None:
            self._count(metrics)

    def take(self, report: rank.Report) -> None:
        """Takes one message."""
        if isinstance(report, rank.Progress):
            self.expect_progress()
            self.news += 1
            told = msgspec.structs.asdict(report)
            self.totals = {**self.totals, **{name: value for name, value in told.items() if value is not None}}
        elif isinstance(report, rank.Reading):
            self._on_reading(report.endless)
        elif isinstance(report, (rank.Standing, rank.Delivered)):
            self._on_report(report)
        elif (metrics := MetricLine.parse(report.line)) is not None:
            self._sends_metrics = True
            self._on_line(str(metrics))
            self._count(metrics)

    def expect_progress(self) -> None:
        """Counts a script that sends no progress from now on as stalled."""
        self._progress_s = self._clock.monotonic()

    async def stalls(self, limit_s: float) -> None:
        """Returns once a script that used to send its progress has sent none for `limit_s` seconds; 0: never."""
        while not limit_s or self.silent_s() < limit_s:
            await asyncio.sleep(min(1.0, limit_s or 1.0))

    def silent_s(self) -> float:
        """Seconds since the script last sent its progress; 0 for a script that never does."""
        return 0.0 if self._progress_s is None else self._clock.monotonic() - self._progress_s

    def _count(self, metrics: MetricLine) -> None:
        self.metrics = metrics
        self._on_metrics(metrics)


SCRIPT_GRACE_S = 20.0
"""Seconds that a training script may take from SIGTERM to its checkpoint and its end."""

_STACK_S, _STACK_LOOKS = 0.5, 10
"""Seconds between two looks for the stack of a script that stalled, and how many there are on a busy host."""
_FRAME = re.compile(r'  File "(.+)", line (\d+) in (\S+)')
"""A frame, as `faulthandler` prints it: the innermost one first, after _STACK."""
_STACK = "(most recent call first)"
_SHUTDOWN = re.compile(r'/threading\.py", line \d+ in _shutdown$')
"""The outermost frame of a main thread that waits for other threads after its code."""
_NO_FRAME = "<no Python frame>"
"""The line of `faulthandler` once Python has begun to end: objects are destroyed."""
_PACKAGE = re.compile(r"/(site|dist)-packages/")
_INSTALLED = re.compile(rf"{_PACKAGE.pattern}|/lib/python3|^<")
"""Code that is not the user's. `<string>` is what a library made while it ran, as for an operation that it loaded."""
_READING = re.compile(r"/data/ops/")
"""Modules in which a rank waits for the next batch."""


@dataclass(frozen=True)
class Standstill:
    """Where a script stood that took no step, by its stack."""

    says: str
    patience: int
    """0 for a script that hangs in its own code; above that it may be another rank for which it waits: 1 in a read of
    data, which no rank but itself can hold up, 2 anywhere else."""

    @classmethod
    def of(cls, tail: Iterable[str]) -> Standstill:
        """By the last lines that the script printed: they end with the stack of its main thread. If that is over, the
        stack of another thread, for which the script waits, may stand before (`process.stack_of_last_thread`)."""
        lines, over = list(tail), ""
        begins = [number for number, line in enumerate(lines) if _STACK in line]
        stacks = [lines[begin:end] for begin, end in itertools.pairwise([*begins, len(lines)])] or [lines]
        if any(_NO_FRAME in line for line in stacks[-1]):
            return cls("its code is over, and a library hangs at the end of Python", 1)
        if any(map(_SHUTDOWN.search, stacks[-1])):
            over = "its code is over, but a thread goes on: "
            stacks = [stack for stack in stacks if not any(map(_SHUTDOWN.search, stack))] or [[]]
        frames = [found for found in map(_FRAME.match, stacks[-1]) if found]
        depth = next((number for number, frame in enumerate(frames) if not _INSTALLED.search(frame[1])), len(frames))
        at = "".join(f" at {Path(own[1]).name}:{own[2]} in {own[3]}" for own in frames[depth : depth + 1])
        within = [frame[1] for frame in frames[:depth]]
        if begins and at and not any(map(_PACKAGE.search, within)):
            return cls(f"{over}it hangs{at}", 0)
        if any(map(_READING.search, within)):
            return cls(f"{over}it waits for data{at}", 1)
        return cls(f"{over}it waits for data, or for another rank, or hangs{at}", 2)


_PATIENCE_S = 3.0
"""Minimum seconds, for each level of its patience, that the standstill of one of several ranks is kept back: they stop
at about the same time, and the first to be reported is the cause."""


class Script:
    """The script of the rank at this launcher: started at most once, heard and stopped."""

    def __init__(self, assignment: Assignment, hearing: Hearing, say: Callable[[str], None]):
        self._assignment, self._hearing, self._say = assignment, hearing, say
        self._channel: Channel | None = None
        self._early: list[rank.Order] = []
        self._child: Child | None = None
        self._is_stopping = self._has_said = False
        self._ending: asyncio.Task[int] | None = None

    @property
    def pid(self) -> int | None:
        """Id of its process; None while none runs."""
        return self._child.pid if self._child is not None and self._child.code is None else None

    async def start(self, command: Sequence[str], env: Mapping[str, str]) -> int:
        """Starts it and returns its process id. Raises OSError."""
        number = self._assignment.place.rank
        assert number is not None
        self._channel = channel = Channel(self._hearing.take, rank.Report)
        for order in self._early:
            self.tell(order)
        name, hear = f"rank {number.rank}", self._hearing.hear
        is_noise = self._assignment.plane.is_noise
        self._child = await Child.start(name, command, env=env, on_line=hear, channel=channel, is_noise=is_noise)
        if self._is_stopping:
            self.request_stop()
        if not self._assignment.settings.train_script:
            self._hearing.expect_progress()
        return self._child.pid

    async def ended(self) -> JobResult:
        """The job result, as far as it depends on this script, once it has ended. Raises JobFailed for a script that
        stalled, after ending it."""
        child, place, settings = self._child, self._assignment.place, self._assignment.settings
        assert child is not None and place.rank is not None
        stall = asyncio.create_task(self._kill_when_stalled(child), name="stall")
        try:
            code = await child.wait()
        finally:
            stall.cancel()
        if stall.done() and not stall.cancelled():
            raise JobFailed(
                f"rank {place.rank.rank} on {place.host} took no step for {settings.stall_timeout_s:g} s; "
                f"{stall.result()} (--stall_timeout_s)",
                log_tail=child.tail,
            )
        self._has_said = True
        return self._result(child, code)

    def unsaid_failure(self) -> JobResult | None:
        """The result of a script that failed by itself while its launcher was ending for another reason; else None. One
        that was ended by a signal had failed if an error is the last that it said: it takes a while to shut down."""
        child = self._child
        if child is None or self._has_said or self._is_stopping or not child.code:
            return None
        has_failed = child.code > 0 or is_error(last_word(list(child.tail)))
        return self._result(child, max(1, child.code)) if has_failed else None

    def _result(self, child: Child, code: int) -> JobResult:
        place, settings = self._assignment.place, self._assignment.settings
        assert place.rank is not None
        if self._is_stopping and code == signal.SIGTERM:  # a library's handler, which calls sys.exit(signum)
            code = -signal.SIGTERM
        stop = f", which had {SCRIPT_GRACE_S:g} s to stop" if self._is_stopping and code == -signal.SIGKILL else ""
        whose = f"{settings.train_script or 'the built-in trainer'} ended on {place.host}, rank {place.rank.rank}{stop}"
        return JobResult.of_script(code, whose, list(child.tail))

    def tell(self, order: rank.Order) -> None:
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
        """Asks it again if it has been asked to stop: that it begins to read means that it has not heard it, because a
        library held the signal until then."""
        if self._is_stopping and self._child is not None:
            self._child.ask_again()

    async def stop(self, grace_s: float) -> None:
        """Ends it: by SIGKILL after `grace_s` seconds, and before that by SIGHUP, which no script takes for the request
        to save that SIGTERM is; only a script that was asked to stop gets SIGTERM again."""
        if self._ending is not None:
            self._ending.cancel()
            await asyncio.gather(self._ending, return_exceptions=True)
        if self._child is not None:
            await self._child.stop(grace_s, signal.SIGTERM if self._is_stopping else signal.SIGHUP)

    async def _kill_when_stalled(self, child: Child) -> str:
        """Returns where the script stood. One that takes a step while it is kept back goes on."""
        limit_s, place = self._assignment.settings.stall_timeout_s, self._assignment.place
        wait_s = min(60.0, max(_PATIENCE_S, limit_s / 20)) if place.size > 1 else 0.0
        while True:
            await self._hearing.stalls(limit_s)
            if self._hearing.totals:  # it is tfhet that sends them, and has prepared the script for this
                child.ask_for_stack()
                for _ in range(_STACK_LOOKS):
                    await asyncio.sleep(_STACK_S)
                    if any(_STACK in line for line in child.tail):
                        break
            found = Standstill.of(child.tail)
            await asyncio.sleep(found.patience * wait_s)
            if self._hearing.silent_s() >= limit_s:
                child.kill()
                return found.says


def environment_of(
    assignment: Assignment, side: LauncherSide, start: link.Start, record: Path, timeline: Path | None
) -> dict[str, str]:
    """The variables of the script. start: the leader's order. record: folder of the run record. timeline: folder for
    the times of its steps; None: it does not write them. Raises ClusterError where it cannot follow the order."""
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
    )
    env = side.environment(start.plane, {**place.env, **job.to_env(), "PYTHONUNBUFFERED": "1"})
    return assignment.strategy.environment(start.strategy, place.host, rank, env)
