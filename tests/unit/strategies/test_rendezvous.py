"""The rendezvous of Horovod's ranks without MPI."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from types import SimpleNamespace

import pytest

from tfhet.cluster import Rank
from tfhet.errors import ClusterError, UsageError
from tfhet.strategies.horovod.strategy import HorovodRendezvous, Ring

pytestmark = pytest.mark.timeout(60)


@pytest.fixture(scope="module")
def ring():
    pytest.importorskip("horovod.runner")
    ring = Ring(["algo-3", "algo-1"], 2)
    ring.open("127.0.0.1", "lo", "127.0.0.1", ())
    yield ring
    ring.close()


@pytest.fixture
def port(ring) -> int:
    return int(ring.variables("algo-1", 0)["HOROVOD_GLOO_RENDEZVOUS_PORT"])


def test_ranks_are_numbered_host_by_host(ring, port):
    places = [("algo-3", 0), ("algo-3", 1), ("algo-1", 0), ("algo-1", 1)]
    for rank, (host, local) in enumerate(places):
        env = ring.variables(host, local)
        assert env == HorovodRendezvous("127.0.0.1", port, "lo").variables(host, Rank(rank, 4, local, 2, "tfhet"))


@pytest.mark.parametrize(("hosts", "per_host"), [(3, 2), (1, 4), (4, 1)])
def test_variables_equal_horovodruns(hosts, per_host):
    pytest.importorskip("horovod.runner")
    from horovod.runner.common.util.hosts import get_host_assignments, parse_hosts
    from horovod.runner.gloo_run import create_run_env_vars, create_slot_env_vars

    rendezvous, size = HorovodRendezvous("algo-4", 4321, "eth7"), hosts * per_host
    plan = get_host_assignments(parse_hosts(",".join(f"algo-{n}:{per_host}" for n in range(hosts))), size)
    shared = create_run_env_vars("algo-4", ["eth7"], 4321)
    assert len(plan) == size
    for slot in plan:
        rank = Rank(slot.rank, slot.size, slot.local_rank, slot.local_size, "tfhet")
        theirs = {name: str(value) for name, value in {**shared, **create_slot_env_vars(slot)}.items()}
        assert rendezvous.variables(slot.hostname, rank) == theirs


def test_closed_ring_leaves_no_thread_or_port():
    pytest.importorskip("horovod.runner")
    before = {thread for thread in threading.enumerate() if not thread.daemon}
    ring = Ring(["a"], 2)
    port = ring.open("127.0.0.1", "lo", "127.0.0.1", ())["port"]
    with socket.create_connection(("127.0.0.1", port), 5):  # a client that sends nothing
        ring.close()
        ring.close()
        assert {thread for thread in threading.enumerate() if not thread.daemon} <= before
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), 5)


def test_only_hosts_of_the_job_are_answered(ring, port, monkeypatch, caplog):
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", port), 5)
    monkeypatch.setattr(ring._server, "_peers", {"10.0.0.3"})
    monkeypatch.setattr(ring._server, "_refused", set())

    def may(peer: str, own: str = "10.0.0.2") -> bool:
        return ring._server.verify_request(SimpleNamespace(getsockname=lambda: (own, port)), (peer, 1))

    assert may("10.0.0.3") and may("10.0.0.2") and may("127.0.0.1") and may("::1", "::1")
    assert not may("10.0.0.4") and not may("10.0.0.4") and not may("::ffff:10.0.0.3")
    assert [record.args for record in caplog.records] == [("10.0.0.4",), ("::ffff:10.0.0.3",)]


def test_foreign_values_reach_no_rank(ring, port, monkeypatch):
    def put(value: bytes) -> None:
        urllib.request.urlopen(urllib.request.Request(f"{address}/global/0", value, method="PUT"), timeout=5).close()

    address = f"http://127.0.0.1:{port}"
    put(b"mine")
    assert ring._server.cache == {"global": {"0": b"mine"}}
    with pytest.raises(urllib.error.HTTPError, match="501"):
        urllib.request.urlopen(urllib.request.Request(f"{address}/README.md", method="HEAD"), timeout=5)
    monkeypatch.setattr("tfhet.strategies.horovod.server.is_loopback", lambda address: False)
    monkeypatch.setattr(socket.socket, "getsockname", lambda self: ("10.0.0.2", 1))
    with pytest.raises(OSError):
        put(b"theirs")
    assert ring._server.cache == {"global": {"0": b"mine"}}


@pytest.mark.parametrize("change", [{"address": ""}, {"address": "a b"}, {"interface": "lo\n"}])
def test_wrong_words_are_refused(change):
    with pytest.raises(ClusterError):
        HorovodRendezvous.parse({"address": "a", "port": 1, "interface": "lo", **change})


def test_users_variables_win():
    rank, rendezvous = Rank(1, 2, 0, 1, "tfhet"), HorovodRendezvous("127.0.0.1", 1, "lo")
    plain = rendezvous.environment("algo-1", rank, {"PATH": "/bin", "HOROVOD_CONTROLLER": "mpi"})
    assert plain == {"PATH": "/bin", "HOROVOD_GLOO_TIMEOUT_SECONDS": "120", **rendezvous.variables("algo-1", rank)}
    chosen = {"HOROVOD_GLOO_IFACE": "lo", "NCCL_SOCKET_IFNAME": "^docker", "HOROVOD_GLOO_TIMEOUT_SECONDS": "9"}
    other = HorovodRendezvous("127.0.0.1", 1, "eth99").environment("algo-1", rank, chosen)
    assert {name: other[name] for name in chosen} == chosen


@pytest.mark.parametrize("name", ["horovod", "torch"])
def test_missing_interface_is_named(name):
    from tfhet import strategies

    order = {"address": "127.0.0.1", "port": 1, "interface": "eth99"}
    with pytest.raises(ClusterError, match="algo-1 .*'eth99'.* lo"):
        strategies.get(name).environment(order, "algo-1", Rank(0, 2, 0, 2, "tfhet"), {})


@pytest.mark.parametrize(("hosts", "ranks"), [([], 1), (["a"], 0)])
def test_empty_ring_is_refused(hosts, ranks):
    with pytest.raises(UsageError):
        Ring(hosts, ranks)


def test_missing_horovod_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "tfhet.strategies.horovod.server", None)
    with pytest.raises(UsageError, match=r"tfhet\[horovod\]"):
        Ring(["a"], 2).load()


@pytest.mark.parametrize("name", ["horovod", "torch"])
def test_launcher_needs_no_framework(name):
    pytest.importorskip("horovod.runner")
    code = (
        f"import sys; from tfhet import strategies; strategies.get({name!r}).meeting(['a'], 2, strategies.OWN).load()"
    )
    code += "; sys.exit(bool({'tensorflow', 'torch'} & {*sys.modules}))"
    assert subprocess.run([sys.executable, "-c", code], timeout=50, check=False).returncode == 0
