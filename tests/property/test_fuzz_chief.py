"""Whatever a member reports, the chief goes on, and comes to a verdict when all ranks have reported."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any

import pytest
from hypothesis import strategies as st
from rubbish import filled, fuzz, mutated
from tfhet.launch.reports import objection_to_start

from tfhet.cluster import Rank
from tfhet.control import ProtocolError, Secret
from tfhet.control.message import decode
from tfhet.events import Event
from tfhet.launch import LaunchSettings
from tfhet.launch.assignment import Place
from tfhet.launch.job_result import JobResult
from tfhet.launch.leader import Leader
from tfhet.strategies.horovod.rendezvous import Meeting

SECRET = Secret.from_text("the secret of these tests")
REPORTS: list[dict[str, Any]] = [
    {"type": "serving", "host": "d1", "native": ["tone", "jpeg"]},
    {"type": "workers", "count": 1},
    {"type": "restarted", "host": "d1", "process": "worker 0", "code": -9, "cause": "killed"},
    {"type": "result", "rank": 1, "code": 0, "cause": "rank 1: exit code 0"},
    {"type": "result", "rank": 0, "code": 3, "cause": "rank 0: exit code 3\nlast line"},
    {"type": "failed", "code": 1, "cause": "no space left\nlast line"},
    {"type": "stop", "code": 143, "cause": "SIGTERM"},
]
WORDS = (
    "type",
    "host",
    "native",
    "count",
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
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    groups = {"data_group": ["d1"], "dnn_group": ["t1"]}
    env = {
        "SAGEMAKER_BASE_DIR": str(tmp_path_factory.mktemp("t1")),
        "TRAINING_JOB_NAME": "job",
        "SM_CURRENT_HOST": "t1",
        "SM_HOSTS": '["d1", "t1"]',
        "SM_CURRENT_INSTANCE_GROUP": "dnn_group",
        "SM_INSTANCE_GROUPS": json.dumps(list(groups)),
        "SM_INSTANCE_GROUPS_DICT": json.dumps(
            {
                name: {"instance_group_name": name, "instance_type": "local", "hosts": hosts}
                for name, hosts in groups.items()
            }
        ),
        "TFHET_ADDRESSES": '{"d1": "127.0.0.1", "t1": "127.0.0.1"}',
        "HOROVOD_RANK": "0",
        "HOROVOD_SIZE": "2",
        "HOROVOD_LOCAL_RANK": "0",
        "HOROVOD_LOCAL_SIZE": "2",
    }
    settings, _ = LaunchSettings.parse([])
    return Place.of(env, settings)


def _sent(body: object) -> dict[str, Any] | None:
    """The body as it comes out of the link; None for what the link does not let through."""
    line = filled(json.dumps({"type": "message", "n": 1, "body": body}))
    with contextlib.suppress(ProtocolError):
        return decode(line.encode())["body"]
    return None


STARTS: list[dict[str, Any]] = [
    {"type": "start", "job_id": "job-1", "native": ["tone"], "ring": None},
    {"type": "start", "job_id": "j", "native": None, "ring": {"address": "t1", "port": 4000, "interface": "eth0"}},
]
starts = mutated(st.sampled_from(STARTS), ("type", "job_id", "native", "ring", "address", "port", "interface", "start"))


@fuzz("chief: the word to start", starts)
def test_a_word_to_start_is_objected_to_or_can_be_followed(body: Any) -> None:
    message = _sent({**body, "type": "start"}) if isinstance(body, dict) else None
    if message is None:
        return
    reason = objection_to_start(message)
    if reason is not None:
        assert reason.startswith("start: ")
        assert len(reason) < 300
        return
    assert message["job_id"]
    assert all(isinstance(name, str) for name in message.get("native") or ())
    if message.get("ring") is not None:
        variables = Meeting.parse(message["ring"]).variables("t1", Rank(1, 4, 1, 2, "tfhet"))
        assert all(value and "\0" not in value and "\n" not in value for value in variables.values())


def test_a_chief_comes_to_a_verdict_whatever_the_members_say(place: Place) -> None:
    async def scenario(reports: list[tuple[str, Any]], begun: bool) -> None:
        events: list[Event] = []
        chief = Leader(place, SECRET, events.append)
        chief._begun = begun
        for member, body in reports:
            message = _sent(body)
            if message is not None:
                chief._heard(member, message)
        for rank in range(place.size):
            chief._heard(f"rank-{rank}", {"type": "result", "rank": rank, "code": 1, "cause": f"rank {rank} failed"})
        verdict = await asyncio.wait_for(chief.ended(), 30)
        assert isinstance(verdict, JobResult)
        assert abs(verdict.code) <= 255
        if verdict.code == 0:
            good = {m["rank"] for m in map(_sent, (body for _, body in reports)) if m and m["type"] == "result"}
            assert good >= {0, 1}
        assert isinstance(verdict.headline, str)
        decided = [event for event in events if event.name == "job.decided"]
        assert len(decided) == 1

    @fuzz("chief: reports", said, st.booleans(), each=lambda reports, begun: len(reports))
    def hear(reports: list[tuple[str, Any]], begun: bool) -> None:
        asyncio.run(scenario(reports, begun))

    hear()
