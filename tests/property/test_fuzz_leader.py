"""Whatever a follower reports, the leader goes on, and decides the job result when all ranks have reported."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from rubbish import filled, fuzz, mutated

from tfhet.cluster import Rank
from tfhet.control.message import Numbered, decode
from tfhet.errors import ClusterError
from tfhet.events import Event, ignore
from tfhet.launch import LaunchSettings
from tfhet.launch.assignment import Assignment
from tfhet.launch.follower import checked_order
from tfhet.launch.job_result import JobResult
from tfhet.launch.leader import Leader
from tfhet.messages import link
from tfhet.messages.rank import packed
from tfhet.planes import Outlets
from tfhet.schema import MessageError

IDS = packed(np.arange(9))
REPORTS: list[dict[str, Any]] = [
    {"type": "planereport", "facts": {"type": "serving", "host": "d1", "native": ["tone", "jpeg"]}},
    {"type": "planereport", "facts": {"type": "registered", "workers": 1}},
    {"type": "restarted", "host": "d1", "process": "worker 0", "code": -9, "cause": "killed"},
    {"type": "rankresult", "rank": 1, "code": 0, "cause": "rank 1: exit code 0"},
    {"type": "rankresult", "rank": 0, "code": 3, "cause": "rank 0: exit code 3\nlast line"},
    {"type": "scriptreport", "rank": 1, "facts": {"type": "standing", "steps": 4, "step_ms": 9.5, "wait_pct": 1.0}},
    {
        "type": "scriptreport",
        "rank": 0,
        "facts": {"type": "delivered", "epoch": 0, "ids": IDS, "expected": 9, "over": 0},
    },
    {"type": "failed", "code": 1, "cause": "no space left\nlast line"},
    {"type": "stopwish", "code": 143, "cause": "SIGTERM"},
]
WORDS = (
    "type",
    "facts",
    "host",
    "native",
    "workers",
    "rank",
    "code",
    "cause",
    "process",
    "d1",
    "t1",
    *(r["type"] for r in REPORTS),
)
bodies = mutated(st.sampled_from(REPORTS), WORDS) | mutated(st.sampled_from(REPORTS), WORDS).map(
    lambda body: {"type": "odd", **body} if isinstance(body, dict) else {"type": "odd", "odd": body}
)
said = st.lists(st.tuples(st.sampled_from(["rank-0", "rank-1", "d1"]), bodies), max_size=8)


@pytest.fixture(scope="module")
def assignment(tmp_path_factory: pytest.TempPathFactory) -> Assignment:
    """The assignment of rank 0 of two, on t1; d1 serves."""
    groups = {"data_group": ["d1"], "dnn_group": ["t1"]}
    env = {
        "SAGEMAKER_BASE_DIR": str(tmp_path_factory.mktemp("t1")),
        "TRAINING_JOB_NAME": "job",
        "SM_RESOURCE_CONFIG": json.dumps(
            {
                "current_host": "t1",
                "instance_groups": [
                    {"instance_group_name": name, "instance_type": "local", "hosts": hosts}
                    for name, hosts in groups.items()
                ],
            }
        ),
        "TFHET_ADDRESSES": '{"d1": "127.0.0.1", "t1": "127.0.0.1"}',
        "HOROVOD_RANK": "0",
        "HOROVOD_SIZE": "2",
        "HOROVOD_LOCAL_RANK": "0",
        "HOROVOD_LOCAL_SIZE": "2",
    }
    settings, _ = LaunchSettings.parse([])
    return Assignment.of(env, settings)


def _sent(body: object) -> dict[str, Any] | None:
    """The body as it comes out of the link; None for what the link does not let through."""
    line = filled(json.dumps({"type": "numbered", "n": 1, "body": body}))
    with contextlib.suppress(MessageError):
        found = decode(line.encode())
        return found.body if isinstance(found, Numbered) else None
    return None


PLANE = {"dispatcher": "t1:6000", "workers": 1, "data_hosts": ["d1"], "native": ["tone"]}
RING = {"address": "t1", "port": 4000, "interface": "lo"}
STARTS: list[dict[str, Any]] = [
    {"type": "start", "job_id": "job-1", "plane": PLANE, "strategy": {}},
    {"type": "start", "job_id": "j", "plane": {**PLANE, "native": None}, "strategy": RING},
]
starts = mutated(st.sampled_from(STARTS), ("type", "job_id", "plane", "strategy", *PLANE, *RING, "start"))


@fuzz(100, starts)
def test_an_order_to_start_is_refused_or_can_be_followed(assignment: Assignment, body: Any) -> None:
    message = _sent({**body, "type": "start"}) if isinstance(body, dict) else None
    if message is None:
        return
    refusal = order = None
    try:
        order = checked_order(message, assignment)
    except MessageError as error:
        refusal = str(error)
    if refusal is not None:
        assert "start" in refusal and len(refusal) < 600
        return
    assert isinstance(order, link.Start) and order.job_id
    try:
        variables = assignment.strategy.environment(order.strategy, "t1", Rank(1, 2, 1, 2, "tfhet"), {})
    except ClusterError as error:  # a host may lack what an order names, which only the host knows
        refusal = str(error)
    if refusal is not None:
        assert refusal.startswith("t1 has no network interface ")
        return
    assert all(value and "\0" not in value and "\n" not in value for value in variables.values())


def test_a_leader_comes_to_a_job_result_whatever_the_members_report(assignment: Assignment) -> None:
    async def scenario(reports: list[tuple[str, Any]], begun: bool) -> None:
        events: list[Event] = []
        outlets = Outlets(lambda line: None, lambda report: None, ignore, lambda order: None, 20.0, bytes(32))
        side = assignment.plane.launcher_side(assignment.plane_settings, assignment.place, outlets)
        leader = Leader(assignment, side, events.append)
        leader._begun = begun
        for member, body in reports:
            message = _sent(body)
            if message is not None:
                leader._heard(member, message)
        for rank in range(assignment.place.size):
            leader.report(link.RankResult(rank, 1, f"rank {rank} failed"))
        result = await asyncio.wait_for(leader.ended(), 30)
        assert isinstance(result, JobResult)
        assert abs(result.code) <= 255
        if result.code == 0:
            good = {m["rank"] for m in map(_sent, (body for _, body in reports)) if m and m.get("type") == "rankresult"}
            assert good >= {0, 1}
        assert isinstance(result.headline, str)
        decided = [event for event in events if event.name == "job.decided"]
        assert len(decided) == 1

    @fuzz(60, said, st.booleans())
    def hear(reports: list[tuple[str, Any]], begun: bool) -> None:
        asyncio.run(scenario(reports, begun))

    hear()
