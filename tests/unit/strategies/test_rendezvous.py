from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from dataclasses import asdict
from types import SimpleNamespace

import pytest

from tfhet.cluster import Rank
from tfhet.errors import ClusterError, UsageError
from tfhet.strategies.horovod.rendezvous import Rendezvous
from tfhet.strategies.horovod.strategy import Ring

pytestmark = pytest.mark.timeout(60)


@pytest.fixture
def ring():
    pytest.importorskip("horovod.runner")
    ring = Ring(["algo-3", "algo-1"], 2)
    ring.open("127.0.0.1", "lo", "127.0.0.1", ())
    yield ring
    ring.close()


def test_ranks_are_numbered_host_by_host(ring):
    places = [("algo-3", 0), ("algo-3", 1), ("algo-1", 0), ("algo-1", 1)]
    for rank, (host, local) in enumerate(places):
        env = ring.variables(host, local)
        numbers = {name: env[f"HOROVOD_{name}"] for name in ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE")}
        assert numbers == {"RANK": str(rank), "SIZE": "4", "LOCAL_RANK": str(local), "LOCAL_SIZE": "2"}
        assert (env["HOROVOD_CROSS_RANK"], env["HOROVOD_CROSS_SIZE"]) == (str(rank // 2), "2")
        assert env["HOROVOD_HOSTNAME"] == host


def test_all_ranks_are_told_where_the_rendezvous_is_and_to_use_gloo(ring):
    env = ring.variables("algo-1", 1)
    assert env["HOROVOD_CONTROLLER"] == env["HOROVOD_CPU_OPERATIONS"] == "gloo"
    assert env["HOROVOD_GLOO_RENDEZVOUS_ADDR"] == "127.0.0.1"
    assert env["HOROVOD_GLOO_IFACE"] == "lo"
    with socket.create_connection(("127.0.0.1", int(env["HOROVOD_GLOO_RENDEZVOUS_PORT"])), 5):
        pass


def test_nothing_is_left_of_a_ring_that_was_stopped_whoever_still_holds_a_connection(ring):
    port = int(ring.variables("algo-1", 0)["HOROVOD_GLOO_RENDEZVOUS_PORT"])
    before = {thread for thread in threading.enumerate() if not thread.daemon}
    with socket.create_connection(("127.0.0.1", port), 5):  # and says nothing
        ring.close()
        ring.close()
        assert {thread for thread in threading.enumerate() if not thread.daemon} <= before
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), 5)


def test_the_rendezvous_listens_at_one_address_and_answers_the_hosts_of_the_job_alone(ring, caplog):
    port = int(ring.variables("algo-1", 0)["HOROVOD_GLOO_RENDEZVOUS_PORT"])
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", port), 5)
    server = ring._server
    server._peers = {"10.0.0.3"}

    def may(peer: str, own: str = "10.0.0.2") -> bool:
        return server.verify_request(SimpleNamespace(getsockname=lambda: (own, port)), (peer, 1))

    assert may("10.0.0.3") and may("10.0.0.2") and may("127.0.0.1") and may("::1", "::1")
    assert not may("10.0.0.4") and not may("10.0.0.4") and not may("::ffff:10.0.0.3")
    assert [record.args for record in caplog.records] == [("10.0.0.4",), ("::ffff:10.0.0.3",)]


def test_what_a_stranger_puts_reaches_no_rank(ring, monkeypatch):
    address = f"http://127.0.0.1:{ring.variables('algo-1', 0)['HOROVOD_GLOO_RENDEZVOUS_PORT']}"
    put = urllib.request.Request(f"{address}/global/0", b"mine", method="PUT")
    with urllib.request.urlopen(put, timeout=5):
        assert ring._server.cache == {"global": {"0": b"mine"}}
    with pytest.raises(urllib.error.HTTPError, match="501"):
        urllib.request.urlopen(urllib.request.Request(f"{address}/README.md", method="HEAD"), timeout=5)
    monkeypatch.setattr("tfhet.strategies.horovod.server.is_loopback", lambda address: False)
    monkeypatch.setattr(socket.socket, "getsockname", lambda self: ("10.0.0.2", 1))
    with pytest.raises(OSError):
        urllib.request.urlopen(urllib.request.Request(f"{address}/global/0", b"theirs", method="PUT"), timeout=5)
    assert ring._server.cache == {"global": {"0": b"mine"}}


@pytest.mark.parametrize(("hosts", "per_host"), [(3, 2), (1, 4), (4, 1)])
def test_the_variables_are_those_of_horovodrun(hosts, per_host):
    pytest.importorskip("horovod.runner")
    from horovod.runner.common.util.hosts import get_host_assignments, parse_hosts
    from horovod.runner.gloo_run import create_run_env_vars, create_slot_env_vars

    rendezvous, size = Rendezvous("algo-4", 4321, "eth7"), hosts * per_host
    plan = get_host_assignments(parse_hosts(",".join(f"algo-{n}:{per_host}" for n in range(hosts))), size)
    shared = create_run_env_vars("algo-4", ["eth7"], 4321)
    assert len(plan) == size
    for slot in plan:
        rank = Rank(slot.rank, slot.size, slot.local_rank, slot.local_size, "tfhet")
        theirs = {name: str(value) for name, value in {**shared, **create_slot_env_vars(slot)}.items()}
        assert rendezvous.variables(slot.hostname, rank) == theirs


def test_the_launcher_has_the_rendezvous_without_tensorflow():
    pytest.importorskip("horovod.runner")
    code = "import sys; from tfhet.strategies.horovod.strategy import Ring; Ring(['a'], 2).load()"
    code += "; print('tensorflow' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=50, check=True)
    assert done.stdout == "False\n"


def test_a_rendezvous_arrives_as_it_was():
    rendezvous = Rendezvous("10.0.0.2", 4321, "eth0")
    assert Rendezvous.parse(json.loads(json.dumps(asdict(rendezvous)))) == rendezvous


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        {},
        {"address": "", "port": 1, "interface": "lo"},
        {"address": "a b", "port": 1, "interface": "lo"},
        {"address": "a", "port": 0, "interface": "lo"},
        {"address": "a", "port": 65536, "interface": "lo"},
        {"address": "a", "port": True, "interface": "lo"},
        {"address": "a", "port": "1", "interface": "lo"},
        {"address": "a", "port": 1, "interface": "lo\n"},
        {"address": "a", "port": 1},
    ],
)
def test_what_is_no_rendezvous_is_refused(value):
    with pytest.raises(ClusterError, match="horovod"):
        Rendezvous.parse(value)


def test_a_rank_has_the_hosts_variables_and_the_rings_and_what_the_user_chose():
    rank, rendezvous = Rank(1, 2, 0, 1, "tfhet"), Rendezvous("127.0.0.1", 1, "lo")
    plain = rendezvous.environment("algo-1", rank, {"PATH": "/bin", "HOROVOD_CONTROLLER": "mpi"})
    assert plain == {"PATH": "/bin", "HOROVOD_GLOO_TIMEOUT_SECONDS": "120", **rendezvous.variables("algo-1", rank)}
    chosen = {"HOROVOD_GLOO_IFACE": "lo", "NCCL_SOCKET_IFNAME": "^docker", "HOROVOD_GLOO_TIMEOUT_SECONDS": "9"}
    other = Rendezvous("127.0.0.1", 1, "eth99").environment("algo-1", rank, chosen)
    assert {name: other[name] for name in chosen} == chosen


def test_an_interface_that_a_host_lacks_is_named_with_those_that_it_has():
    with pytest.raises(ClusterError, match=r"algo-1 has no network interface 'eth99'.*it has .*lo.*resourceconfig"):
        Rendezvous("127.0.0.1", 1, "eth99").environment("algo-1", Rank(0, 2, 0, 2, "tfhet"), {})


@pytest.mark.parametrize(("hosts", "ranks"), [([], 1), (["a"], 0)])
def test_a_ring_of_nobody_is_an_error(hosts, ranks):
    with pytest.raises(UsageError, match="a ring needs hosts"):
        Ring(hosts, ranks)


def test_without_horovod_the_error_says_what_to_install():
    code = """
import sys
sys.modules["horovod"] = None
from tfhet.cluster import Rank
from tfhet.errors import ClusterError, UsageError
from tfhet.strategies.horovod.rendezvous import Rendezvous
from tfhet.strategies.horovod.strategy import Ring
try:
    Ring(["a"], 2).open("127.0.0.1", "lo", "127.0.0.1", ())
except UsageError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=50, check=True)
    assert "2 ranks need Horovod: pip install tfhet[horovod]" in done.stdout
