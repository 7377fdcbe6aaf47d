from __future__ import annotations

import asyncio
import contextlib
import json

import pytest

from tfhet.control import Secret
from tfhet.errors import ClusterError, UsageError
from tfhet.launch import LaunchSettings
from tfhet.launch.assignment import Assignment
from tfhet.planes.tf_service import Fleet


@pytest.fixture
def serves(side_of, monkeypatch):
    """`serves(assignment)`: whether its launcher would start processes of the data plane."""

    class Serving(Exception):
        pass

    async def start(*given: object) -> None:
        raise Serving

    def build(assignment: Assignment) -> bool:
        with monkeypatch.context() as patch, contextlib.suppress(Serving):
            patch.setattr(Fleet, "start_dispatcher", start)
            patch.setattr(Fleet, "start_workers", start)
            asyncio.run(side_of(assignment).serve())
            return False
        return True

    return build


def test_launchers_agree_on_their_job(assignment_of, side_of, serves):
    shape = {"data": ("d1", "d2"), "dnn": ("t1", "t2"), "ranks": 2}
    arguments = ("--data_host_workers", 3, "--dnn_host_workers", 1)
    launchers = [("d1", None), ("d2", None), ("t1", 0), ("t1", 1), ("t2", 2), ("t2", 3)]
    found = [assignment_of(host, rank, *arguments, **shape) for host, rank in launchers]
    places = [one.place for one in found]
    data, leader = places[0], places[2]
    assert len({(place.leader_address, place.ports.control, place.mode) for place in places}) == 1
    assert len({(*side_of(one).facts.items(), one.serving_hosts, one.plane.name) for one in found}) == 1
    assert side_of(found[0]).facts["workers"] == "8"
    assert (found[0].plane.name, found[2].strategy.name) == ("tf_service", "horovod")
    assert [place.is_leader for place in places] == [place is leader for place in places]
    leads = ["d1", "d2", "t1", "t2"]
    assert [place.host for place in places if place.leads_host] == leads
    assert [one.place.host for one in found if serves(one)] == leads
    assert data.rank is None and (data.member, data.label, data.mode) == ("d1", "d1", "heterogeneous")
    assert (leader.member, leader.label, leader.size) == ("rank-0", "t1/0", 4)
    assert leader.followers == {place.member for place in places} - {leader.member}


def test_dnn_hosts_serve_without_data_hosts(assignment_of, side_of, serves):
    found = [assignment_of(f"t{n + 1}", n, "--dnn_host_workers", 2, data=(), dnn=("t1", "t2")) for n in range(2)]
    assert all(map(serves, found))
    assert {one.serving_hosts for one in found} == {("t1", "t2")}
    assert {one.place.mode for one in found} == {"homogeneous"}
    assert found[0].place.followers == {"rank-1"}
    assert side_of(found[0]).facts == {"dispatcher": "127.0.0.1:6000", "workers": "4"}


def test_rank_without_workers_prepares_its_data(assignment_of, serves):
    found = assignment_of("t1", 0, data=())
    assert (found.plane.name, found.strategy.name, found.serving_hosts) == ("local", "solo", ())
    assert not serves(found) and found.place.ports.every == (found.place.ports.control,)


def test_addresses_and_ports_come_from_variables(environment_of, side_of):
    env = environment_of("d1") | {
        "TFHET_ADDRESSES": '{"d1": "10.0.0.1", "t1": "10.0.0.2"}',
        "TFHET_PORTS": '{"control": 1600, "dispatcher": 600, "workers": [601, 602]}',
    }
    found = Assignment.of(env, LaunchSettings.parse(["--data_host_workers", "2"])[0])
    assert side_of(found).facts["dispatcher"] == "10.0.0.2:600"
    assert (found.place.leader_address, found.place.ports.plane["workers"]) == ("10.0.0.2", (601, 602))
    del env["TFHET_ADDRESSES"], env["TFHET_PORTS"]
    words = ["--dispatcher_port", "700", "--control_port", "1700", "--worker_port", "701", "--data_host_workers", "2"]
    found = Assignment.of(env, LaunchSettings.parse(words)[0])
    assert side_of(found).facts["dispatcher"] == "t1:700"
    assert (found.place.leader_address, found.place.ports.every) == ("t1", (1700, 700, 701, 702))


def test_host_alone_uses_the_loopback(assignment_of, environment_of):
    env = environment_of("t1", data=()) | {"TFHET_ADDRESSES": '{"t1": "10.0.0.2"}'}
    alone = Assignment.of(env, LaunchSettings()).place
    assert (alone.is_alone, alone.is_on_one_machine, alone.link_address) == (True, True, "127.0.0.1")
    assert alone.listening(alone.link_address) == "127.0.0.1"
    listens = Assignment.of(env | {"TFHET_LISTEN": "0.0.0.0"}, LaunchSettings()).place
    assert (listens.link_address, listens.listening(listens.link_address)) == ("10.0.0.2", "0.0.0.0")
    assert listens.is_alone and not listens.is_on_one_machine
    place = assignment_of("d1").place
    assert (place.is_alone, place.is_on_one_machine, place.link_address) == (False, True, "127.0.0.1")


@pytest.mark.parametrize(
    ("variables", "is_safe"),
    [
        ({}, True),
        ({"TFHET_LISTEN": "127.0.0.9"}, True),
        ({"TFHET_ADDRESSES": "{}"}, False),
        ({"TFHET_ADDRESSES": '{"d1": "127.0.0.1"}'}, False),
        ({"TFHET_LISTEN": "0.0.0.0"}, False),
    ],
)
def test_reachable_hosts_need_a_secret(environment_of, variables, is_safe):
    env = environment_of("d1") | variables
    del env["TFHET_SECRET"]
    if is_safe:
        assert Assignment.of(env, LaunchSettings()).secret.derived
        return
    with pytest.raises(UsageError, match="TFHET_SECRET.*tfhet_secret"):
        Assignment.of(env, LaunchSettings())


def test_groups_have_given_names(assignment_of):
    arguments, names = ("--data_group", "cpu", "--dnn-group", "gpu"), {"data_group": "cpu", "dnn_group": "gpu"}
    assert assignment_of("d1", None, *arguments, **names).place.rank is None
    assert assignment_of("t1", 0, *arguments, **names).place.is_leader


def test_ranks_that_tfhet_numbered(assignment_of, environment_of):
    place = assignment_of("t1").place
    assert place.rank is not None and place.is_leader and place.size == 1, "the only rank needs no number"
    others = (assignment_of("t1", 0, ranks=2), assignment_of("t1"), assignment_of("d1"))
    assert not any(one.numbers_ranks for one in others)
    numbers = {"TFHET_RANK": "0", "TFHET_SIZE": "2", "TFHET_LOCAL_RANK": "0", "TFHET_LOCAL_SIZE": "2"}
    found = Assignment.of(environment_of("t1") | numbers, LaunchSettings())
    assert found.numbers_ranks and (found.place.size, found.place.local_size) == (2, 2)


@pytest.mark.parametrize(
    ("host", "arguments", "shape", "error", "words"),
    [
        ("t2", (), {"dnn": ("t1", "t2")}, ClusterError, "t1, t2"),
        ("d1", ("--data_host_workers", 0), {}, ClusterError, "--data_host_workers 0"),
        ("d1", ("--data_plane", "local"), {}, ClusterError, "--data_plane local .*d1"),
        ("t1", ("--data_plane", "tape"), {}, UsageError, "auto, feed, local, ray, tf_service"),
        ("t1", ("--strategy", "ring"), {}, UsageError, "known: auto, horovod, "),
        ("t1", ("--metrics_port", 6001, "--dnn_host_workers", 1), {}, UsageError, "--metrics_port 6001"),
    ],
)
def test_wrong_settings_are_refused(assignment_of, host, arguments, shape, error, words):
    with pytest.raises(error, match=words):
        assignment_of(host, None, *arguments, **shape)


def test_ports_of_other_planes_are_ignored(environment_of):
    ports = {"TFHET_PORTS": json.dumps({"control": 1, "dispatcher": 2, "workers": [3]})}
    assert Assignment.of(environment_of("t1", data=()) | ports, LaunchSettings()).place.ports.every == (1,)
    with pytest.raises(UsageError, match="2"):
        Assignment.of(environment_of("d1") | ports, LaunchSettings.parse(["--data_host_workers", "2"])[0])


@pytest.mark.parametrize(("host", "rank", "port"), [("d1", None, 9400), ("t1", 0, 9400), ("t1", 1, 9401)])
def test_launchers_of_a_host_have_different_metrics_ports(assignment_of, host, rank, port):
    assert assignment_of(host, rank, "--metrics_port", 9400, ranks=2).metrics_port == port
    assert assignment_of(host, rank, ranks=2).metrics_port is None


@pytest.mark.parametrize("name", ["TFHET_SECRET", "SM_HP_TFHET_SECRET"])
def test_secret_is_not_passed_on(environment_of, name):
    env = environment_of("t1", 0)
    text = env.pop("TFHET_SECRET")
    given = env | {name: text, "KEPT": "this", "SM_HPS": json.dumps({"tfhet_secret": text, "epochs": 3})}
    found = Assignment.of(given, LaunchSettings())
    assert found.secret == Secret.from_text(text)
    assert text not in str(found.place.env) and found.place.env["KEPT"] == "this"
    assert json.loads(found.place.env["SM_HPS"])["epochs"] == 3


def test_escaped_secret_is_not_passed_on():
    text = 'ein "Geheimnis" für uns\\'
    arguments = json.dumps(["--tfhet_secret", text])
    left = Secret.left_out({"SM_HP_TFHET_SECRET": text, "SM_USER_ARGS": arguments, "SM_HPS": f'{{"a": "{text}"}}'})
    assert "Geheimnis" not in str(left) and json.loads(left["SM_USER_ARGS"])[0] == "--tfhet_secret"
