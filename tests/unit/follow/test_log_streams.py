"""follow/log_streams.py: every line of a log once, in order, however late."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

boto3 = pytest.importorskip("boto3")

from botocore.stub import Stubber  # noqa: E402
from fake_clock import FakeClock  # noqa: E402
from hypothesis import given, settings, strategies as st  # noqa: E402

from tfhet.aws import AwsRefused, Patient  # noqa: E402
from tfhet.errors import UsageError  # noqa: E402
from tfhet.follow.log_streams import GROUP, LogLine, LogStreams, LogWindow, host_of  # noqa: E402

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


def test_interruption_loses_no_line(monkeypatch: pytest.MonkeyPatch) -> None:
    cloud = CloudWatch()
    for host in (1, 2):
        cloud.ingest(f"demo/algo-{host}-1", 1000, f"of {host}")
    streams, whole = LogStreams("demo", cloud, AWS), cloud.get_log_events

    def interrupted(logStreamName: str, **rest: Any) -> dict[str, Any]:
        if "algo-2" in logStreamName:
            raise KeyboardInterrupt
        return whole(logStreamName=logStreamName, **rest)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(cloud, "get_log_events", interrupted)
        streams.read()
    assert sorted(line.text for line in streams.read()) == ["of 1", "of 2"]


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["demo/algo-1-1", "demo/algo-2-1", "demo/algo-2-9", "demo-2/algo-1-1"]),
        st.integers(0, 8),  # seconds before the newest of its stream
        st.sampled_from(["a", "b"]),
        st.booleans(),  # whether a look follows
    ),
    max_size=30,
)


@settings(max_examples=60)
@given(EVENTS, st.integers(1, 4), st.integers(1, 2))
def test_lines_come_once_within_the_horizon(
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
    own = {name: lines for name, lines in cloud.streams.items() if name.startswith("demo/")}
    wanted = Counter((host_of(name), each["timestamp"], each["message"]) for name in own for each in own[name])
    assert Counter((line.host, line.at_ms, line.text) for line in found) == wanted


def client() -> Any:
    return boto3.client("logs", region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="x")


def test_requests_are_valid() -> None:
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


def test_peek_reads_both_ends_of_a_stream() -> None:
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


def test_missing_stream_has_no_lines() -> None:
    logs = client()
    with Stubber(logs) as stub:
        stub.add_client_error("describe_log_streams", "ResourceNotFoundException")
        stub.add_response("describe_log_streams", {"logStreams": [{"logStreamName": "demo/algo-1-1"}]})
        stub.add_client_error("get_log_events", "ResourceNotFoundException")
        streams = LogStreams("demo", logs, AWS)
        assert streams.read() == [] and streams.read() == []
        stub.assert_no_pending_responses()


@pytest.mark.parametrize(
    ("code", "kind", "named"),
    [
        ("AccessDeniedException", UsageError, "DescribeLogStreams"),
        ("InvalidParameterException", AwsRefused, "not yours"),
    ],
)
def test_refusals_of_cloudwatch_are_errors(code, kind, named) -> None:
    logs = client()
    with Stubber(logs) as stub, pytest.raises(kind, match=named):
        stub.add_client_error("describe_log_streams", code, "not yours")
        LogStreams("demo", logs, AWS).read()


@pytest.mark.parametrize(
    ("stream", "host"),
    [("demo/algo-12-1700000000", "algo-12"), ("demo/algo-1", "algo-1"), ("demo/other/1", "other_1"), ("odd", "odd")],
)
def test_host_of_a_stream(stream: str, host: str) -> None:
    assert host_of(stream) == host


def line(at_s: float, text: str = "", host: str = "algo-1") -> LogLine:
    return LogLine(host, round(1000 * at_s), text or f"at {at_s:g}")


def test_window_orders_late_lines() -> None:
    clock = FakeClock()
    window = LogWindow(clock, 5.0)
    window.add([line(2), line(4)])
    window.add([line(1, host="algo-2"), line(3, host="algo-2")])
    assert window.due() == []
    clock.sleep(4.9)
    window.add([line(0), line(4, "same time")])
    clock.sleep(0.1)
    assert [each.text for each in window.due()] == ["at 0", "at 1", "at 2", "at 3", "at 4", "same time"]
    window.add([line(3, "later than the window")])
    assert [each.text for each in window.due()] == ["later than the window"]
    assert window.due() == window.rest() == []


def test_no_line_waits_longer_than_the_window() -> None:
    clock = FakeClock()
    window = LogWindow(clock, 5.0)
    given_s: dict[int, float] = {}
    for second in range(30):
        window.add([line(second)])
        given_s.update({each.at_ms // 1000: clock.monotonic() for each in window.due()})
        clock.sleep(1)
    assert given_s == {second: second + 5.0 for second in range(25)}


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 6)), max_size=40))
def test_window_returns_each_line_once(arrivals: list[tuple[int, int]]) -> None:
    """Each arrival: the line's time, and the pause after it."""
    clock, given_lines, window_s = FakeClock(), [], 5
    window = LogWindow(clock, float(window_s))
    added: list[tuple[float, int]] = []
    for number, (at_s, pause_s) in enumerate(arrivals):
        window.add([line(at_s, str(number))])
        added.append((clock.monotonic(), at_s))
        given_lines += window.due()
        clock.sleep(pause_s)
    given_lines += window.rest()
    assert sorted(int(each.text) for each in given_lines) == list(range(len(arrivals)))
    places = {int(each.text): place for place, each in enumerate(given_lines)}
    for one, (added_s, at_s) in enumerate(added):
        younger = [other for other, (_, its_s) in enumerate(added) if its_s > at_s]
        if all(added_s - added[other][0] < window_s for other in younger):
            assert all(places[one] < places[other] for other in younger)
