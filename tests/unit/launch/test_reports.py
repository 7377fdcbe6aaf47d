from __future__ import annotations

import pytest

from tfhet.launch.said import objection, objection_to_start

START = {"type": "start", "job_id": "job-1", "native": ["tone"], "ring": None}
RING = {"address": "algo-1", "port": 4000, "interface": "eth0"}


@pytest.mark.parametrize(
    "message",
    [
        START,
        {**START, "native": None},
        {**START, "ring": RING},
        {"type": "start", "job_id": "job-1"},
        {**START, "something": "of a later version"},
    ],
)
def test_the_word_to_start_is_understood(message):
    assert objection_to_start(message) is None


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ({"type": "start"}, "start: job_id is missing"),
        ({**START, "job_id": 3}, "start: job_id is 3"),
        ({**START, "job_id": ""}, "start: job_id is empty"),
        ({**START, "native": "tone"}, "start: native is 'tone'"),
        ({**START, "native": [1]}, "start: native holds something else than names"),
        ({**START, "ring": []}, "start: ring is list"),
        ({**START, "ring": {}}, "start: no place where ranks could meet: dict"),
        ({**START, "ring": {**RING, "port": -1}}, "start: no port where ranks could meet: dict"),
    ],
)
def test_what_is_wrong_with_the_word_to_start_is_said(message, reason):
    assert objection_to_start(message) == reason


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ({"type": "result", "rank": 2, "code": 0, "cause": ""}, "result: there is no rank 2"),
        ({"type": "failed", "code": 256, "cause": ""}, "failed: no process exits with code 256"),
        ({"type": "serving", "host": "d1", "native": None}, "serving: native is None"),
        ({"type": "workers", "count": True}, "workers: count is True"),
        ({"type": "serving", "host": "d1"}, None),
        ({"type": "odd"}, None),
    ],
)
def test_what_is_wrong_with_a_report_is_said(message, reason):
    assert objection(message, 2) == reason
