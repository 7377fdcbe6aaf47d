"""The strategy `torch`: variables of its ranks, the port where they meet, and consequences of errors."""

from __future__ import annotations

import pytest

from tfhet import strategies
from tfhet.cluster import Rank
from tfhet.errors import ClusterError
from tfhet.strategies import OWN, JobContext, rank_of, source_of
from tfhet.strategies.mpi import MPI
from tfhet.strategies.torch.strategy import TORCH, TORCHRUN, TorchRendezvous

HERE = TorchRendezvous("10.0.0.2", 4321, "lo")
SIX = [Rank(rank, 6, rank % 2, 2, "tfhet") for rank in range(6)]


def test_ranks_have_torchruns_variables():
    for rank in range(6):
        place = HERE.environment("algo-1", SIX[rank], {})
        group = dict.fromkeys(("GROUP_RANK", "NODE_RANK", "CROSS_RANK"), str(rank // 2))
        numbers = {"RANK": str(rank), "WORLD_SIZE": "6", "LOCAL_RANK": str(rank % 2), "LOCAL_WORLD_SIZE": "2"}
        store = {"MASTER_ADDR": "10.0.0.2", "MASTER_PORT": "4321", "TORCHELASTIC_USE_AGENT_STORE": "False"}
        groups = {"GROUP_WORLD_SIZE": "3", "CROSS_SIZE": "3"}
        assert place.items() >= {**numbers, **group, **groups, **store, "OMP_NUM_THREADS": "1"}.items()
    alone = HERE.environment("algo-1", Rank(1, 2, 0, 1, "tfhet"), {})
    assert "OMP_NUM_THREADS" not in alone, "a rank alone on its host uses all cores"


def test_users_variables_win():
    theirs = {"OMP_NUM_THREADS": "4", "GLOO_SOCKET_IFNAME": "lo,lo", "NCCL_SOCKET_IFNAME": "^docker"}
    theirs |= {"TORCHELASTIC_RUN_ID": "mine"}
    place = HERE.environment("algo-1", SIX[1], {**theirs, "RANK": "7", "MASTER_ADDR": "algo-9"})
    assert place.items() >= {**theirs, "RANK": "1", "MASTER_ADDR": "10.0.0.2"}.items()


def test_ranks_of_torchrun_need_no_meeting():
    assert TORCH.meeting(["a"], 1, OWN) is not None and TORCH.meeting(["a"], 1, MPI) is not None
    assert TORCH.meeting(["a"], 2, TORCHRUN) is None
    torchrun = {"RANK": "1", "MASTER_PORT": "7"}
    assert TORCH.environment({}, "a", SIX[1], torchrun) == torchrun


def test_torchruns_run_id_makes_a_rank():
    env = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}
    assert rank_of(env) is None, "many programs use such names"
    rank = rank_of({**env, "TORCHELASTIC_RUN_ID": "none"})
    assert rank == Rank(3, 4, 1, 2, "torchrun")
    assert strategies.chosen("auto", rank.size, source_of(rank)) is TORCH
    assert JobContext.from_env({**env, "TORCHELASTIC_RUN_ID": "none"}).strategy == "torch"
    others = [source for source in strategies.sources().values() if not source.strategy]
    assert {strategies.chosen("auto", 2, source).name for source in (*others, None)} == {"horovod"}


def test_scripts_variables_agree_with_the_launchers():
    env = HERE.environment("algo-1", SIX[3], {})
    assert rank_of({**SIX[3].to_env(), **env}) == Rank(3, 6, 1, 2, "torchrun")
    with pytest.raises(ClusterError, match="torchrun .*TFHET_RANK"):
        rank_of({**SIX[0].to_env(), **env})


OF_ANOTHER_RANK = (
    "RuntimeError: [../gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:8580.",
    "RuntimeError: [../gloo/transport/tcp/pair.cc:534] Connection reset by peer [10.0.0.3]:8580",
    "RuntimeError: [../gloo/transport/tcp/pair.cc:446] writev [10.0.0.3]:8580: Broken pipe",
    "RuntimeError: [../gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 6000ms for recv operation",
    "torch.distributed.DistStoreError: wait timeout after 10000ms, keys: /default_pg/0//cpu//0/0",
    "torch.distributed.DistStoreError: Timed out after 11 seconds waiting for clients. 3/4 clients joined.",
    "torch.distributed.DistNetworkError: The client socket has timed out after 10000ms while trying to connect",
    "torch.distributed.DistNetworkError: failed to recv, got 0 bytes. Connection was likely closed.",
    "what():  [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=4, OpType=BROADCAST) ran for 9 ms",
    "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.",
    "socketProgress: Connection closed by remote peer ip-10-0-0-3.ec2.internal<8580>",
)
OF_ITS_OWN = (
    "RuntimeError: CUDA error: an illegal memory access was encountered",
    "what():  [Rank 0] Process group watchdog thread terminated with exception: CUDA error: unspecified launch failure",
    "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. port: 1",
    "RuntimeError: [enforce fail at ../gloo/transport/tcp/device.cc:84] ifa != nullptr. Unable to find interface: eth9",
    "torch.OutOfMemoryError: CUDA out of memory.",
    "BrokenPipeError: [Errno 32] Broken pipe",
)


@pytest.mark.parametrize("line", OF_ANOTHER_RANK + OF_ITS_OWN)
def test_consequences_of_another_ranks_end(line):
    found = TORCH.is_consequence(f"train.py ended on algo-1, rank 0: exit code 1: [rank0]: {line}")
    assert found == (line in OF_ANOTHER_RANK)
