"""Follows a training job to its end: shows its log, steps and cost, and writes the record of the run."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

from tfhet import clock as clocks
from tfhet.aws import AwsRefused, Patient
from tfhet.errors import NotReady
from tfhet.follow.follow_record import summary_of
from tfhet.follow.heard import Heard, cluster_of, placed
from tfhet.follow.log_streams import LogLine, LogStreams, LogWindow
from tfhet.follow.state import JobCost, JobState, cost_of, training_prices
from tfhet.planes import is_noise
from tfhet.record import RunFolder, RunSummary
from tfhet.report import Picture, PriceOf, Screen, gathered, place_of, run_table, screen, show

START_S = 86400.0
"""Seconds that a job may wait for instances, in addition to its own limit."""
STOP_S = 1800.0
"""Seconds that a stopping job may take: 120 s for its hosts, the rest for uploads."""
QUIET_S, SETTLE_S = 15.0, 120.0
"""The log of an ended job is complete QUIET_S seconds after its last line, or SETTLE_S after the end."""
CALLS_PER_S = 4.0
"""Maximum calls of CloudWatch per second: with many hosts the pauses are longer."""


@dataclass(frozen=True)
class Followed:
    summary: RunSummary
    folder: RunFolder

    @property
    def exit_code(self) -> int:
        """0 if the job is completed, 1 if it failed or was stopped, 130 if it still runs after Ctrl-C."""
        return 130 if self.summary.exit_code is None else 0 if self.summary.succeeded else 1


def follow(
    job_name: str,
    sagemaker: Any,
    logs: Any,
    *,
    run_dir: Path | None = None,
    out: IO[str] | None = None,
    ask: Callable[[str], bool] | None = None,
    price_of: PriceOf | None = None,
    every_s: float = 5.0,
    deadline_s: float | None = None,
    clock: clocks.Clock = clocks.SYSTEM,
) -> Followed:
    """Shows the log of a running or finished training job, and writes the record of its run, also after an error.

    Args:
        run_dir: Folder of the run, whose logs are overwritten; None for runs/JOB_NAME.
        ask: Answers after Ctrl-C whether to stop the job; None for a question on a terminal, else no.
        price_of: Price of an instance type; None for training prices of the region.
        every_s: Seconds between two looks.
        deadline_s: Seconds to follow; None for the job's limit and a day for its start.

    Raises:
        UsageError: The job does not exist, or the credentials lack the right to see it.
        NotReady: The deadline has passed, or AWS does not answer.
    """
    out = out if out is not None else sys.stdout
    aws = Patient(clock)
    state = JobState.ask(job_name, sagemaker, aws)
    folder = RunFolder(run_dir or Path("runs") / job_name)
    with screen(out, "follow", has_log=True) as shown:
        following = _Following(
            state=state,
            sagemaker=sagemaker,
            streams=LogStreams(job_name, logs, aws),
            folder=folder,
            shown=shown,
            ask=ask or (_asked if out.isatty() and sys.stdin.isatty() else None),
            price_of=price_of or training_prices(sagemaker.meta.region_name),
            every_s=every_s,
            aws=aws,
            window=LogWindow(clock),
        )
        following.run(state.limit_s + START_S if deadline_s is None else deadline_s)
    summary = folder.read_summary()
    show(run_table(summary, folder.path), out)
    return Followed(summary, folder)


@dataclass
class _Following:
    state: JobState
    sagemaker: Any
    streams: LogStreams
    folder: RunFolder
    shown: Screen
    ask: Callable[[str], bool] | None
    price_of: PriceOf
    every_s: float
    aws: Patient
    window: LogWindow
    heard: Heard = field(default_factory=Heard)
    _is_asked_to_stop: bool = False
    _changed_s: float = 0.0
    """Monotonic time of the last new line, or of the end of the job."""
    _over_s: float | None = None
    """Monotonic time at which the job was seen to be over."""
    _hosts_with_logs: set[str] = field(default_factory=set)
    _waiting: deque[tuple[LogLine, bool]] = field(default_factory=deque)
    """Lines to show, each with whether it is a metric line."""

    def run(self, deadline_s: float) -> None:
        """Follows the job and its log to the end, and writes the record in any case."""
        clock = self.aws.clock
        until_s = clock.monotonic() + deadline_s
        try:
            while True:
                try:
                    calls = self.streams.calls
                    self._look()
                    if self._is_done():
                        return
                    if clock.monotonic() >= until_s:
                        name, status = self.state.name, self.state.status
                        raise NotReady(f"{name} is {status} after {deadline_s:g} s; {self._again}")
                    clock.sleep(max(self.every_s, (self.streams.calls - calls) / CALLS_PER_S))
                except KeyboardInterrupt:
                    if not self._stop():
                        return
                    deadline_s, until_s = STOP_S, clock.monotonic() + STOP_S
        finally:
            self._show(self.window.rest())
            self.folder.create().write_summary(summary_of(self.state, self.heard, self._cost()))

    @property
    def _again(self) -> str:
        return f"`tfhet follow {self.state.name}` shows it again"

    def _cost(self) -> JobCost:
        return cost_of(self.state, cluster_of(self.state.groups, self.heard), self.price_of, self.aws.clock.wall())

    def _look(self) -> None:
        """Shows new lines. Requests the state first: the log of an ended job lacks only late lines."""
        if not self.state.is_over:
            self.state = JobState.ask(self.state.name, self.sagemaker, self.aws)
        now_s = self.aws.clock.monotonic()
        if self.state.is_over and self._over_s is None:
            # the log of a job that ended long ago is complete
            ago_s = max(0.0, self.aws.clock.wall() - (self.state.ended_s or self.aws.clock.wall()))
            self._over_s = self._changed_s = now_s - ago_s
        fresh = self.streams.read()
        if fresh and (self._over_s is None or now_s - self._over_s < SETTLE_S):
            self._changed_s = now_s
        self.window.add(fresh)
        self._show(self.window.due())
        cost, state = self._cost(), self.state
        picture = Picture(
            state=str(state).rstrip(". "),
            is_over=state.is_over,
            elapsed_s=cost.billable_s or None,
            steps=self.heard.steps,
            hosts={host: f"runs in {group}" for host, group in self._places().items()},
            restarts=self.heard.restarts,
            name=state.name,
            cost=cost.in_words(is_over=state.is_over),
        )
        self.shown.show(picture, now_s)

    def _places(self) -> dict[str, str]:
        return placed(self.state.groups, self.heard.groups, self.heard.hosts) if self.state.is_heterogeneous else {}

    def _is_done(self) -> bool:
        now_s = self.aws.clock.monotonic()
        return self._over_s is not None and (now_s - self._changed_s >= QUIET_S or now_s - self._over_s >= SETTLE_S)

    def _show(self, lines: list[LogLine]) -> None:
        """Parses all lines before it shows them: a late introduction names the group of earlier lines."""
        heard = [(line, self.heard.hear(line)) for line in lines if not is_noise(line.text, gpus=1)]
        texts = gathered([line.text for line, _ in heard])
        self._waiting.extend((replace(heard[at][0], text=text), heard[at][1]) for at, text in texts.items())
        for host in dict.fromkeys(line.host for line in lines):
            path = self.folder.create().log_path(host)
            with open(path, "a" if host in self._hosts_with_logs else "w", encoding="utf-8", errors="replace") as file:
                file.writelines(f"{line.text}\n" for line in lines if line.host == host)
            self._hosts_with_logs.add(host)
        places = self._places()
        while self._waiting:
            line, is_metric = self._waiting[0]
            place, text = place_of(line.text)
            who = place if place.partition("/")[0] == line.host else line.host
            text = text if who == place else line.text
            self.shown.log(f"{who} {places.get(line.host, '')}".rstrip(), text, is_metric=is_metric)
            self._waiting.popleft()  # after it was shown: Ctrl-C loses no line

    def _stop(self) -> bool:
        """Asks after Ctrl-C whether to stop the job. Returns whether to wait for its end."""
        name, say = self.state.name, self.shown.say
        if self._is_asked_to_stop or self.state.is_over:
            say(f"{name} is {self.state.status}; {self._again}")
            return False
        runs_on = f"{name} runs on, and is paid for; {self._again}"
        if self.ask is None:
            say(f"{runs_on}, and `aws sagemaker stop-training-job --training-job-name {name}` stops it")
            return False
        with self.shown.paused():
            wanted = self.ask("Stop the job too? Otherwise it continues, and is paid for.")
        if not wanted:
            say(runs_on)
            return False
        self._is_asked_to_stop = True
        try:
            self.aws(self.sagemaker.stop_training_job, TrainingJobName=name)
        except AwsRefused as error:  # it ended meanwhile
            if error.code not in ("ResourceNotFound", "ValidationException"):
                raise
        say(f"{name} was asked to stop; a second Ctrl-C does not wait for that")
        return True


def _asked(question: str) -> bool:
    try:
        return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
    except (EOFError, KeyboardInterrupt):
        return False
