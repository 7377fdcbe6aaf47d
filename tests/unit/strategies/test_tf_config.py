"""TF_CONFIG: what a rank is given, and the rank that it says."""

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


def test_a_rank_finds_its_task_and_its_gpu_among_several_of_its_host():
    env = Tasks(WORKERS).environment("", Rank(3, 4, 1, 2, "tfhet"), {"MINE": "1"})
    assert json.loads(env["TF_CONFIG"]) == {"cluster": WORKERS, "task": {"type": "worker", "index": 3}}
    assert (env["MINE"], env["CUDA_VISIBLE_DEVICES"], env["TF_GRPC_REUSE_PORT"]) == ("1", "1", "true")


@pytest.mark.parametrize(
    ("given", "local_size", "seen"), [("4,6", 2, "6"), ("4", 2, "4"), ("", 2, "1"), ("4,6", 1, "4,6")]
)
def test_devices_that_the_user_has_chosen_are_shared_out_where_there_are_enough(given, local_size, seen):
    rank = Rank(3, 4, local_size - 1, local_size, "tfhet")
    env = Tasks(WORKERS).environment("", rank, {"CUDA_VISIBLE_DEVICES": given} if given else {})
    assert env["CUDA_VISIBLE_DEVICES"] == seen


def test_the_chief_is_rank_0_and_the_workers_follow():
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
def test_what_set_tf_config_gives_a_rank_and_chooses_the_strategy(env, rank, strategy):
    assert strategies.rank_of(env) == rank
    if rank is not None:
        assert strategies.chosen("auto", rank.size, strategies.source_of(rank)).name == strategy
        assert JobContext.from_env(env).strategy == strategy
        assert strategies.chosen("horovod", rank.size, strategies.source_of(rank)).name == "horovod"


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"cluster": 3}', '{"cluster": {"worker": ["a", "b"]}, "task": {"type": "worker"}}']
)
def test_a_tf_config_that_is_none_is_refused(text):
    with pytest.raises(ClusterError):
        strategies.rank_of({"TF_CONFIG": text, "X": ""})


def test_a_port_that_is_kept_is_no_one_elses_until_it_is_given_up():
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
def test_a_launcher_that_joins_with_rubbish_is_refused(facts):
    with pytest.raises(ClusterError, match="rank-1"):
        Claim.parse("rank-1", facts)
    assert Claim.parse("rank-1", {"host": "a", "ranks": 2}) == Claim("a", ())
