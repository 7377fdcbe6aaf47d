"""The node of one host: its arguments and variables, what it offers, and that nothing of it stays."""

import contextlib
import os
import subprocess
import sys

import psutil
import pytest

from tfhet.cluster import DATA, DNN, Role
from tfhet.errors import ClusterError, UsageError
from tfhet.planes.ray import capacity, node
from tfhet.planes.ray.capacity import Capacity, cpus_offered
from tfhet.planes.ray.leftovers import end_marked, mark
from tfhet.planes.ray.listen import listening_at
from tfhet.planes.ray.order import Order
from tfhet.planes.ray.settings import RaySettings
from tfhet.planes.ray.start import WORKERS, NodeStart, variables
from tfhet.planes.ray.token import token_variables
from tfhet.units import GB, MB

PORTS = range(7000, 7000 + WORKERS + 3)
HAS = Capacity(4, 1, 8 * GB, 2 * GB)


def words(**given) -> list[str]:
    return NodeStart("10.0.0.2", "10.0.0.1:6379", PORTS, HAS, {"tfhet-role": "data"}, **given).words()


def test_every_port_is_given_and_no_dashboard_runs_unless_it_is_asked_for():
    head, other = words(is_head=True), words()
    assert "--head" in head and "--port=6379" in head and "--include-dashboard=false" in head
    assert "--address=10.0.0.1:6379" in other and not [word for word in other if "dashboard=" in word]
    for each in (head, other):
        ports = [number for word in each for number in word.partition("port")[2].partition("=")[2].split(",")]
        assert {*map(str, PORTS)} - {"7006"} <= {*ports}, "7006 is the dashboard's"
        assert "--node-ip-address=10.0.0.2" in each and "--labels=tfhet-role=data" in each
    shown = words(is_head=True, has_dashboard=True)
    assert "--include-dashboard=true" in shown and "--dashboard-host=127.0.0.1" in shown


def test_the_token_is_in_the_environment_only_and_does_not_show_the_key():
    key = bytes(range(32))
    given = token_variables(key)
    assert given["RAY_AUTH_MODE"] == "token" and key.hex() not in given["RAY_AUTH_TOKEN"]
    assert given != token_variables(bytes(32))
    assert variables({"A": "1"}, given).items() >= {"A": "1", "RAY_USAGE_STATS_ENABLED": "0", **given}.items()
    assert not [word for word in words(is_head=True) if given["RAY_AUTH_TOKEN"] in word]


@pytest.mark.parametrize(
    ("settings", "role", "has_data", "expected"),
    [
        (RaySettings(), DATA, True, 4),
        (RaySettings(data_host_cpus=3), DATA, True, 3),
        (RaySettings(), DNN, True, 0),
        (RaySettings(), DNN, False, 4),
        (RaySettings(), Role("node"), True, 0),
        (RaySettings(dnn_host_cpus=2), Role("node"), True, 2),
    ],
)
def test_data_hosts_offer_their_cpus_and_dnn_hosts_where_there_are_no_others(
    monkeypatch, settings, role, has_data, expected
):
    monkeypatch.setattr(capacity, "usable_cores", lambda: 8)
    monkeypatch.setattr(capacity, "cpu_quota", lambda: 4.5)
    assert cpus_offered(settings, role, has_data) == expected


def test_memory_is_shared_out_within_the_limit_of_the_container(monkeypatch):
    monkeypatch.setattr(capacity, "memory_limit", lambda: 2 * GB)
    serving = Capacity.of(RaySettings(), DATA, True, 0)
    assert serving.object_store == int(0.3 * 2 * GB) and serving.memory == int(0.9 * 2 * GB) - serving.object_store
    assert Capacity.of(RaySettings(), DNN, True, 2).object_store == int(0.1 * 2 * GB)
    assert Capacity.of(RaySettings(object_store_mb=100), DNN, True, 2).object_store == 100 * MB
    assert [Capacity.of(RaySettings(dnn_host_gpus=n), DNN, True, 2).gpus for n in (-1, 1)] == [2, 1]


@pytest.mark.parametrize(
    "wrong", [{"data_host_cpus": -2}, {"dnn_host_cpus": 10**6}, {"object_store_mb": 10}, {"dnn_host_gpus": -2}]
)
def test_numbers_out_of_range_are_wrong_use(wrong):
    with pytest.raises(UsageError, match=f"--{next(iter(wrong))} must be"):
        RaySettings(**wrong)


@pytest.mark.parametrize("wrong", [{}, {"address": "a", "nodes": {}}, {"address": "a:1", "nodes": {"b": 3}}])
def test_an_order_that_is_none_is_refused(wrong):
    with pytest.raises(ClusterError, match="ray: "):
        Order.parse(wrong)


@pytest.mark.parametrize(("head_at", "host"), [("10.0.0.1:6379", "10.0.0.1"), ("[fd00::1]:6379", "fd00::1")])
def test_a_head_is_reached_by_ipv4_and_by_ipv6(monkeypatch, head_at, host):
    tried = []

    def connected(address, timeout):
        tried.append(address)
        return contextlib.nullcontext()

    monkeypatch.setattr(node.socket, "create_connection", connected)
    node._await_head(head_at, 5.0)
    assert tried == [(host, 6379)]


def test_processes_with_the_mark_of_a_node_are_ended_and_no_others(tmp_path):
    command = [sys.executable, "-c", "import time; print(1, flush=True); time.sleep(600)"]
    given = [{**os.environ, **mark(folder)} for folder in (tmp_path / "a", tmp_path / "b")]
    both = [subprocess.Popen(command, env=env, stdout=subprocess.PIPE, start_new_session=True) for env in given]
    try:
        for one in both:
            one.stdout.readline()
        assert end_marked(tmp_path / "a") == 1
        assert not psutil.pid_exists(both[0].pid) and both[1].poll() is None
    finally:
        for one in both:
            one.kill()
            one.wait()
            one.stdout.close()


BINDS = """
import socket, sys
four, six = socket.socket(), socket.socket(socket.AF_INET6)
six.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
mine, other = int(sys.argv[1]), int(sys.argv[2])
four.bind(("0.0.0.0", mine)), six.bind(("::", other))
free = socket.socket()
free.bind(("0.0.0.0", 0))
print(four.getsockname()[0], six.getsockname()[0], free.getsockname()[0])
"""


def test_what_would_listen_everywhere_listens_at_one_address_at_the_nodes_ports_only(free_two):
    mine, other = free_two
    asked = [sys.executable, "-c", BINDS, str(mine), str(other)]
    for ports, loopback, expected in (
        ([mine], [], ["127.0.0.2", "::", "0.0.0.0"]),
        ([other], [], ["0.0.0.0", "::ffff:127.0.0.2", "0.0.0.0"]),
        ([mine], [other], ["127.0.0.2", "::ffff:127.0.0.1", "0.0.0.0"]),
    ):
        env = {**os.environ, **listening_at("127.0.0.2", ports, loopback, os.environ)}
        found = subprocess.run(asked, env=env, capture_output=True, text=True, check=True).stdout.split()
        assert found == expected


@pytest.fixture
def free_two():
    from tfhet.cluster import free_ports

    return free_ports(2)
