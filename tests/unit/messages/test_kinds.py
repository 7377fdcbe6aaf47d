"""schema.py and the messages of link.py, rank.py, server.py: each arrives unchanged, and a wrong field is named."""

from __future__ import annotations

import base64
import contextlib
import json
import math
import typing
import zlib
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from tfhet.messages import MetricLine, link, rank, server
from tfhet.messages.channel import MAX_BYTES
from tfhet.schema import MessageError, UnknownKind, decode, encode, parse, to_json

texts = st.text(max_size=20)
amounts = st.floats(0, 1e15)
counts = st.integers(0, 2**53)
codes = st.integers(-255, 255)
objects = st.dictionaries(texts, st.none() | st.booleans() | st.integers(-99, 99) | texts, max_size=3)
CASES: dict[Any, st.SearchStrategy[Any]] = {
    link.Report: st.one_of(
        st.builds(link.PlaneReport, objects),
        st.builds(link.Restarted, texts, texts, st.none() | codes, texts),
        st.builds(link.ScriptReport, counts, objects),
        st.builds(link.RankResult, counts, codes, texts),
        st.builds(link.Failed, codes, texts),
        st.builds(link.StopWish, codes, texts),
    ),
    link.Order: st.builds(link.Start, texts.filter(bool), objects, objects)
    | st.just(link.Stop())
    | st.builds(link.HostLost, texts.filter(bool))
    | st.builds(rank.Gathered, texts, st.lists(counts, max_size=3).map(tuple))
    | st.just(link.Confirm()),
    rank.Report: st.one_of(
        st.builds(rank.Progress, *(st.none() | each for each in (counts, amounts, amounts, amounts))),
        st.builds(rank.Reading, st.booleans()),
        st.builds(rank.Standing, counts, amounts, amounts, counts, counts),
        st.builds(rank.Delivered, counts, texts, st.none() | counts, counts),
        st.builds(rank.Contribution, texts, counts),
        st.builds(rank.Metrics, texts),
        st.builds(rank.Weights, texts, texts.filter(bool), counts, counts, texts, st.booleans()),
    ),
    rank.Order: st.builds(rank.ServingHosts, st.lists(texts, max_size=3).map(tuple), st.booleans())
    | st.builds(rank.Gathered, texts, st.lists(counts, max_size=3).map(tuple))
    | st.builds(rank.Key, st.binary(min_size=32, max_size=32).map(bytes.hex)),
    server.Report: st.one_of(
        st.builds(server.Ready, st.integers(1, 65535), objects),
        st.builds(server.Registered, counts),
        st.builds(server.Used, st.dictionaries(texts, amounts)),
        st.just(server.Alive()),
    ),
}
kinds = st.sampled_from(list(CASES))
cases = kinds.flatmap(lambda kind: st.tuples(st.just(kind), CASES[kind]))


@given(cases)
def test_a_message_arrives_unchanged(case: tuple[Any, Any]) -> None:
    kind, message = case
    assert decode(encode(message, MAX_BYTES), kind) == message == parse(to_json(message), kind)


def test_every_kind_is_tried_above() -> None:
    seen: set[type] = set()

    @settings(deadline=None, max_examples=400, database=None, derandomize=True)
    @given(cases)
    def collect(case: tuple[Any, Any]) -> None:
        seen.add(type(case[1]))

    collect()
    assert seen == {each for kind in CASES for each in typing.get_args(kind)}


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)


@given(cases, st.data())
def test_another_value_is_a_message_or_named(case: tuple[Any, Any], data: st.DataObject) -> None:
    kind, message = case
    spoilt = to_json(message)
    name = data.draw(st.sampled_from(sorted(spoilt)))
    if data.draw(st.booleans()):
        del spoilt[name]
    else:
        spoilt[name] = data.draw(values)
    again = reason = None
    try:
        again = parse(spoilt, kind)
    except MessageError as error:
        reason = str(error)
    if reason is not None:
        assert name in reason and len(reason) < 500
    else:
        assert isinstance(again, msgspec.Struct) and parse(to_json(again), kind) == again or again != again


@given(kinds, values)
def test_any_value_is_a_message_error(kind: Any, value: object) -> None:
    with pytest.raises(MessageError):
        parse(value, kind)


@given(kinds, st.binary(max_size=40) | st.integers(1, 50_000).map(lambda n: b'{"a":' * n))
def test_any_bytes_are_a_message_error(kind: Any, data: bytes) -> None:
    with pytest.raises(MessageError):
        decode(data, kind)


@pytest.mark.parametrize(
    ("kind", "values", "field"),
    [
        (link.Order, {"type": "start"}, "`job_id`"),
        (link.Order, {"type": "start", "job_id": 3}, "`job_id` is 3"),
        (link.Order, {"type": "start", "job_id": ""}, "`job_id` is ''"),
        (link.Order, {"type": "start", "job_id": "j", "strategy": []}, "`strategy`"),
        (link.Order, {"type": 3}, "`type` is 3"),
        (link.Order, [], "object"),
        (link.Report, {"type": "rankresult", "rank": -1, "code": 0}, "`rank` is -1"),
        (link.Report, {"type": "rankresult", "rank": True, "code": 0}, "`rank` is True"),
        (link.Report, {"type": "failed", "code": 256, "cause": ""}, "`code` is 256"),
        (link.Report, {"type": "planereport", "facts": None}, "`facts`"),
        (rank.Order, {"type": "servinghosts", "hosts": ["a", 3]}, "`hosts[1]` is 3"),
        *(
            (rank.Report, {"type": "progress", "step_s": odd}, "`step_s`")
            for odd in (math.nan, math.inf, -1.0, "7", [1])
        ),
    ],
)
def test_a_wrong_field_is_named(kind: Any, values: object, field: str) -> None:
    with pytest.raises(MessageError) as caught:
        parse(values, kind)
    assert field in str(caught.value) and not isinstance(caught.value, UnknownKind)


def test_a_later_version_may_send_more() -> None:
    assert parse({"type": "stop", "something": "new"}, link.Order) == link.Stop()
    with pytest.raises(UnknownKind):
        parse({"type": "pause"}, link.Order)
    with pytest.raises(UnknownKind):
        decode(b'{"type": "pause"}', link.Order)


@pytest.mark.parametrize("value", [object(), {(1, 2): 3}, "x" * MAX_BYTES])
def test_values_that_cannot_be_sent(value: object) -> None:
    with pytest.raises(MessageError):
        encode(link.PlaneReport({"value": value}), MAX_BYTES)


def test_numpy_numbers_and_odd_texts_are_sent() -> None:
    message = link.PlaneReport({"ms": np.float64(1.5), "name": np.str_("a"), "file": "caf\udce9"})
    assert json.loads(encode(message, MAX_BYTES))["facts"] == {"ms": 1.5, "name": "a", "file": "caf?"}


@pytest.mark.parametrize("loss", [None, 2.5, 1 / 3, math.inf, -math.inf, math.nan])
def test_a_metric_line_arrives_with_all_digits(loss: float | None) -> None:
    line = MetricLine(500, 2, 86.123456789, 95143.5, 3.1, loss)
    again = decode(encode(rank.Metrics(line.exact()), MAX_BYTES), rank.Report)
    assert repr(MetricLine.parse(again.line)) == repr(line)


@given(st.lists(st.integers(0, 2**62), max_size=rank.MOST_IDS))
def test_ids_arrive_sorted_and_fit(ids: list[int]) -> None:
    text = rank.packed(np.array(ids, np.int64))
    assert rank.unpacked(text).tolist() == sorted(ids)
    assert len(encode(rank.Delivered(3, text, None, 0), MAX_BYTES)) < MAX_BYTES


def test_as_many_random_ids_as_allowed_fit() -> None:
    text = rank.packed(np.random.default_rng(1).integers(0, 2**62, rank.MOST_IDS))
    encode(link.ScriptReport(9, to_json(rank.Delivered(9, text, 9, 9))), MAX_BYTES)


def of_numbers(*steps: int, kind: str = "<i8") -> str:
    return base64.b64encode(zlib.compress(np.array(steps, kind).tobytes())).decode()


@pytest.mark.parametrize("text", ["?", "AAAA", of_numbers(-1), of_numbers(5, -1), of_numbers(1, kind="<i4")])
def test_a_text_without_ids_is_refused(text: str) -> None:
    with pytest.raises(MessageError):
        rank.unpacked(text)


def test_a_key_is_not_shown() -> None:
    assert "ab" not in repr(rank.Key("ab" * 32))
    with contextlib.suppress(MessageError):
        assert decode(encode(rank.Key("ab" * 32), MAX_BYTES), rank.Order).key == "ab" * 32
