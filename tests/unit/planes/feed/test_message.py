"""Messages between readers and servers of a feed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tfhet.planes.feed.delivered import BatchRequest
from tfhet.planes.feed.message import Alive, Batch, BatchRequests, Failed, FromServer, NoBatch
from tfhet.planes.feed.source import FeedSource, Shard
from tfhet.schema import MessageError, decode, encode, to_json

REQUESTS = tuple(BatchRequest(Shard(1, 4, 7, 5), number, 2, 2, True, 8) for number in (2, 4, 6))
SOURCE = FeedSource("m", "/f.py", "make", {"root": "/x", "sizes": [1, 2.0, None]})
MESSAGE = BatchRequests("id", REQUESTS, SOURCE)


@pytest.mark.parametrize(
    ("message", "kinds"),
    [
        (MESSAGE, BatchRequests),
        (BatchRequests("id", REQUESTS), BatchRequests),
        (Batch(source="id", request=REQUESTS[0], tree=None, examples=3, again=1, size=64), FromServer),
        (NoBatch(source="id", request=REQUESTS[0], batches=3), FromServer),
        (Failed(source="id", request=REQUESTS[0], text="Traceback"), FromServer),
        (Alive("train.py:make", 3.5, ("load", "main")), FromServer),
        (Alive(), FromServer),
    ],
)
def test_messages_arrive_unchanged(message: Any, kinds: Any) -> None:
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
def test_wrong_requests_are_refused(path: str, value: object) -> None:
    spoilt = json.loads(encode(MESSAGE, 10_000))
    *parents, last = path.split(".")
    at = spoilt
    for name in parents:
        at = at[int(name) if name.isdigit() else name]
    at[last] = value
    with pytest.raises(MessageError):
        decode(json.dumps(spoilt), BatchRequests)


@pytest.mark.parametrize("change", [{"wish": None}, {"wish": {}}, {"batches": "x"}, {"source": 3}, {"size": -1}])
def test_wrong_answers_are_refused(change: dict[str, object]) -> None:
    values = to_json(NoBatch(source="id", request=REQUESTS[0], batches=3)) | change
    with pytest.raises(MessageError):
        decode(json.dumps(values), FromServer)
