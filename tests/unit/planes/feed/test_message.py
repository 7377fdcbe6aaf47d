"""The messages between readers and servers of a feed, and those that are refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tfhet.planes.feed.message import Alive, Batch, Failed, FromServer, Over, Want
from tfhet.planes.feed.production import Wish
from tfhet.planes.feed.source import FeedSource, Shard
from tfhet.schema import MessageError, decode, encode, to_json

WISHES = tuple(Wish(Shard(1, 4, 7, 5), number, 2, 2, True, 8) for number in (2, 4, 6))
SOURCE = FeedSource("m", "/f.py", "make", {"root": "/x", "sizes": [1, 2.0, None]})
WANT = Want("id", WISHES, SOURCE)


@pytest.mark.parametrize(
    ("message", "kinds"),
    [
        (WANT, Want),
        (Want("id", WISHES), Want),
        (Batch(source="id", wish=WISHES[0], tree=None, examples=3, again=1, size=64), FromServer),
        (Over(source="id", wish=WISHES[0], batches=3), FromServer),
        (Failed(source="id", wish=WISHES[0], text="Traceback"), FromServer),
        (Alive("train.py:make", 3.5, ("load", "main")), FromServer),
        (Alive(), FromServer),
    ],
)
def test_a_message_arrives_unchanged(message: Any, kinds: Any) -> None:
    found = decode(encode(message, 10_000), kinds)
    assert found == message
    assert getattr(found, "named", None) is None or found.named.id == SOURCE.id


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("type", "batch"),
        ("source", 1),
        ("wishes", None),
        ("wishes", [1]),
        ("named", []),
        ("named.module", None),
        ("named.batch_size", "8"),
        ("wishes.0.number", -1),
        ("wishes.0.number", "2"),
        ("wishes.0.number", True),
        ("wishes.0.ranks", 0),
        ("wishes.0.shard.index", 4),
        ("wishes.0.shard.seed", -1),
    ],
)
def test_what_is_not_a_wish_is_refused(path: str, value: object) -> None:
    spoilt = json.loads(encode(WANT, 10_000))
    *parents, last = path.split(".")
    at = spoilt
    for name in parents:
        at = at[int(name) if name.isdigit() else name]
    at[last] = value
    with pytest.raises(MessageError):
        decode(json.dumps(spoilt), Want)


@pytest.mark.parametrize("change", [{"wish": None}, {"wish": {}}, {"batches": "x"}, {"source": 3}, {"size": -1}])
def test_what_is_not_an_answer_is_refused(change: dict[str, object]) -> None:
    values = to_json(Over(source="id", wish=WISHES[0], batches=3)) | change
    with pytest.raises(MessageError):
        decode(json.dumps(values), FromServer)
