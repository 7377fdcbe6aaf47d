"""The log of a training job: its streams in CloudWatch, read while they grow, each line once.

A stream is called JOB/algo-N-TIME. It may come late, and a host that is started again has another one. GetLogEvents
gives the events of a stream in the order of their times, with a token for those after them; an event that is ingested
late, with a time before the token's, is never given for a token. So every look reads the last `horizon_s` again, and
takes what is new. (FilterLogEvents, which numbers events, needs a right of its own that users may lack.)
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
"""Seconds of log time by which a line may come later than a younger one of its stream; later ones are not read."""
PEEKED = 2
"""Number of pages that `peek` reads at each end of a stream."""
PAGES = 10_000
"""Maximum number of pages of a stream at one look; a page has up to 10,000 lines, or 1 MB."""
_Event = tuple[int, int, str]
"""Time and time of ingestion, in milliseconds since 1970, and message."""


class LogStreams:
    """Reads what is new in the log of a job."""

    def __init__(self, job_name: str, logs: Any, aws: Patient, horizon_s: float = HORIZON_S):
        """logs: boto3's client of the service `logs`."""
        self.calls = 0
        """Number of calls of AWS so far."""
        self._job, self._logs, self._aws = job_name, logs, aws
        self._horizon_ms = round(1000 * horizon_s)
        self._taken: dict[str, Counter[_Event]] = {}
        """Events of each stream in its horizon, counted, since two may be equal in everything."""
        self._fresh: list[LogLine] = []

    def read(self) -> list[LogLine]:
        """Returns the lines that came since the last call, by stream and time. Raises as `Patient` does. Lines that
        were read before a call was interrupted are returned by the next one."""
        for name in self._names():
            self._read(name, self._taken.setdefault(name, Counter()))
        fresh, self._fresh = self._fresh, []
        return fresh

    def peek(self) -> list[LogLine]:
        """Returns the first and the last lines of each stream by time; a short stream's lines come twice."""
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
        """Yields pages of events from a time on, the first one first; unless `forward`, the last one first. The last
        is that whose token stays the same: an empty page need not be the last."""
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
        """Returns the answer; {} while there is no such group or stream."""
        self.calls += 1
        try:
            return dict(self._aws(call, **request))
        except AwsRefused as error:
            if error.code == "ResourceNotFoundException":
                return {}
            raise
