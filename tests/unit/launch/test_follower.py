from __future__ import annotations

import pytest

from tfhet.launch.follower import checked_order
from tfhet.messages import MessageError, UnknownKind, link

SERVICE = {"dispatcher": "t1:6000", "workers": 1, "data_hosts": ["d1"], "native": ["tone"]}
START = {"type": "start", "job_id": "job-1", "plane": SERVICE, "strategy": {}}
RING = {"address": "algo-1", "port": 4000, "interface": "eth0"}


@pytest.mark.parametrize(
    "message",
    [
        START,
        {**START, "plane": {**SERVICE, "native": None}},
        {**START, "strategy": RING},
        {**START, "something": "of a later version"},
    ],
)
def test_order_to_start_is_parsed(assignment_of, message):
    order = checked_order(message, assignment_of("t1", 1, ranks=2))
    assert order == link.Start("job-1", message["plane"], message["strategy"])


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ({**START, "plane": None}, "start: `plane` is None, not Mapping[str, Any]"),
        (
            {**START, "plane": {**SERVICE, "native": "tone"}},
            "start: tf.data service: order: `native` is 'tone', not tuple[str, ...] | None",
        ),
        ({**START, "strategy": {"port": 1}}, "start: the order of a rendezvous: `address` is missing"),
        ({**START, "strategy": {**RING, "port": -1}}, "start: the order of a rendezvous: `port` is -1, not a TCP port"),
    ],
)
def test_what_is_wrong_with_the_order_to_start_is_said(assignment_of, message, reason):
    with pytest.raises(MessageError) as caught:
        checked_order(message, assignment_of("t1", 1, ranks=2))
    assert str(caught.value) == reason


def test_later_version_has_unknown_orders(assignment_of):
    assert checked_order({"type": "stop", "something": "new"}, assignment_of("t1", 1, ranks=2)) == link.Stop()
    with pytest.raises(UnknownKind):
        checked_order({"type": "pause"}, assignment_of("t1", 1, ranks=2))
