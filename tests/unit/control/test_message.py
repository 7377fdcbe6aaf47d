from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given, strategies as st

from tfhet.control.message import MAX_LINE_BYTES, ProtocolError, check, decode, encode, valid_code

EXAMPLES = [
    {"type": "hello", "version": 2, "nonce": "n"},
    {"type": "join", "name": "a", "instance": "i", "nonce": "n", "proof": "p"},
    {"type": "welcome", "proof": "p"},
    {"type": "refused", "reason": "r"},
    {"type": "facts", "facts": {"cores": 4}, "seen": 0},
    {"type": "joined", "lease_s": 2.5, "seen": 1},
    {"type": "lease", "seen": 1},
    {"type": "alive", "seen": 1},
    {"type": "message", "n": 1, "body": {"type": "ready", "text": "line\nbreak \u2603 \ud800"}},
    {"type": "end", "code": 3, "cause": "because"},
    {"type": "left", "code": -9},
]


@pytest.mark.parametrize("message", EXAMPLES, ids=lambda m: m["type"])
def test_every_type_goes_over_one_line_and_back(message: dict[str, object]) -> None:
    line = encode(message)
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert decode(line) == message


@pytest.mark.parametrize("message", EXAMPLES, ids=lambda m: m["type"])
def test_a_missing_or_wrong_field_is_named(message: dict[str, object]) -> None:
    for field in set(message) - {"type"}:
        for wrong in ({k: v for k, v in message.items() if k != field}, message | {field: True}, message | {field: []}):
            with pytest.raises(ProtocolError, match=f"field '{field}'"):
                check(wrong)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\n",
        b"rubbish\n",
        b"GET / HTTP/1.1\r\n",
        b"\x16\x03\x01\x02\x00\n",
        b"[]\n",
        b"7\n",
        b"null\n",
        b'{"type": "nothing"}\n',
        b'{"type": ["lease"]}\n',
        b'{"type": "lease", "seen": NaN}\n',
        b'{"type": "lease", "seen": 1.5}\n',
        b'{"type": "lease", "seen": 99999999999999999999}\n',
        b'{"type": "joined", "lease_s": 1e999, "seen": 0}\n',
        b'{"type": "message", "n": 1, "body": {}}\n',
        b'{"type": "message", "n": 1, "body": {"type": 7}}\n',
        b"[" * 60000 + b"\n",
        b"1" * 60000 + b"\n",
        b'"' + b"x" * MAX_LINE_BYTES + b'"\n',
    ],
    ids=range(19),
)
def test_whatever_is_not_a_message_is_a_protocol_error(line: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode(line)


def test_what_cannot_be_sent_is_refused_before_it_is() -> None:
    for body in ({"type": "x", "value": float("nan")}, {"type": "x", "value": object()}, {"no": "type"}):
        with pytest.raises(ProtocolError):
            encode({"type": "message", "n": 1, "body": body})
    with pytest.raises(ProtocolError, match="at most 65536"):
        encode({"type": "message", "n": 1, "body": {"type": "log", "text": "x" * MAX_LINE_BYTES}})


def test_the_longest_line_is_taken() -> None:
    message = {"type": "refused", "reason": ""}
    message["reason"] = "x" * (MAX_LINE_BYTES - len(encode(message)))
    assert len(encode(message)) == MAX_LINE_BYTES
    assert decode(encode(message)) == message


@given(
    st.binary(max_size=200) | st.dictionaries(st.text(max_size=5), st.integers()).map(lambda d: json.dumps(d).encode())
)
def test_any_bytes_are_a_message_or_a_protocol_error(line: bytes) -> None:
    with contextlib.suppress(ProtocolError):
        check(decode(line))


@given(
    st.sampled_from(EXAMPLES),
    st.dictionaries(
        st.sampled_from(["type", "seen", "n", "body", "code", "name", "facts", "lease_s"]),
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.lists(st.none(), max_size=1),
    ),
)
def test_almost_a_message_is_one_or_a_protocol_error(message: dict[str, object], change: dict[str, object]) -> None:
    with contextlib.suppress(ProtocolError):
        check(decode(json.dumps(message | change).encode()))


@pytest.mark.parametrize("code", [256, -256, 2**40])
def test_a_code_that_no_process_can_exit_with_is_no_code(code: int) -> None:
    for message in ({"type": "left", "code": code}, {"type": "end", "code": code, "cause": "because"}):
        with pytest.raises(ProtocolError, match="field 'code' must be int"):
            check(message)
    assert valid_code(code) == 1
    assert [valid_code(sound) for sound in (0, 143, 255, -9)] == [0, 143, 255, -9]


def test_a_number_beyond_every_float_is_not_taken() -> None:
    with pytest.raises(ProtocolError, match="not JSON"):
        decode(b'{"type":"message","n":1,"body":{"type":"x","v":1e999}}')
