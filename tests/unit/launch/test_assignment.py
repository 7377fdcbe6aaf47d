from __future__ import annotations

import asyncio
import contextlib
import json

import pytest

from tfhet.control import Secret
from tfhet.errors import ClusterError, UsageError
from tfhet.events import ignore
from tfhet.launch import LaunchSettings
from tfhet.launch.assignment import Assignment
from tfhet.planes import LauncherSide, Outlets
from tfhet.planes.tf_service import Fleet


@pytest.fixture
def side_of():
    """`side_of(assignment)`: the launcher's side of its data plane, which nothing has started."""

    def build(assignment: Assignment) -> LauncherSide:
        outlets = Outlets(lambda line: None, lambda report: None, ignore, lambda order: None, 20.0, bytes(32))
        return assignment.plane.launcher_side(assignment.plane_settings, assignment.place, outlets)

    return build


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


def test_a_data_host_serves_and_has_no_rank(assignment_of, serves):
    found = assignment_of("d1", data=("d1", "d2"), dnn=("t1", "t2"))
    place = found.place
    assert place.rank is None and not place.is_leader and place.leads_host
    assert (place.member, place.label, place.mode) == ("d1", "d1", "heterogeneous")
    assert (found.plane.name, found.serving_hosts, serves(found)) == ("tf_service", ("d1", "d2"), True)


def test_rank_0_is_the_leader_and_expects_all_others(assignment_of, serves):
    found = assignment_of("t1", 0, data=("d1", "d2"), dnn=("t1", "t2"), ranks=2)
    place = found.place
    assert place.is_leader and place.leads_host and serves(found)
    assert (place.member, place.label, place.size) == ("rank-0", "t1/0", 4)
    assert place.followers == {"d1", "d2", "rank-1", "rank-2", "rank-3"}
    assert found.strategy.name == "horovod"


@pytest.mark.parametrize(
    ("host", "rank", "leads"), [("t1", 0, True), ("t1", 1, False), ("t2", 2, True), ("t2", 3, False)]
)
def test_local_rank_0_does_what_a_host_does_once(assignment_of, serves, host, rank, leads):
    found = assignment_of(host, rank, "--dnn_host_workers", 1, dnn=("t1", "t2"), ranks=2)
    assert found.place.leads_host == serves(found) == leads
    assert found.place.is_leader == (rank == 0)


def test_without_data_hosts_the_dnn_hosts_serve_where_they_have_workers(assignment_of, side_of, serves):
    arguments = ("--dnn_host_workers", 2)
    first, second = (assignment_of(f"t{n + 1}", n, *arguments, data=(), dnn=("t1", "t2")) for n in range(2))
    assert serves(first) and serves(second)
    assert first.serving_hosts == second.serving_hosts == ("t1", "t2")
    assert first.place.mode == second.place.mode == "homogeneous"
    assert first.place.followers == {"rank-1"}
    assert side_of(first).facts == {"dispatcher": "127.0.0.1:6000", "workers": "4"}


def test_without_any_worker_every_rank_prepares_its_own_data(assignment_of, serves):
    found = assignment_of("t1", 0, data=())
    assert (found.plane.name, found.strategy.name, found.serving_hosts) == ("local", "solo", ())
    assert not serves(found) and found.place.ports.every == (found.place.ports.control,)


def test_every_launcher_comes_to_the_same_picture(assignment_of, side_of, serves):
    shape = {"data": ("d1", "d2"), "dnn": ("t1", "t2"), "ranks": 2}
    arguments = ("--data_host_workers", 3, "--dnn_host_workers", 1)
    launchers = [("d1", None), ("d2", None), ("t1", 0), ("t1", 1), ("t2", 2), ("t2", 3)]
    found = [assignment_of(host, rank, *arguments, **shape) for host, rank in launchers]
    places = [one.place for one in found]
    assert len({(p.leader_address, p.ports.control, p.mode) for p in places}) == 1
    assert len({(*side_of(one).facts.items(), one.serving_hosts, one.plane.name) for one in found}) == 1
    assert side_of(found[0]).facts["workers"] == "8"
    assert [place.host for place in places if place.is_leader] == ["t1"]
    assert [one.place.host for one in found if serves(one)] == ["d1", "d2", "t1", "t2"]
    leader = places[2]
    assert leader.followers == {place.member for place in places} - {leader.member}


def test_addresses_are_those_that_other_hosts_reach(environment_of, side_of):
    env = environment_of("d1") | {
        "TFHET_ADDRESSES": '{"d1": "10.0.0.1", "t1": "10.0.0.2"}',
        "TFHET_PORTS": '{"control": 1600, "dispatcher": 600, "workers": [601, 602]}',
    }
    found = Assignment.of(env, LaunchSettings.parse(["--data_host_workers", "2"])[0])
    assert side_of(found).facts["dispatcher"] == "10.0.0.2:600"
    assert found.place.leader_address == "10.0.0.2"
    assert found.place.ports.plane["workers"] == (601, 602)


def test_names_are_addresses_where_nothing_says_otherwise(environment_of, side_of):
    env = environment_of("d1")
    del env["TFHET_ADDRESSES"], env["TFHET_PORTS"]
    words = ["--dispatcher_port", "700", "--control_port", "1700", "--worker_port", "701", "--data_host_workers", "2"]
    found = Assignment.of(env, LaunchSettings.parse(words)[0])
    assert side_of(found).facts["dispatcher"] == "t1:700"
    assert (found.place.leader_address, found.place.ports.every) == ("t1", (1700, 700, 701, 702))


def test_the_link_of_a_host_alone_is_on_the_loopback_unless_it_listens_elsewhere(assignment_of, environment_of):
    env = environment_of("t1", data=()) | {"TFHET_ADDRESSES": '{"t1": "10.0.0.2"}'}
    alone = Assignment.of(env, LaunchSettings()).place
    assert (alone.is_alone, alone.is_on_one_machine, alone.link_address) == (True, True, "127.0.0.1")
    assert alone.listening(alone.link_address) == "127.0.0.1"
    told = Assignment.of(env | {"TFHET_LISTEN": "0.0.0.0"}, LaunchSettings()).place
    assert (told.link_address, told.listening(told.link_address)) == ("10.0.0.2", "0.0.0.0")
    assert told.is_alone and not told.is_on_one_machine
    place = assignment_of("d1").place
    assert (place.is_alone, place.is_on_one_machine, place.link_address) == (False, True, "127.0.0.1")


def test_hosts_that_others_reach_need_a_secret_that_others_cannot_guess(environment_of):
    env = environment_of("d1")
    del env["TFHET_SECRET"]
    assert Assignment.of(env, LaunchSettings()).secret.derived
    assert Assignment.of(environment_of("t1", data=()) | {"TFHET_ADDRESSES": "{}"}, LaunchSettings()).place.is_alone
    with pytest.raises(UsageError, match="no secret"):
        Assignment.of(environment_of("t1", data=()) | {"TFHET_SECRET": "", "TFHET_LISTEN": "0.0.0.0"}, LaunchSettings())
    assert Assignment.of(env | {"TFHET_LISTEN": "127.0.0.9"}, LaunchSettings()).secret.derived
    for addresses in ("{}", '{"d1": "127.0.0.1"}', '{"d1": "10.0.0.1", "t1": "10.0.0.2"}'):
        with pytest.raises(UsageError, match="no secret.*TFHET_SECRET.*tfhet_secret"):
            Assignment.of(env | {"TFHET_ADDRESSES": addresses}, LaunchSettings())


def test_groups_are_found_by_the_names_given(assignment_of):
    arguments = ("--data_group", "cpu", "--dnn-group", "gpu")
    assert assignment_of("d1", None, *arguments, data_group="cpu", dnn_group="gpu").place.rank is None
    assert assignment_of("t1", 0, *arguments, data_group="cpu", dnn_group="gpu").place.is_leader


def test_the_only_rank_needs_no_number(assignment_of):
    place = assignment_of("t1").place
    assert place.rank is not None and place.is_leader and place.size == 1


def test_a_place_among_several_dnn_hosts_needs_a_rank(assignment_of):
    with pytest.raises(ClusterError, match=r"2 dnn hosts \(t1, t2\) and no rank"):
        assignment_of("t2", dnn=("t1", "t2"))


def test_only_ranks_that_tfhet_numbered_need_a_meeting(assignment_of, environment_of):
    assert not assignment_of("t1", 0, ranks=2).numbers_ranks
    assert not assignment_of("t1").numbers_ranks
    assert not assignment_of("d1").numbers_ranks
    numbers = {"TFHET_RANK": "0", "TFHET_SIZE": "2", "TFHET_LOCAL_RANK": "0", "TFHET_LOCAL_SIZE": "2"}
    found = Assignment.of(environment_of("t1") | numbers, LaunchSettings())
    assert found.numbers_ranks and (found.place.size, found.place.local_size) == (2, 2)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--data_host_workers", 0), "--data_host_workers 0 with data hosts"),
        (("--data_plane", "local"), r"--data_plane local with data hosts \(d1\): they would do nothing"),
    ],
)
def test_data_hosts_that_would_do_nothing_are_an_error(assignment_of, arguments, says):
    with pytest.raises(ClusterError, match=says):
        assignment_of("d1", None, *arguments)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--data_plane", "tape"), "unknown data plane 'tape'; known: auto, feed, local, ray, tf_service"),
        (("--strategy", "ring"), "unknown strategy 'ring'; known: auto, horovod, "),
    ],
)
def test_an_unknown_plane_or_strategy_is_named_with_the_known_ones(assignment_of, arguments, says):
    with pytest.raises(UsageError, match=says):
        assignment_of("t1", None, *arguments)


def test_too_few_ports_are_an_error(environment_of):
    env = environment_of("d1") | {"TFHET_PORTS": json.dumps({"control": 1, "dispatcher": 2, "workers": [3]})}
    with pytest.raises(UsageError, match="gives 1 workers ports, this host needs 2"):
        Assignment.of(env, LaunchSettings.parse(["--data_host_workers", "2"])[0])


def test_ports_that_the_plane_of_the_job_does_not_need_may_be_given(environment_of):
    env = environment_of("t1", data=()) | {"TFHET_PORTS": json.dumps({"control": 1, "dispatcher": 2, "workers": [3]})}
    assert Assignment.of(env, LaunchSettings()).place.ports.every == (1,)


def test_a_host_that_nothing_describes_is_an_error(tmp_path):
    with pytest.raises(ClusterError, match="nothing says which hosts belong to this job"):
        Assignment.of({"SAGEMAKER_BASE_DIR": str(tmp_path)}, LaunchSettings())


@pytest.mark.parametrize(("host", "rank", "port"), [("d1", None, 9400), ("t1", 0, 9400), ("t1", 1, 9401)])
def test_each_launcher_of_a_host_has_a_port_for_prometheus_of_its_own(assignment_of, host, rank, port):
    assert assignment_of(host, rank, "--metrics_port", 9400, ranks=2).metrics_port == port
    assert assignment_of(host, rank, ranks=2).metrics_port is None


def test_a_port_for_prometheus_that_the_job_needs_is_an_error(assignment_of):
    with pytest.raises(UsageError, match="--metrics_port 6000: port 6001 is taken by the job"):
        assignment_of("t1", 1, "--metrics_port", 6000, "--dnn_host_workers", 1, ranks=2)


@pytest.mark.parametrize("name", ["TFHET_SECRET", "SM_HP_TFHET_SECRET"])
def test_what_a_launcher_starts_does_not_get_the_secret(environment_of, name):
    env = environment_of("t1", 0)
    text = env.pop("TFHET_SECRET")
    given = env | {name: text, "KEPT": "this", "SM_HPS": json.dumps({"tfhet_secret": text, "epochs": 3})}
    found = Assignment.of(given, LaunchSettings())
    assert found.secret == Secret.from_text(text)
    assert text not in str(found.place.env) and found.place.env["KEPT"] == "this"
    assert json.loads(found.place.env["SM_HPS"])["epochs"] == 3


def test_a_secret_with_letters_that_json_escapes_is_left_out_too():
    text = 'ein "Geheimnis" für uns\\'
    arguments = json.dumps(["--tfhet_secret", text])
    left = Secret.left_out({"SM_HP_TFHET_SECRET": text, "SM_USER_ARGS": arguments, "SM_HPS": f'{{"a": "{text}"}}'})
    assert "Geheimnis" not in str(left) and json.loads(left["SM_USER_ARGS"])[0] == "--tfhet_secret"
