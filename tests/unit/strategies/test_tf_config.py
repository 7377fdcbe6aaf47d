"""TF_CONFIG of a rank, and the rank of a TF_CONFIG."""

from __future__ import annotations

import json
import socket

import pytest

from tfhet import strategies
from tfhet.cluster import Rank, check_free, keep_free
from tfhet.errors import ClusterError, UsageError
from tfhet.strategies import Claim, JobContext
from tfhet.strategies.tensorflow.tf_config import Tasks

WORKERS = {"worker": ["a:1", "a:2", "b:1", "b:2"]}
WITH_PS = {"chief": ["a:1"], "worker": ["b:1", "b:2"], "ps": ["p:1"]}


def config(cluster: object, kind: str, index: int) -> dict[str, str]:
    return {"TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": kind, "index": index}})}


def test_rank_has_its_task_and_its_gpu():
    env = Tasks(WORKERS).environment("", Rank(3, 4, 1, 2, "tfhet"), {"MINE": "1"})
    assert json.loads(env["TF_CONFIG"]) == {"cluster": WORKERS, "task": {"type": "worker", "index": 3}}
    assert (env["MINE"], env["CUDA_VISIBLE_DEVICES"], env["TF_GRPC_REUSE_PORT"]) == ("1", "1", "true")


@pytest.mark.parametrize(
    ("given", "local_size", "seen"), [("4,6", 2, "6"), ("4", 2, "4"), ("", 2, "1"), ("4,6", 1, "4,6")]
)
def test_chosen_gpus_are_shared_by_ranks(given, local_size, seen):
    rank = Rank(3, 4, local_size - 1, local_size, "tfhet")
    env = Tasks(WORKERS).environment("", rank, {"CUDA_VISIBLE_DEVICES": given} if given else {})
    assert env["CUDA_VISIBLE_DEVICES"] == seen


def test_chief_is_rank_0():
    found = [
        json.loads(Tasks(WITH_PS).environment("", Rank(r, 3, 0, 1, ""), {})["TF_CONFIG"])["task"] for r in range(3)
    ]
    assert [(task["type"], task["index"]) for task in found] == [("chief", 0), ("worker", 0), ("worker", 1)]


@pytest.mark.parametrize(
    ("env", "rank", "strategy"),
    [
        (config(WORKERS, "worker", 3), Rank(3, 4, 1, 2, "tf_config"), "multi_worker"),
        (config(WITH_PS, "worker", 1), Rank(2, 3, 1, 2, "tf_config_ps"), "parameter_server"),
        (config(WITH_PS, "ps", 0), None, ""),
        (config({"worker": ["a:1"]}, "worker", 0), None, ""),
        ({"TF_CONFIG": ""}, None, ""),
    ],
)
def test_tf_config_has_rank_and_strategy(env, rank, strategy):
    assert strategies.rank_of(env) == rank
    if rank is not None:
        assert strategies.chosen("auto", rank.size, strategies.source_of(rank)).name == strategy
        assert JobContext.from_env(env).strategy == strategy
        assert strategies.chosen("horovod", rank.size, strategies.source_of(rank)).name == "horovod"


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"cluster": 3}', '{"cluster": {"worker": ["a", "b"]}, "task": {"type": "worker"}}']
)
def test_wrong_tf_config_is_refused(text):
    with pytest.raises(ClusterError):
        strategies.rank_of({"TF_CONFIG": text, "X": ""})


def test_kept_port_is_shared_by_reuse_only():
    with keep_free() as held:
        port = held.getsockname()[1]
        with pytest.raises(UsageError):
            check_free(port)
        with socket.socket() as mine:
            mine.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            mine.bind(("127.0.0.1", port))
            mine.listen()
            socket.create_connection(("127.0.0.1", port), 5.0).close()
    check_free(port)


@pytest.mark.parametrize("facts", [{}, {"host": 3}, {"host": "a", "ports": 3}, {"host": "a", "ports": [0]}])
def test_wrong_claim_is_refused(facts):
    good = {"rank-0": {"host": "a", "ranks": 2}}
    assert Claim.of_all(good) == {"rank-0": Claim("a", ())}
    with pytest.raises(ClusterError, match="rank-1"):
        Claim.of_all({**good, "rank-1": facts})
