"""Whatever goes over the link, as bytes or as values, is a message or a MessageError."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import strategies as st
from rubbish import anything, fuzz, json_bytes, mutated
from siege import EXAMPLES, WORDS, odd, right_types

from tfhet.control.message import End, Left, Numbered, decode, encode
from tfhet.control.outbox import Outbox
from tfhet.schema import MessageError, to_json


def _numbers(value: Any) -> Iterator[int | float]:
    if isinstance(value, (int, float)):
        yield value
    elif isinstance(value, (dict, list)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _numbers(item)


@fuzz(400, json_bytes(odd | right_types))
def test_any_line_is_a_message_or_a_message_error(line: bytes) -> None:
    with contextlib.suppress(MessageError):
        message = decode(line)
        assert not isinstance(message, End | Left) or abs(message.code) <= 255
        with contextlib.suppress(RecursionError):
            assert all(abs(number) < math.inf for number in _numbers(to_json(message)))
        assert decode(encode(message)) == message


_objects = st.sampled_from([b"bytes", {1, 2}, object(), {(1, 2): 3}, 1j, ...])
values = mutated(st.sampled_from(EXAMPLES), WORDS) | anything | _objects


@fuzz(200, values, st.none() | _objects)
def test_any_body_is_sent_or_a_message_error(value: Any, inner: Any) -> None:
    body = {"odd": inner, "value": value}
    if inner == {1, 2}:
        body["itself"] = body
    with contextlib.suppress(MessageError):
        json.loads(encode(Numbered(1, body)))


acts_of_two = st.lists(
    st.tuples(st.sampled_from(["say", "say", "hear", "confirm", "break", "lie"]), st.integers(-3, 9)), max_size=40
)


@fuzz(100, acts_of_two)
def test_what_is_said_arrives_once_and_in_order_whatever_breaks_and_whoever_lies(acts: list[tuple[str, int]]) -> None:
    here, there = Outbox(), Outbox()
    said: list[int] = []
    heard: list[int] = []
    wire: list[Numbered] = []
    for act, number in acts:
        if act == "say":
            said.append(len(said))
            wire.append(here.pack({"type": "count", "i": said[-1]}))
        elif act == "hear" and wire:
            body = there.take(wire.pop(0))
            heard.extend([] if body is None else [body["i"]])
        elif act == "confirm":
            here.confirm(there.seen)
        elif act == "break":
            here.confirm(there.seen)
            wire = list(here.unconfirmed())
        else:
            kept, seen = here.unconfirmed(), there.seen
            with contextlib.suppress(MessageError):
                here.confirm(min(number, 0))
            with pytest.raises(MessageError):
                here.confirm(len(said) + 1 + abs(number))
            with pytest.raises(MessageError):
                there.take(Numbered(seen + 2 + abs(number), {"type": "lie"}))
            assert there.take(Numbered(seen - abs(number), {"type": "lie"})) is None
            assert (here.unconfirmed(), there.seen) == (kept, seen)
    for message in here.unconfirmed():
        body = there.take(message)
        heard.extend([] if body is None else [body["i"]])
    assert heard == said
