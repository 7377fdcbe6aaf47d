"""The messages between readers and servers of a feed, and those that are refused."""

import json

import pytest

from tfhet.planes.feed.frame import FrameError
from tfhet.planes.feed.message import Answer, Want, answered, wanted
from tfhet.planes.feed.production import Wish
from tfhet.planes.feed.source import FeedSource, Shard

SHARD = Shard(1, 4, 7, 5)
WISHES = [Wish(SHARD, number, 2, 2, True, 8) for number in (2, 4, 6)]


def made(shard):
    return []


def sent(header):
    """The header after its way."""
    return json.loads(json.dumps(header))


@pytest.mark.parametrize("is_new", [False, True])
def test_wishes_come_as_they_were_sent_in_one_message(is_new):
    source = FeedSource.of(made, {})
    want = Want.parse(sent(wanted(WISHES, source, is_new)))
    assert want.source == source.id and want.wishes == tuple(WISHES)
    assert want.named == (sent(source.to_json()) if is_new else None)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"type": "batch"}, "no wish"),
        ({"source": 1}, "no wish"),
        ({"named": []}, "no wish"),
        ({"at": [0, 1, 0, 0, 0, 2]}, "its numbers are index, count"),
        ({"at": [0, 1, 0, 0, -1, 1, 2]}, "its numbers are index, count"),
        ({"at": [0, 1, 0, 0, True, 1, 2]}, "its numbers are index, count"),
        ({"at": "0123456"}, "its numbers are index, count"),
        ({"at": [1, 1, 0, 0, 0, 1, 2]}, "shard 1 of 1"),
        ({"at": [0, 1, 0, 0, 0, 0, 2]}, "for 0 ranks"),
        ({"numbers": None}, "for the batches None"),
        ({"numbers": [1, "2"]}, "for the batches"),
    ],
)
def test_what_is_no_wish_is_refused(changed, says):
    with pytest.raises(FrameError, match=says):
        Want.parse({**sent(wanted(WISHES, FeedSource.of(made, {}), False)), **changed})


def test_an_answer_says_to_which_wish():
    answer = Answer.parse(sent(answered("over", "id", WISHES[1], batches=3)))
    assert (answer.kind, answer.source, answer.epoch, answer.ask) == ("over", "id", 7, (1, 4, True))
    assert answer.number("batches") == 3 and answer.number("again") == 0


@pytest.mark.parametrize("at", [None, [], [1, 2, 3], [1, 2, 3, 4], ["1", 2, 3, True], [1, 2.0, 3, True], "0123"])
def test_what_is_no_answer_is_refused(at):
    with pytest.raises(FrameError, match="an answer that cannot be read"):
        Answer.parse({"type": "batch", "at": at})


def test_a_number_that_is_none_is_refused():
    with pytest.raises(FrameError, match="an answer whose batches is 'x'"):
        Answer.parse(sent(answered("over", "id", WISHES[0], batches="x"))).number("batches")
