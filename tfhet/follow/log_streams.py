"""The log of a training job: reads its growing streams in CloudWatch, each line once, and orders lines of hosts.

A stream is called JOB/algo-N-TIME; a restarted host has another one. GetLogEvents returns events in order of time with
a token for the following ones, but never an event that is ingested late, with a time before the token. So every look
reads the last `horizon_s` seconds again and takes the new events. (FilterLogEvents needs another permission.)
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from tfhet.aws import AwsRefused, Patient
from tfhet.clock import Clock

GROUP = "/aws/sagemaker/TrainingJobs"
HORIZON_S = 120.0
"""Seconds of log time by which a line may arrive after a younger one of its stream; later lines are not read."""
PEEKED = 2
"""Pages that `peek` reads at each end of a stream."""
PAGES = 10_000
"""Maximum pages of a stream per look; a page has up to 10,000 lines or 1 MB."""
WINDOW_S = 5.0
"""Seconds for which a line is held, so that lines of several hosts are ordered."""
_HOST = re.compile(r"(algo-\d+)(?:-|$)")
_Event = tuple[int, int, str]
"""Time, time of ingestion (ms since 1970), and message."""


@dataclass(frozen=True)
class LogLine:
    host: str
    at_ms: int
    text: str


def host_of(stream: str) -> str:
    """Returns the host of a stream: algo-2 of JOB/algo-2-1700000000; else the part after the job's name."""
    own = stream.partition("/")[2] or stream
    found = _HOST.match(own)
    return found.group(1) if found else own.replace("/", "_")


class LogStreams:
    """Reads the new lines in the log of a job."""

    def __init__(self, job_name: str, logs: Any, aws: Patient, horizon_s: float = HORIZON_S):
        self.calls = 0
        self._job, self._logs, self._aws = job_name, logs, aws
        self._horizon_ms = round(1000 * horizon_s)
        self._taken: dict[str, Counter[_Event]] = {}
        """Counts of the events in the horizon of each stream; two events may be equal."""
        self._fresh: list[LogLine] = []

    def read(self) -> list[LogLine]:
        """Returns the lines since the last call, by stream and time; an interrupted call loses none."""
        for name in self._names():
            self._read(name, self._taken.setdefault(name, Counter()))
        fresh, self._fresh = self._fresh, []
        return fresh

    def peek(self) -> list[LogLine]:
        """Returns the first and last lines of each stream by time; lines of a short stream occur twice."""
        lines: list[LogLine] = []
        for name in self._names():
            for page in (*islice(self._pages(name, None), PEEKED), *islice(self._pages(name, None, False), PEEKED)):
                lines += [LogLine(host_of(name), int(e["timestamp"]), str(e["message"]).rstrip("\r\n")) for e in page]
        return sorted(lines, key=lambda line: line.at_ms)

    def _names(self) -> list[str]:
        request: dict[str, Any] = {"logGroupName": GROUP, "logStreamNamePrefix": f"{self._job}/"}
        names: list[str] = []
        while page := self._call(self._logs.describe_log_streams, request):
            names += [stream["logStreamName"] for stream in page.get("logStreams", ())]
            if not page.get("nextToken"):
                break
            request["nextToken"] = page["nextToken"]
        return names

    def _read(self, name: str, taken: Counter[_Event]) -> None:
        found: Counter[_Event] = Counter()
        start_ms = max(0, max(taken)[0] - self._horizon_ms) if taken else None
        for page in self._pages(name, start_ms):
            for event in page:
                key = (int(event["timestamp"]), int(event.get("ingestionTime", 0)), str(event["message"]))
                found[key] += 1
                if found[key] > taken[key]:
                    self._fresh.append(LogLine(host_of(name), key[0], key[2].rstrip("\r\n")))
                    taken[key] = found[key]
            oldest_ms = max(taken)[0] - self._horizon_ms if taken else 0
            for counted in (taken, found):
                for key in [key for key in counted if key[0] < oldest_ms]:
                    del counted[key]

    def _pages(self, name: str, start_ms: int | None, forward: bool = True) -> Iterator[list[Any]]:
        """Yields pages of events, from the last page on unless `forward`. The last page repeats its token."""
        request: dict[str, Any] = {"logGroupName": GROUP, "logStreamName": name, "startFromHead": forward}
        if start_ms is not None:
            request["startTime"] = start_ms
        for _ in range(PAGES):
            page = self._call(self._logs.get_log_events, request)
            yield page.get("events", [])
            token = page.get("nextForwardToken" if forward else "nextBackwardToken")
            if token is None or token == request.get("nextToken"):
                return
            request["nextToken"] = token

    def _call(self, call: Any, request: dict[str, Any]) -> dict[str, Any]:
        """Returns the answer; {} if the group or stream does not exist yet."""
        self.calls += 1
        try:
            return dict(self._aws(call, **request))
        except AwsRefused as error:
            if error.code == "ResourceNotFoundException":
                return {}
            raise


class LogWindow:
    """Holds lines for `window_s` seconds and returns them in order of time; a later line is returned at once."""

    def __init__(self, clock: Clock, window_s: float = WINDOW_S):
        self._clock, self._window_s = clock, window_s
        self._held: list[tuple[float, LogLine]] = []
        self._given_ms = -1

    def add(self, lines: Iterable[LogLine]) -> None:
        now_s = self._clock.monotonic()
        self._held += [(now_s, line) for line in lines]

    def due(self) -> list[LogLine]:
        long_ago_s = self._clock.monotonic() - self._window_s
        held = [line.at_ms for added_s, line in self._held if added_s <= long_ago_s]
        self._given_ms = max([self._given_ms, *held])
        return self._give(self._given_ms)

    def rest(self) -> list[LogLine]:
        return self._give(max((line.at_ms for _, line in self._held), default=0))

    def _give(self, until_ms: int) -> list[LogLine]:
        given = [line for _, line in self._held if line.at_ms <= until_ms]
        self._held = [each for each in self._held if each[1].at_ms > until_ms]
        return sorted(given, key=lambda line: line.at_ms)
