"""follow/log_streams.py: every line of a log once, whatever comes late."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

boto3 = pytest.importorskip("boto3")

from botocore.stub import Stubber  # noqa: E402
from fake_clock import FakeClock  # noqa: E402
from hypothesis import (  # noqa: E402
    given,
    settings,
    strategies as st,
)

from tfhet.aws import AwsRefused, Patient  # noqa: E402
from tfhet.errors import UsageError  # noqa: E402
from tfhet.follow.log_line import LogLine, host_of  # noqa: E402
from tfhet.follow.log_streams import GROUP, LogStreams  # noqa: E402

AWS = Patient(FakeClock())
HORIZON_S = 10.0


class CloudWatch:
    """Streams that grow: what was ingested is there in the order of its times, in pages, some of them empty."""

    def __init__(self, per_page: int = 2, names_per_page: int = 1):
        self.streams: dict[str, list[dict[str, Any]]] = {}
        self._per_page, self._names_per_page = per_page, names_per_page
        self._ingested = 0

    def ingest(self, stream: str, at_ms: int, message: str) -> None:
        self._ingested += 1
        event = {"timestamp": at_ms, "message": message, "ingestionTime": self._ingested // 3}
        events = self.streams.setdefault(stream, [])
        events.append(event)
        events.sort(key=lambda each: each["timestamp"])

    def describe_log_streams(self, logGroupName: str, logStreamNamePrefix: str, nextToken: str = "0") -> dict[str, Any]:
        names = sorted(name for name in self.streams if name.startswith(logStreamNamePrefix))
        start, stop = int(nextToken), int(nextToken) + self._names_per_page
        more = {"nextToken": str(stop)} if stop < len(names) else {}
        return {"logStreams": [{"logStreamName": name} for name in names[start:stop]], **more}

    def get_log_events(
        self, logGroupName: str, logStreamName: str, startFromHead: bool, startTime: int = 0, nextToken: str = ""
    ) -> dict[str, Any]:
        """A token is the place behind what was read; of two pages that have something, one is empty."""
        events = [each for each in self.streams[logStreamName] if each["timestamp"] >= startTime]
        place, empty = (int(part) for part in nextToken.split("/")) if nextToken else (0, 1)
        if empty and place < len(events):
            return {"events": [], "nextForwardToken": f"{place}/0"}
        page = events[place : place + self._per_page]
        after = f"{place + len(page)}/1" if page else nextToken or "0/1"
        return {"events": page, "nextForwardToken": after}


def texts(lines: list[LogLine], host: str = "algo-1") -> list[str]:
    return [line.text for line in lines if line.host == host]


def test_each_look_gives_what_is_new_and_only_that() -> None:
    cloud = CloudWatch()
    streams = LogStreams("demo", cloud, AWS)
    assert streams.read() == []
    for second in range(5):
        cloud.ingest("demo/algo-1-1700", 1000 * second, f"line {second}\n")
    assert streams.read() == [LogLine("algo-1", 1000 * second, f"line {second}") for second in range(5)]
    assert streams.read() == []
    cloud.ingest("demo/algo-1-1700", 5000, "line 5")
    assert texts(streams.read()) == ["line 5"]


def test_a_line_that_comes_in_behind_younger_ones_is_found_within_the_horizon() -> None:
    cloud = CloudWatch()
    streams = LogStreams("demo", cloud, AWS, HORIZON_S)
    cloud.ingest("demo/algo-1-1", 20_000, "young")
    assert texts(streams.read()) == ["young"]
    cloud.ingest("demo/algo-1-1", 10_000, "late")
    cloud.ingest("demo/algo-1-1", 9_999, "too late")
    assert texts(streams.read()) == ["late"]


def test_two_lines_that_are_the_same_in_everything_are_two_lines() -> None:
    cloud = CloudWatch()
    streams = LogStreams("demo", cloud, AWS)
    for _ in range(2):
        cloud.ingest("demo/algo-1-1", 1000, "again")
    assert texts(streams.read()) == ["again", "again"]
    cloud.ingest("demo/algo-1-1", 1000, "again")
    assert texts(streams.read()) == ["again"]


def test_a_stream_that_comes_late_is_read_from_its_start_and_other_jobs_are_not() -> None:
    cloud = CloudWatch()
    streams = LogStreams("demo", cloud, AWS, HORIZON_S)
    cloud.ingest("demo/algo-2-1700", 900_000, "here")
    cloud.ingest("demo-2/algo-1-1700", 900_000, "another job")
    assert texts(streams.read(), "algo-2") == ["here"]
    cloud.ingest("demo/algo-1-1702", 1_000, "long ago")
    cloud.ingest("demo/algo-2-1799", 1_000, "of the same host, started again")
    found = streams.read()
    assert texts(found) == ["long ago"] and texts(found, "algo-2") == ["of the same host, started again"]


def test_what_was_read_before_an_interruption_is_not_lost() -> None:
    cloud = CloudWatch()
    for host in (1, 2):
        cloud.ingest(f"demo/algo-{host}-1", 1000, f"of {host}")
    streams = LogStreams("demo", cloud, AWS)
    whole = cloud.get_log_events

    def interrupted(logStreamName: str, **rest: Any) -> dict[str, Any]:
        if "algo-2" in logStreamName:
            raise KeyboardInterrupt
        return whole(logStreamName=logStreamName, **rest)

    cloud.get_log_events = interrupted  # type: ignore[method-assign,assignment]
    with pytest.raises(KeyboardInterrupt):
        streams.read()
    cloud.get_log_events = whole  # type: ignore[method-assign]
    assert sorted(line.text for line in streams.read()) == ["of 1", "of 2"]


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["demo/algo-1-1", "demo/algo-2-1", "demo/algo-2-9"]),
        st.integers(0, 8),  # seconds before the newest of its stream
        st.sampled_from(["a", "b"]),
        st.booleans(),  # whether a look comes behind it
    ),
    max_size=30,
)


@settings(max_examples=200)
@given(EVENTS, st.integers(1, 4), st.integers(1, 2))
def test_each_line_comes_exactly_once_however_late_within_the_horizon(
    events: list[tuple[str, int, str, bool]], per_page: int, names_per_page: int
) -> None:
    cloud = CloudWatch(per_page, names_per_page)
    streams = LogStreams("demo", cloud, AWS, HORIZON_S)
    found: list[LogLine] = []
    for number, (stream, late_s, text, looks) in enumerate(events):
        cloud.ingest(stream, 100_000 + 1000 * (number // 4) - 1000 * late_s, text)
        if looks:
            found += streams.read()
    found += streams.read()
    wanted = Counter((host_of(name), e["timestamp"], e["message"]) for name, es in cloud.streams.items() for e in es)
    assert Counter((line.host, line.at_ms, line.text) for line in found) == wanted


def client() -> Any:
    return boto3.client("logs", region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="x")


def test_the_requests_are_what_cloudwatch_takes() -> None:
    logs = client()
    request = {"logGroupName": GROUP, "logStreamName": "demo/algo-1-17", "startFromHead": True}
    event = {"timestamp": 200_000, "message": "hello", "ingestionTime": 200_500}
    listed = {"logStreams": [{"logStreamName": "demo/algo-1-17"}]}
    asked = {"logGroupName": GROUP, "logStreamNamePrefix": "demo/"}
    with Stubber(logs) as stub:
        stub.add_response("describe_log_streams", listed, asked)
        stub.add_response("get_log_events", {"events": [event], "nextForwardToken": "f/1"}, request)
        stub.add_response("get_log_events", {"events": [], "nextForwardToken": "f/1"}, {**request, "nextToken": "f/1"})
        stub.add_response("describe_log_streams", listed, asked)
        later = {**request, "startTime": 190_000}
        stub.add_response("get_log_events", {"events": [event], "nextForwardToken": "f/1"}, later)
        stub.add_response("get_log_events", {"events": [], "nextForwardToken": "f/1"}, {**later, "nextToken": "f/1"})
        streams = LogStreams("demo", logs, AWS, HORIZON_S)
        assert texts(streams.read()) == ["hello"]
        assert streams.read() == [] and streams.calls == 6
        stub.assert_no_pending_responses()


def test_a_peek_shows_the_first_and_the_last_lines_without_reading_all() -> None:
    logs = client()
    request = {"logGroupName": GROUP, "logStreamName": "demo/algo-1-17"}

    def page(at_ms: int, text: str, token: str) -> dict[str, Any]:
        event = {"timestamp": at_ms, "message": text, "ingestionTime": at_ms}
        tokens = {"nextForwardToken": f"f/{token}", "nextBackwardToken": f"b/{token}"}
        return {"events": [event] if text else [], **tokens}

    with Stubber(logs) as stub:
        stub.add_response("describe_log_streams", {"logStreams": [{"logStreamName": "demo/algo-1-17"}]})
        head, tail = {**request, "startFromHead": True}, {**request, "startFromHead": False}
        stub.add_response("get_log_events", page(0, "", "1"), head)
        stub.add_response("get_log_events", page(1000, "first", "2"), {**head, "nextToken": "f/1"})
        stub.add_response("get_log_events", page(9000, "last", "9"), tail)
        stub.add_response("get_log_events", page(8000, "before it", "8"), {**tail, "nextToken": "b/9"})
        found = LogStreams("demo", logs, AWS).peek()
        stub.assert_no_pending_responses()
    assert texts(found) == ["first", "before it", "last"]


def test_a_group_or_stream_that_is_not_there_yet_has_no_lines() -> None:
    logs = client()
    with Stubber(logs) as stub:
        stub.add_client_error("describe_log_streams", "ResourceNotFoundException")
        stub.add_response("describe_log_streams", {"logStreams": [{"logStreamName": "demo/algo-1-1"}]})
        stub.add_client_error("get_log_events", "ResourceNotFoundException")
        streams = LogStreams("demo", logs, AWS)
        assert streams.read() == [] and streams.read() == []
        stub.assert_no_pending_responses()


def test_what_cloudwatch_does_not_do_is_told() -> None:
    logs = client()
    with Stubber(logs) as stub:
        stub.add_client_error("describe_log_streams", "AccessDeniedException", "not yours")
        with pytest.raises(UsageError, match="DescribeLogStreams: the credentials lack the right"):
            LogStreams("demo", logs, AWS).read()
        stub.add_client_error("describe_log_streams", "InvalidParameterException", "no such prefix")
        with pytest.raises(AwsRefused, match="no such prefix"):
            LogStreams("demo", logs, AWS).read()


@pytest.mark.parametrize(
    ("stream", "host"),
    [("demo/algo-12-1700000000", "algo-12"), ("demo/algo-1", "algo-1"), ("demo/other/1", "other_1"), ("odd", "odd")],
)
def test_a_stream_is_of_the_host_that_its_name_says(stream: str, host: str) -> None:
    assert host_of(stream) == host
