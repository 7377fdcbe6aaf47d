from __future__ import annotations

import socket
import subprocess
import sys
import threading

import pytest

from tfhet.errors import UsageError
from tfhet.launch.ring import Ring

pytestmark = pytest.mark.timeout(60)


@pytest.fixture
def ring():
    pytest.importorskip("horovod.runner")
    ring = Ring(["algo-3", "algo-1"], 2)
    ring.start("127.0.0.1", "lo")
    yield ring
    ring.stop()


def test_ranks_are_numbered_host_by_host(ring):
    places = [("algo-3", 0), ("algo-3", 1), ("algo-1", 0), ("algo-1", 1)]
    for rank, (host, local) in enumerate(places):
        env = ring.environment(host, local)
        numbers = {name: env[f"HOROVOD_{name}"] for name in ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE")}
        assert numbers == {"RANK": str(rank), "SIZE": "4", "LOCAL_RANK": str(local), "LOCAL_SIZE": "2"}
        assert (env["HOROVOD_CROSS_RANK"], env["HOROVOD_CROSS_SIZE"]) == (str(rank // 2), "2")
        assert env["HOROVOD_HOSTNAME"] == host


def test_all_ranks_are_told_where_the_rendezvous_is_and_to_use_gloo(ring):
    env = ring.environment("algo-1", 1)
    assert env["HOROVOD_CONTROLLER"] == env["HOROVOD_CPU_OPERATIONS"] == "gloo"
    assert env["HOROVOD_GLOO_RENDEZVOUS_ADDR"] == "127.0.0.1"
    assert env["HOROVOD_GLOO_IFACE"] == "lo"
    with socket.create_connection(("127.0.0.1", int(env["HOROVOD_GLOO_RENDEZVOUS_PORT"])), 5):
        pass


def test_nothing_is_left_of_a_ring_that_was_stopped_whoever_still_holds_a_connection(ring):
    port = int(ring.environment("algo-1", 0)["HOROVOD_GLOO_RENDEZVOUS_PORT"])
    before = {thread for thread in threading.enumerate() if not thread.daemon}
    with socket.create_connection(("127.0.0.1", port), 5):  # and says nothing
        ring.stop()
        ring.stop()
        assert {thread for thread in threading.enumerate() if not thread.daemon} <= before
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), 5)


@pytest.mark.parametrize(("hosts", "ranks"), [([], 1), (["a"], 0)])
def test_a_ring_of_nobody_is_an_error(hosts, ranks):
    with pytest.raises(UsageError, match="a ring needs hosts"):
        Ring(hosts, ranks)


def test_without_horovod_the_error_says_what_to_install():
    code = """
import sys
sys.modules["horovod"] = None
from tfhet.errors import UsageError
from tfhet.launch.ring import Ring
try:
    Ring(["a"], 2).start("127.0.0.1", "lo")
except UsageError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=50, check=True)
    assert "2 ranks need Horovod: pip install tfhet[horovod]" in done.stdout
