from __future__ import annotations

import json

import pytest

from tfhet.control.message import (
    MAX_MESSAGE_BYTES,
    Alive,
    AnyMessage,
    End,
    Join,
    Joined,
    Left,
    Numbered,
    Refused,
    decode,
    encode,
    valid_code,
)
from tfhet.schema import MessageError, to_json

EXAMPLES: list[AnyMessage] = [
    Join("a", "i", {"cores": 4}, 0),
    Refused("r"),
    Joined(2.5, 1),
    Alive(1),
    Numbered(1, {"type": "ready", "text": "line\nbreak \u2603"}),
    End(3, "because"),
    Left(-9),
]
names = pytest.mark.parametrize("message", EXAMPLES, ids=lambda message: type(message).__name__)


def line_of(values: object) -> bytes:
    return json.dumps(values).encode() + b"\n"


@names
def test_every_type_is_decoded_as_it_was(message: AnyMessage):
    assert decode(encode(message)) == message


@names
def test_a_missing_or_wrong_field_is_named(message: AnyMessage):
    values = to_json(message)
    for field in set(values) - {"type", "wall_s"}:
        rest = {name: value for name, value in values.items() if name != field}
        for wrong in (rest, values | {field: True}, values | {field: []}, values | {field: None}):
            with pytest.raises(MessageError, match=f"`{field}`"):
                decode(line_of(wrong))


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"[]\n",
        b'{"type": "nothing"}\n',
        b'{"type": ["alive"]}\n',
        b'{"type": "alive", "seen": 1.5}\n',
        b'{"type": "alive", "seen": 99999999999999999999}\n',
        b'{"type": "joined", "lease_s": 1e999, "seen": 0}\n',
        b'{"type": "joined", "lease_s": 1e-300, "seen": 0}\n',
        b'{"type": "joined", "lease_s": 1e9, "seen": 0}\n',
        b'{"type": "numbered", "n": 1, "body": {"v": 1e999}}\n',
        b"[" * 60000 + b"\n",
        *(line_of({"type": "left", "code": code}) for code in (256, -256, 2**40)),
        *(line_of(to_json(Join(name, "i", {}, 0))) for name in ("", "a\nb", "i" * 301, "\ud800")),
    ],
    ids=range(18),
)
def test_other_lines_are_message_errors(line: bytes):
    with pytest.raises(MessageError):
        decode(line)


@pytest.mark.parametrize("body", [{"value": object()}, {"text": "x" * MAX_MESSAGE_BYTES}], ids=["object", "long"])
def test_values_that_cannot_be_sent(body: dict[str, object]):
    with pytest.raises(MessageError):
        encode(Numbered(1, body))


def test_the_longest_line_is_accepted():
    message = Refused("x" * (MAX_MESSAGE_BYTES - len(encode(Refused("")))))
    assert len(encode(message)) == MAX_MESSAGE_BYTES
    assert decode(encode(message)) == message


@pytest.mark.parametrize(("code", "sent"), [(256, 1), (-256, 1), (2**40, 1), (0, 0), (143, 143), (255, 255), (-9, -9)])
def test_codes_that_no_process_has_become_1(code: int, sent: int):
    assert valid_code(code) == sent
