"""The log of a training job: reads its growing streams in CloudWatch, each line once.

A stream is called JOB/algo-N-TIME; a restarted host has another one. GetLogEvents returns events in order of time with
a token for the following ones, but never an event that is ingested late, with a time before the token. So every look
reads the last `horizon_s` seconds again and takes the new events. (FilterLogEvents needs another permission.)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Any

from tfhet.aws import AwsRefused, Patient
from tfhet.follow.log_line import LogLine, host_of

GROUP = "/aws/sagemaker/TrainingJobs"
HORIZON_S = 120.0
"""Seconds of log time by which a line may arrive after a younger one of its stream; later lines are not read."""
PEEKED = 2
"""Pages that `peek` reads at each end of a stream."""
PAGES = 10_000
"""Maximum pages of a stream per look; a page has up to 10,000 lines or 1 MB."""
_Event = tuple[int, int, str]
"""Time, time of ingestion (ms since 1970), and message."""


class LogStreams:
    """Reads the new lines in the log of a job."""

    def __init__(self, job_name: str, logs: Any, aws: Patient, horizon_s: float = HORIZON_S):
        """logs: boto3's client of the service `logs`."""
        self.calls = 0
        """Number of calls of AWS so far."""
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
        """Yields pages of events, from the last page on unless `forward`.

        The last page repeats its token; an empty page may be followed by others.
        """
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
