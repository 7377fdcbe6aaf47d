"""What the strategy `torch` tells the ranks, the port that it keeps for them, and which of their errors it knows."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest

from tfhet import strategies
from tfhet.cluster import Rank
from tfhet.errors import ClusterError
from tfhet.strategies import OWN, JobContext, rank_of, source_of
from tfhet.strategies.mpi import MPI
from tfhet.strategies.torch.rendezvous import Rendezvous
from tfhet.strategies.torch.strategy import TORCH, TORCHRUN

HERE = Rendezvous("10.0.0.2", 4321, "lo")
SIX = [Rank(rank, 6, rank % 2, 2, "tfhet") for rank in range(6)]


def test_each_rank_has_the_variables_of_torchrun():
    places = [HERE.environment("algo-1", rank, {}) for rank in SIX]
    for rank, place in enumerate(places):
        assert (place["MASTER_ADDR"], place["MASTER_PORT"]) == ("10.0.0.2", "4321")
        assert (place["RANK"], place["WORLD_SIZE"]) == (str(rank), "6")
        assert (place["LOCAL_RANK"], place["LOCAL_WORLD_SIZE"]) == (str(rank % 2), "2")
        assert (place["GROUP_RANK"], place["NODE_RANK"], place["CROSS_RANK"]) == (str(rank // 2),) * 3
        assert (place["GROUP_WORLD_SIZE"], place["CROSS_SIZE"]) == ("3", "3")
    assert places[0]["TORCHELASTIC_USE_AGENT_STORE"] == "False", "else rank 0 would not open the store"


def test_what_the_job_has_set_wins_where_that_makes_sense():
    theirs = {"OMP_NUM_THREADS": "4", "GLOO_SOCKET_IFNAME": "lo,lo", "NCCL_SOCKET_IFNAME": "^docker", "RANK": "7"}
    place = HERE.environment("algo-1", SIX[1], {**theirs, "MASTER_ADDR": "algo-9", "TORCHELASTIC_RUN_ID": "mine"})
    assert {name: place[name] for name in theirs} == {**theirs, "RANK": "1"}
    assert (place["MASTER_ADDR"], place["TORCHELASTIC_RUN_ID"]) == ("10.0.0.2", "mine")


def test_ranks_that_share_a_host_have_one_thread_each_and_one_alone_has_all():
    assert HERE.environment("algo-1", SIX[0], {})["OMP_NUM_THREADS"] == "1"
    assert "OMP_NUM_THREADS" not in HERE.environment("algo-1", Rank(1, 2, 0, 1, "tfhet"), {})


def test_an_interface_that_the_host_lacks_is_named():
    with pytest.raises(ClusterError, match="algo-1 has no network interface 'eth99'"):
        HERE.environment("algo-1", SIX[0], {"GLOO_SOCKET_IFNAME": "lo,eth99"})


def test_ranks_of_mpirun_need_a_meeting_and_those_of_torchrun_have_one():
    for source in (OWN, MPI):
        assert TORCH.meeting(["a"], 1, source) is not None
    assert TORCH.meeting(["a"], 2, TORCHRUN) is None
    torchrun = {"RANK": "1", "MASTER_PORT": "7"}
    assert TORCH.environment({}, "a", SIX[1], torchrun) == torchrun


def test_the_port_is_kept_from_whoever_asks_for_any_and_rank_0_can_listen_there():
    meeting = TORCH.meeting(["a"], 2, OWN)
    port = meeting.open("127.0.0.1", "lo", "127.0.0.1", ())["port"]
    try:
        for address in ("127.0.0.1", "127.0.0.2"):
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection((address, port), 5)
            with socket.socket() as other, pytest.raises(OSError, match="in use"):
                other.bind((address, port))
        with socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True):  # as TCPStore does
            socket.create_connection(("127.0.0.1", port), 5).close()
    finally:
        meeting.close()


def test_the_launcher_meets_without_torch():
    code = "import sys; from tfhet import strategies as s; m = s.get('torch').meeting(['a'], 2, s.OWN); m.load()"
    code += "; m.open('127.0.0.1', 'lo', '127.0.0.1', ()); m.close(); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=50, check=True)
    assert done.stdout == "False\n"


# torchrun starts the launcher


def test_torchruns_variables_are_a_rank_where_torchrun_says_so():
    env = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}
    assert rank_of(env) is None, "many programs use such names"
    rank = rank_of({**env, "TORCHELASTIC_RUN_ID": "none"})
    assert rank == Rank(3, 4, 1, 2, "torchrun")
    assert source_of(rank).starter == "torchrun"
    assert strategies.chosen("auto", rank.size, source_of(rank)) is TORCH
    assert JobContext.from_env({**env, "TORCHELASTIC_RUN_ID": "none"}).strategy == "torch"


def test_ranks_of_sources_without_a_strategy_train_by_horovod():
    sources = [source for source in strategies.sources().values() if not source.strategy]
    assert {strategies.chosen("auto", 2, source).name for source in (*sources, None)} == {"horovod"}


def test_a_rank_of_ours_and_the_variables_that_its_script_gets_agree():
    rank = SIX[3]
    assert rank_of({**rank.to_env(), **HERE.environment("algo-1", rank, {})}) == Rank(3, 6, 1, 2, "torchrun")
    with pytest.raises(ClusterError, match="two launchers disagree: torchrun .*TFHET_RANK"):
        rank_of({**SIX[0].to_env(), **HERE.environment("algo-1", rank, {})})


# Consequences

OF_ANOTHER_RANK = (  # what it printed, before and after which other words may stand
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


@pytest.mark.parametrize("line", OF_ANOTHER_RANK)
def test_an_error_that_another_ranks_end_caused_is_known(line):
    assert TORCH.is_consequence(f"train.py ended on algo-1, rank 0: exit code 1: [rank0]: {line}")


@pytest.mark.parametrize("line", OF_ITS_OWN)
def test_an_error_of_its_own_is_a_cause(line):
    assert not TORCH.is_consequence(line)
