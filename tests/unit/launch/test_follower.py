from __future__ import annotations

import pytest

from tfhet.launch.follower import checked_order
from tfhet.messages import link
from tfhet.schema import MessageError, UnknownKind

SERVICE = {"dispatcher": "t1:6000", "workers": 1, "data_hosts": ["d1"], "native": ["tone"]}
START = {"type": "start", "job_id": "job-1", "plane": SERVICE, "strategy": {}}
RING = {"address": "algo-1", "port": 4000, "interface": "eth0"}


@pytest.mark.parametrize(
    ("message", "field"),
    [
        ({**START, "plane": None}, "`plane` is None"),
        ({**START, "plane": {**SERVICE, "native": "tone"}}, "tf_service: `native` is 'tone'"),
        ({**START, "strategy": {"port": 1}}, "horovod: .*`address`"),
        ({**START, "strategy": {**RING, "port": -1}}, "horovod: `port` is -1"),
    ],
)
def test_a_wrong_order_to_start_is_named(assignment_of, message, field):
    with pytest.raises(MessageError, match=f"^.?start.*{field}"):
        checked_order(message, assignment_of("t1", 1, ranks=2))


def test_later_version_has_unknown_orders(assignment_of):
    here = assignment_of("t1", 1, ranks=2)
    start = {**START, "plane": {**SERVICE, "native": None}, "strategy": RING}
    assert checked_order({**start, "something": "new"}, here) == link.Start("job-1", start["plane"], RING)
    assert checked_order({"type": "stop", "something": "new"}, here) == link.Stop()
    with pytest.raises(UnknownKind):
        checked_order({"type": "pause"}, here)
