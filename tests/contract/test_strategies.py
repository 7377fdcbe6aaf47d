"""Contract of every training strategy: how its ranks meet; test_collective.py tests what they do together."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping, Sequence
from importlib.metadata import EntryPoint
from typing import Any

import pytest

from tfhet import registry, strategies
from tfhet.cluster import ROLES, Cluster, Group, Identity, Place, Ports, Rank, host_paths, roles
from tfhet.errors import ClusterError, UsageError
from tfhet.launch import LaunchSettings
from tfhet.strategies import OWN, Claim, Meeting, Strategy

TENSORFLOW = ("multi_worker", "mirrored", "parameter_server")
NAMES = ("solo", pytest.param("horovod", marks=pytest.mark.horovod), "torch", *TENSORFLOW, "ray", "toy")
HOSTS = ("a", "b")
RUBBISH: tuple[Any, ...] = (
    {"address": None},
    {"address": "127.0.0.1"},
    {"address": "127.0.0.1", "port": "6000", "interface": "lo"},
    {"address": "127.0.0.1", "port": 0, "interface": "lo"},
    {"address": "127.0.0.1", "port": 1 << 20, "interface": "lo"},
    {"address": ["a"], "port": True, "interface": {}},
    {"\0": [[]]},
)


@pytest.fixture(params=NAMES)
def strategy(request: pytest.FixtureRequest) -> Strategy:
    return strategies.get(request.param)


def size_of(strategy: Strategy) -> tuple[Sequence[str], int]:
    """Hosts, and ranks on each, that a strategy can train."""
    return (HOSTS[:1], 1) if strategy.name in ("solo", "mirrored", "ray") else (HOSTS, 2)


def ranks_of(strategy: Strategy) -> list[tuple[str, Rank]]:
    hosts, per_host = size_of(strategy)
    size = len(hosts) * per_host
    return [(hosts[rank // per_host], Rank(rank, size, rank % per_host, per_host, "tfhet")) for rank in range(size)]


def ordered(strategy: Strategy, opened: Mapping[str, Any]) -> Mapping[str, Any]:
    """The order of a leader. Each rank, and each host of an additional role, keeps a port."""
    ranks = ranks_of(strategy)
    groups = [Group("dnn_group", size_of(strategy)[0], None)]
    groups += [Group(role.group, (f"{role.name}-1",), None) for role in strategy.roles]
    identity = Identity("a", "dnn_group", Cluster(tuple(groups), "lo"))
    parts = roles(identity, known=(*ROLES, *strategy.roles))
    place = Place(identity, parts, ranks[0][1], Ports(), host_paths({}), {})
    claims = {f"rank-{rank.rank}": Claim(host, (20000 + rank.rank,)) for host, rank in ranks}
    claims |= {f"{role.name}-1": Claim(f"{role.name}-1", (30000,)) for role in strategy.roles}
    return strategy.order(opened, claims, place)


def met(strategy: Strategy) -> Meeting | None:
    return strategy.meeting(*size_of(strategy), OWN)


def test_strategy_describes_itself(strategy):
    assert strategy.name in strategies.names()
    assert not {role.name for role in strategy.roles} & {role.name for role in ROLES}
    assert not any(role.trains for role in strategy.roles), "only the dnn group has ranks"
    assert {source.name for source in strategy.sources} <= set(strategies.sources())
    assert not strategy.is_consequence("ValueError: not of another rank")
    for source in strategy.sources:
        assert not source.own and strategy.meeting(*size_of(strategy), source) is None


def test_port_of_a_meeting_is_kept_until_close(strategy):
    meeting = met(strategy)
    if meeting is None:
        strategy.check({})
        return
    meeting.close()
    meeting = met(strategy)
    meeting.load()
    order = meeting.open("127.0.0.1", "lo", "127.0.0.1", ())
    assert json.loads(json.dumps(order)) == order
    strategy.check(order)
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(("127.0.0.1", order["port"]))
    meeting.close()
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", order["port"]), 5.0)
    meeting.close()


def test_ranks_have_different_places(strategy):
    meeting, mine = met(strategy), {"PATH": "/bin", "MINE": "1"}
    try:
        opened = {} if meeting is None else meeting.open("127.0.0.1", "lo", "127.0.0.1", ())
        order = ordered(strategy, opened)
        strategy.check(json.loads(json.dumps(order)))
        places = [strategy.environment(order, host, rank, mine) for host, rank in ranks_of(strategy)]
    finally:
        if meeting is not None:
            meeting.close()
    for place in places:
        assert place.items() >= mine.items()
        assert all(isinstance(name, str) and isinstance(value, str) for name, value in place.items())
    assert len({json.dumps(place, sort_keys=True) for place in places}) == len(places)


@pytest.mark.parametrize("order", RUBBISH, ids=str)
def test_wrong_order_is_refused(strategy, order):
    if met(strategy) is None and not ordered(strategy, {}):
        strategy.check(order)
        return
    with pytest.raises(ClusterError):
        strategy.check(order)
    with pytest.raises(ClusterError):
        strategy.environment(order, *ranks_of(strategy)[0], {})


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("toy", "ConnectionError: the other end has closed the connection"),
        ("horovod", "[1]: Connection closed by peer [127.0.0.1]:3456"),
        ("multi_worker", "UnavailableError: Collective ops is aborted by: Socket closed"),
        ("multi_worker", "Restart your program to reset."),
    ],
)
def test_lost_connection_is_a_consequence(name, line):
    assert strategies.get(name).is_consequence(line)


@pytest.mark.parametrize(
    ("name", "hosts", "ranks"), [("solo", 2, 2), ("mirrored", 2, 2), ("ray", 2, 2), ("parameter_server", 1, 1)]
)
def test_impossible_number_of_ranks_is_refused(name, hosts, ranks):
    with pytest.raises(UsageError):
        strategies.get(name).meeting(HOSTS[:hosts], ranks, OWN)


# Third parties


def test_third_party_strategy_is_chosen_by_name():
    assert strategies.names() == ("solo", "horovod", "torch", *TENSORFLOW, "ray", "toy")
    assert strategies.chosen("toy", 4) is strategies.get("toy")
    assert [role.group for role in strategies.get("toy").roles] == ["toy_group"]
    assert LaunchSettings.parse(["--strategy", "toy"])[0].strategy == "toy"
    with pytest.raises(UsageError, match="toys.*auto, horovod, .*, torch, toy"):
        LaunchSettings.parse(["--strategy", "toys"])


def test_strategy_that_cannot_be_imported_is_named(monkeypatch):
    points = {"broken": EntryPoint("broken", "toy_strategy:THERE_IS_NONE", "tfhet.strategies")}
    monkeypatch.setattr(registry, "_points", lambda group: points)
    with pytest.raises(UsageError, match="strategy 'broken'.*toy_strategy:THERE_IS_NONE"):
        strategies.get("broken")
