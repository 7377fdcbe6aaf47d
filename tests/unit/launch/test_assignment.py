from __future__ import annotations

import json

import pytest

from tfhet.errors import ClusterError, UsageError
from tfhet.launch import LaunchSettings
from tfhet.launch.place import Place


def test_a_data_host_serves_and_has_no_rank(place_of):
    place = place_of("d1", data=("d1", "d2"), dnn=("t1", "t2"))
    assert place.rank is None and not place.is_chief and place.leads_host
    assert (place.member, place.label, place.mode) == ("d1", "d1", "heterogeneous")
    assert place.serves and not place.dispatches
    assert place.serving_hosts == ("d1", "d2")
    assert (place.workers, place.own_workers) == (2, 1)


def test_rank_0_is_the_chief_and_expects_all_others(place_of):
    place = place_of("t1", 0, data=("d1", "d2"), dnn=("t1", "t2"), ranks=2)
    assert place.is_chief and place.leads_host
    assert place.dispatches and place.serves and place.own_workers == 0
    assert (place.member, place.label, place.size) == ("rank-0", "t1/0", 4)
    assert place.members == {"d1", "d2", "rank-1", "rank-2", "rank-3"}


@pytest.mark.parametrize(
    ("host", "rank", "leads"), [("t1", 0, True), ("t1", 1, False), ("t2", 2, True), ("t2", 3, False)]
)
def test_local_rank_0_does_what_a_host_does_once(place_of, host, rank, leads):
    place = place_of(host, rank, "--dnn_host_workers", 1, dnn=("t1", "t2"), ranks=2)
    assert place.leads_host == place.serves == leads
    assert place.is_chief == (rank == 0)
    assert place.dispatches == place.is_chief


def test_without_data_hosts_the_workers_of_the_dnn_hosts_are_served(place_of):
    arguments = ("--dnn_host_workers", 2)
    first, second = (place_of(f"t{n + 1}", n, *arguments, data=(), dnn=("t1", "t2")) for n in range(2))
    assert first.dispatches and second.serves and not second.dispatches
    assert first.workers == 4
    assert first.mode == second.mode == "homogeneous"
    assert first.members == {"rank-1"}


def test_without_any_worker_there_is_no_dispatcher(place_of):
    place = place_of("t1", 0, data=())
    assert place.dispatcher is None and place.workers == 0 and place.serving_hosts == ()


def test_every_launcher_draws_the_same_picture(place_of):
    shape = {"data": ("d1", "d2"), "dnn": ("t1", "t2"), "ranks": 2}
    arguments = ("--data_host_workers", 3, "--dnn_host_workers", 1)
    launchers = [("d1", None), ("d2", None), ("t1", 0), ("t1", 1), ("t2", 2), ("t2", 3)]
    places = [place_of(host, rank, *arguments, **shape) for host, rank in launchers]
    assert (
        len({(p.dispatcher, p.coordinator, p.ports.control, p.workers, p.serving_hosts, p.mode) for p in places}) == 1
    )
    assert places[0].workers == 8
    assert sum(place.is_chief for place in places) == sum(place.dispatches for place in places) == 1
    assert [place.host for place in places if place.serves] == ["d1", "d2", "t1", "t2"]
    chief = places[2]
    assert chief.members == {place.member for place in places} - {chief.member}


def test_addresses_are_those_that_other_hosts_reach(environment_of):
    env = environment_of("d1") | {
        "TFHET_ADDRESSES": '{"d1": "10.0.0.1", "t1": "10.0.0.2"}',
        "TFHET_PORTS": '{"control": 1600, "dispatcher": 600, "workers": [601, 602]}',
    }
    place = Place.of(env, LaunchSettings(data_host_workers=2))
    assert place.dispatcher == "10.0.0.2:600"
    assert place.coordinator == "10.0.0.2"
    assert place.ports.workers == (601, 602)


def test_names_are_addresses_where_nobody_says_otherwise(environment_of):
    env = environment_of("d1")
    del env["TFHET_ADDRESSES"], env["TFHET_PORTS"]
    place = Place.of(env, LaunchSettings(dispatcher_port=700, control_port=1700, worker_port=701, data_host_workers=2))
    assert place.dispatcher == "t1:700"
    assert (place.coordinator, place.ports.control, place.ports.workers) == ("t1", 1700, (701, 702))


def test_groups_are_found_by_the_names_told(place_of):
    arguments = ("--data_group", "cpu", "--dnn-group", "gpu")
    assert place_of("d1", None, *arguments, data_group="cpu", dnn_group="gpu").rank is None
    assert place_of("t1", 0, *arguments, data_group="cpu", dnn_group="gpu").is_chief


def test_the_only_rank_needs_nobody_to_number_it(place_of):
    place = place_of("t1")
    assert place.rank is not None and place.is_chief and place.size == 1


def test_a_place_among_several_dnn_hosts_needs_a_rank(place_of):
    with pytest.raises(ClusterError, match=r"2 dnn hosts \(t1, t2\) and no rank"):
        place_of("t2", dnn=("t1", "t2"))


def test_only_ranks_that_nobody_else_started_form_their_ring_themselves(place_of, environment_of):
    assert not place_of("t1", 0, ranks=2).forms_ring
    assert not place_of("t1").forms_ring
    assert not place_of("d1").forms_ring
    env = environment_of("t1") | {
        "TFHET_RANK": "0",
        "TFHET_SIZE": "2",
        "TFHET_LOCAL_RANK": "0",
        "TFHET_LOCAL_SIZE": "2",
    }
    place = Place.of(env, LaunchSettings())
    assert place.forms_ring and (place.size, place.local_size) == (2, 2)


def test_data_hosts_without_workers_are_an_error(place_of):
    with pytest.raises(ClusterError, match="--data_host_workers 0 with data hosts"):
        place_of("d1", None, "--data_host_workers", 0)


def test_too_few_worker_ports_are_an_error(environment_of):
    env = environment_of("d1") | {"TFHET_PORTS": json.dumps({"control": 1, "dispatcher": 2, "workers": [3]})}
    with pytest.raises(UsageError, match="gives 1 worker ports, this host runs 2"):
        Place.of(env, LaunchSettings(data_host_workers=2))


def test_a_host_that_nothing_describes_is_an_error(tmp_path):
    with pytest.raises(ClusterError, match="nothing says which hosts belong to this job"):
        Place.of({"SAGEMAKER_BASE_DIR": str(tmp_path)}, LaunchSettings())


@pytest.mark.parametrize(("host", "rank", "port"), [("d1", None, 9400), ("t1", 0, 9400), ("t1", 1, 9401)])
def test_each_launcher_of_a_host_has_a_port_for_prometheus_of_its_own(place_of, host, rank, port):
    assert place_of(host, rank, "--metrics_port", 9400, ranks=2).metrics_port == port
    assert place_of(host, rank, ranks=2).metrics_port is None


def test_a_port_for_prometheus_that_the_job_needs_is_an_error(place_of):
    with pytest.raises(UsageError, match="--metrics_port 6000: port 6001 is taken by the job"):
        place_of("t1", 1, "--metrics_port", 6000, "--dnn_host_workers", 1, ranks=2)
