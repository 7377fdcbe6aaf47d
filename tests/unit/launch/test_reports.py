from __future__ import annotations

import pytest

from tfhet.launch.reports import objection, objection_to_start

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
def test_the_order_to_start_is_understood(assignment_of, message):
    assert objection_to_start(message, assignment_of("t1", 1, ranks=2)) is None


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ({"type": "start"}, "start: job_id is missing"),
        ({**START, "job_id": 3}, "start: job_id is 3"),
        ({**START, "job_id": ""}, "start: job_id is empty"),
        ({**START, "plane": None}, "start: plane is None"),
        (
            {**START, "plane": {**SERVICE, "native": "tone"}},
            "start: tf.data service: native must be names of compiled ops, got 'tone'",
        ),
        ({**START, "strategy": []}, "start: strategy is list"),
        ({**START, "strategy": {"port": 1}}, "start: no address of a rendezvous: dict"),
        ({**START, "strategy": {**RING, "port": -1}}, "start: no port of a rendezvous: dict"),
    ],
)
def test_what_is_wrong_with_the_order_to_start_is_said(assignment_of, message, reason):
    assert objection_to_start(message, assignment_of("t1", 1, ranks=2)) == reason


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ({"type": "result", "rank": 2, "code": 0, "cause": ""}, "result: there is no rank 2"),
        ({"type": "failed", "code": 256, "cause": ""}, "failed: no process exits with code 256"),
        ({"type": "plane", "facts": []}, "plane: facts is list"),
        ({"type": "plane"}, "plane: facts is missing"),
        ({"type": "plane", "facts": {}}, None),
        ({"type": "odd"}, None),
    ],
)
def test_what_is_wrong_with_a_report_is_said(message, reason):
    assert objection(message, 2) == reason
