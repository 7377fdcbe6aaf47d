"""messages/grammar.py, link.py, rank.py, server.py: every message comes back as it was, and what is wrong is named."""

from __future__ import annotations

import base64
import contextlib
import json
import math
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from tfhet.messages import MessageError, MetricLine, UnknownKind, link, rank, server
from tfhet.messages.channel import MAX_BYTES
from tfhet.messages.grammar import Grammar, decode, encode

NUMBERS = ("NaN", "Infinity", "-Infinity")
"""Texts that stand for numbers (tfhet/record/json_file.py)."""
texts = st.text(max_size=20).filter(lambda text: text not in NUMBERS)
amounts = st.floats(0, 1e15)
counts = st.integers(0, 2**53)
codes = st.integers(-255, 255)
objects = st.dictionaries(texts, st.none() | st.booleans() | st.integers(-99, 99) | texts, max_size=3)
MESSAGES: Mapping[Any, st.SearchStrategy[Any]] = {
    link.REPORTS: st.one_of(
        st.builds(link.PlaneReport, objects),
        st.builds(link.Restarted, texts, texts, st.none() | codes, texts),
        st.builds(link.ScriptReport, counts, objects),
        st.builds(link.RankResult, counts, codes, texts),
        st.builds(link.Failed, codes, texts),
        st.builds(link.StopWish, codes, texts),
    ),
    link.ORDERS: st.builds(link.Start, texts.filter(bool), objects, objects)
    | st.just(link.Stop())
    | st.builds(link.HostLost, texts.filter(bool)),
    rank.REPORTS: st.one_of(
        st.builds(rank.Progress, *(st.none() | each for each in (counts, amounts, amounts, amounts))),
        st.builds(rank.Reading, st.booleans()),
        st.builds(rank.Standing, counts, amounts, amounts, counts, counts),
        st.builds(rank.Delivered, counts, texts, st.none() | counts, counts),
        st.builds(MetricLine, counts, counts, amounts, amounts, amounts, st.none() | st.floats(allow_nan=False)),
    ),
    rank.ORDERS: st.builds(rank.ServingHosts, st.lists(texts, max_size=3).map(tuple), st.booleans())
    | st.builds(rank.Key, st.binary(min_size=32, max_size=32).map(bytes.hex)),
    server.REPORTS: st.one_of(
        st.builds(server.Ready, st.integers(1, 65535), objects),
        st.builds(server.Registered, counts),
        st.builds(server.Used, st.dictionaries(texts, amounts)),
        st.just(server.Alive()),
    ),
}
grammars = st.sampled_from(sorted(MESSAGES, key=lambda grammar: sorted(grammar.kinds)))
told = grammars.flatmap(lambda grammar: st.tuples(st.just(grammar), MESSAGES[grammar]))


@given(told)
def test_a_message_comes_back_as_it_was(case: tuple[Grammar, Any]) -> None:
    grammar, message = case
    assert grammar.parse(decode(encode(grammar.to_json(message)))) == message


@given(told)
def test_what_either_end_of_a_channel_writes_is_what_its_grammar_writes(case: tuple[Grammar, Any]) -> None:
    grammar, message = case
    for room in (link, rank):
        if grammar in (room.REPORTS, room.ORDERS):
            assert room.to_json(message) == grammar.to_json(message)


def test_every_kind_of_every_grammar_is_tried_above() -> None:
    seen = {type(st_example) for _, st_example in _examples()}
    assert seen == {kind for grammar in MESSAGES for kind in grammar.kinds.values()}


def _examples() -> list[tuple[Grammar, Any]]:
    found: list[tuple[Grammar, Any]] = []

    @settings(deadline=None, max_examples=400, database=None, derandomize=True)
    @given(told)
    def collect(case: tuple[Grammar, Any]) -> None:
        found.append(case)

    collect()
    return found


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)


@given(told, st.data())
def test_a_message_with_something_else_in_a_field_is_a_message_or_the_field_is_named(
    case: tuple[Grammar, Any], data: st.DataObject
) -> None:
    grammar, message = case
    spoilt = grammar.to_json(message)
    name = data.draw(st.sampled_from(sorted(spoilt)))
    if data.draw(st.booleans()):
        del spoilt[name]
    else:
        spoilt[name] = data.draw(values)
    again = reason = None
    try:
        again = grammar.parse(spoilt)
    except MessageError as error:
        reason = str(error)
    if reason is not None:
        assert name in reason and len(reason) < 300
    else:
        assert type(again) in grammar.kinds.values()
        grammar.parse(json.loads(json.dumps(grammar.to_json(again))))


@given(grammars, values)
def test_any_value_is_a_message_or_a_message_error(grammar: Grammar, value: object) -> None:
    with pytest.raises(MessageError):
        grammar.parse(value)


@given(st.binary(max_size=40) | st.integers(1, 50_000).map(lambda n: b"[" * n))
def test_any_bytes_are_values_or_a_message_error(data: bytes) -> None:
    with contextlib.suppress(MessageError):
        assert isinstance(decode(data), dict)


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"type": "start"}, "start: `job_id` is missing"),
        ({"type": "start", "job_id": 3}, "start: `job_id` is 3, not a text that is not empty"),
        ({"type": "start", "job_id": ""}, "start: `job_id` is '', not a text that is not empty"),
        ({"type": "start", "job_id": "j", "strategy": []}, "start: `strategy` is list, not Mapping[str, Any]"),
        ({"type": 3}, "the type of a message is a text, not 3"),
        ([], "a message is an object, not list"),
    ],
)
def test_what_is_wrong_with_an_order_is_said(values: object, reason: str) -> None:
    with pytest.raises(MessageError) as caught:
        link.parse_order(values)
    assert str(caught.value) == reason


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        (
            {"type": "result", "rank": -1, "code": 0, "cause": ""},
            "result: `rank` is -1, not a whole number from 0 to",
        ),
        (
            {"type": "result", "rank": True, "code": 0, "cause": ""},
            "result: `rank` is True, not a whole number from 0 to",
        ),
        ({"type": "failed", "code": 256, "cause": ""}, "failed: `code` is 256, not an exit code within +-255"),
        ({"type": "plane", "facts": None}, "plane: `facts` is None, not Mapping[str, Any]"),
    ],
)
def test_what_is_wrong_with_a_report_is_said(values: object, reason: str) -> None:
    with pytest.raises(MessageError) as caught:
        link.parse_report(values)
    assert str(caught.value).startswith(reason)


def test_a_later_version_may_say_more() -> None:
    assert link.parse_order({"type": "stop", "something": "new"}) == link.Stop()
    with pytest.raises(UnknownKind, match="known: host_lost, start, stop"):
        link.parse_order({"type": "pause"})


@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0, "7", True, [1]])
def test_a_total_is_an_amount(value: object) -> None:
    with pytest.raises(MessageError, match="step_s"):
        rank.parse_report({"type": "progress", "step_s": value})


@pytest.mark.parametrize("loss", [None, 2.5, math.inf, -math.inf, math.nan])
def test_a_metric_line_goes_over_the_channel_as_numbers(loss: float | None) -> None:
    line = MetricLine(500, 2, 86.1, 95143.0, 3.1, loss)
    again = rank.parse_report(decode(encode(rank.to_json(line))))
    assert isinstance(again, MetricLine) and repr(again) == repr(line)


@given(st.lists(st.integers(0, 2**62), max_size=rank.MOST_IDS))
def test_ids_come_back_sorted_and_fit_into_a_message(ids: list[int]) -> None:
    text = rank.packed(np.array(ids, np.int64))
    assert rank.unpacked(text).tolist() == sorted(ids)
    assert len(encode(rank.to_json(rank.Delivered(3, text, None, 0)))) < MAX_BYTES


def test_as_many_ids_without_any_order_as_a_message_takes_fit_into_it() -> None:
    text = rank.packed(np.random.default_rng(1).integers(0, 2**62, rank.MOST_IDS))
    assert len(encode(link.to_json(link.ScriptReport(9, rank.to_json(rank.Delivered(9, text, 9, 9)))))) < MAX_BYTES


def of_numbers(*steps: int, kind: str = "<i8") -> str:
    return base64.b64encode(zlib.compress(np.array(steps, kind).tobytes())).decode()


@pytest.mark.parametrize("text", ["?", "AAAA", of_numbers(-1), of_numbers(5, -1), of_numbers(1, kind="<i4")])
def test_a_text_without_ids_is_refused(text: str) -> None:
    with pytest.raises(MessageError):
        rank.unpacked(text)
