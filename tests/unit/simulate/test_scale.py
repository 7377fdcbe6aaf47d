"""The resources of the machine that each host may use."""

from __future__ import annotations

import pytest

from tfhet.container import Limits
from tfhet.errors import UsageError
from tfhet.simulate import ClusterFile
from tfhet.simulate.scale import FIT, limits_of, parse_scale
from tfhet.units import GIB, MIB

TWO = """
groups:
  data_group: {hosts: 2, instance_type: ml.c5.xlarge}
  dnn_group: {hosts: 1, instance_type: ml.p3.2xlarge}
"""
HOSTS = {"algo-1": "data_group", "algo-2": "dnn_group", "algo-3": "data_group"}


def given(text: str = TWO, hosts=HOSTS, **options) -> tuple[dict[str, Limits], list[str]]:
    options = {"cpus": [0, 1], "memory_bytes": 100 * GIB, **options}
    return limits_of(ClusterFile.parse(text, "c.yaml"), hosts, **options)


def test_without_a_scale_nothing_comes_from_the_instance_type():
    limits, notes = given()
    assert set(limits.values()) == {Limits()}
    assert notes == []


def test_cpus_memory_and_bandwidth_are_the_types_times_the_scale():
    limits, _ = given(cpu_scale=0.25, cpus=range(8))
    assert limits["algo-1"].cpus == 1.0
    assert limits["algo-1"].memory_bytes == 2 * GIB
    assert limits["algo-1"].bits_per_s == pytest.approx(312.5e6)
    assert limits["algo-2"].cpus == 2.0
    assert limits["algo-2"].memory_bytes == pytest.approx(61 * GIB / 4)


def test_the_files_own_fields_win():
    text = TWO.replace("hosts: 2,", "hosts: 2, cpus: 0.2, memory_mib: 512, mbit_per_s: 100,")
    for scale in (None, 0.01):
        limits, _ = given(text, cpu_scale=scale)
        assert limits["algo-1"] == Limits(0.2, limits["algo-1"].cpu_set, 512 * MIB, 100e6)


def test_latency_and_loss_are_the_files_own_and_never_the_types():
    text = TWO.replace("hosts: 2,", "hosts: 2, latency_ms: 5, loss_pct: 2,")
    for scale in (None, 0.25):
        limits, _ = given(text, cpu_scale=scale)
        assert (limits["algo-1"].latency_s, limits["algo-1"].loss_share) == (0.005, 0.02)
        assert (limits["algo-2"].latency_s, limits["algo-2"].loss_share) == (None, None)


def test_fit_gives_all_cpus_of_the_machine_and_says_the_scale():
    limits, notes = given(cpu_scale=FIT)
    assert sum(limit.cpus or 0 for limit in limits.values()) == pytest.approx(2.0)
    assert "cpu_scale 0.125" in notes[0]


def test_fit_leaves_to_others_what_the_file_gives_to_some():
    text = TWO.replace("hosts: 1,", "hosts: 1, cpus: 1.5,")
    limits, _ = given(text, cpu_scale=FIT)
    assert limits["algo-2"].cpus == 1.5
    assert limits["algo-1"].cpus == limits["algo-3"].cpus == 0.25


def test_fit_makes_no_host_larger_than_its_type():
    limits, _ = given(cpu_scale=FIT, cpus=range(64))
    assert [limits[host].cpus for host in HOSTS] == [4.0, 8.0, 4.0]


def test_fit_with_nothing_left_is_refused():
    with pytest.raises(UsageError, match="take 2 CPUs of 2, and nothing is left"):
        given(TWO.replace("hosts: 1,", "hosts: 1, cpus: 2,"), cpu_scale=FIT)


def test_more_than_the_machine_has_is_noted():
    _, notes = given(cpu_scale=1.0)
    assert any("may use 16 CPUs together and the machine has 2" in note for note in notes)


def test_memory_is_never_too_little_for_tensorflow():
    limits, _ = given(TWO.replace("hosts: 1,", "hosts: 1, ranks: 3,"), cpu_scale=0.01)
    assert limits["algo-1"].memory_bytes == 1.5 * GIB
    assert limits["algo-2"].memory_bytes == 3.5 * GIB


def test_memory_of_all_hosts_fits_the_machine_and_the_note_says_so():
    limits, notes = given(cpu_scale=1.0, memory_bytes=20 * GIB)
    assert 19 * GIB < sum(limit.memory_bytes or 0 for limit in limits.values()) <= 20 * GIB
    assert any(note.startswith("memory: scaled by 0.2") for note in notes)


def test_memory_that_the_file_gives_is_kept_and_what_is_too_much_is_noted():
    limits, notes = given(TWO.replace("hosts: 1,", "hosts: 1, memory_mib: 30720,"), memory_bytes=20 * GIB)
    assert limits["algo-2"].memory_bytes == 30 * GIB
    assert any("may use 30.0 GiB together and the machine has 20.0" in note for note in notes)


def test_an_unknown_type_is_named_with_its_group_where_it_is_needed():
    text = TWO.replace("ml.c5.xlarge", "ml.c5.huge")
    with pytest.raises(UsageError, match=r"group data_group: unknown instance type 'ml.c5.huge'; known: ml.c5"):
        given(text, cpu_scale=0.1)
    with pytest.raises(UsageError, match="group data_group: unknown instance type"):
        given(text, cpu_scale=FIT)
    assert given(text)[1] == []
    own = text.replace("hosts: 2,", "hosts: 2, cpus: 0.2, memory_mib: 512, mbit_per_s: 100,")
    assert given(own, cpu_scale=0.1)[0]["algo-1"].cpus == 0.2


def test_cpu_sets_are_as_small_as_the_quotas_allow_and_no_cpu_is_promised_twice():
    text = "groups: {a: {hosts: 1, cpus: 1.5}, b: {hosts: 4, cpus: 0.25}}"
    hosts = {"algo-1": "b", "algo-2": "a", "algo-3": "b", "algo-4": "b", "algo-5": "b"}
    limits, notes = given(text, hosts, cpus=[0, 2, 5])
    assert notes == []
    assert {host: len(limit.cpu_set or ()) for host, limit in limits.items()} == {
        host: 2 if group == "a" else 1 for host, group in hosts.items()
    }
    for cpu in (0, 2, 5):
        load = sum((limit.cpus or 0) / len(limit.cpu_set) for limit in limits.values() if cpu in (limit.cpu_set or ()))
        assert load <= 1.0


def test_where_that_fails_all_hosts_may_use_all_cpus_and_a_note_says_so():
    limits, notes = given(
        "groups: {a: {hosts: 2, cpus: 0.7}, b: {hosts: 1, cpus: 0.6}}", dict.fromkeys("xy", "a") | {"z": "b"}
    )
    assert [limit.cpu_set for limit in limits.values()] == [None] * 3
    assert [limit.cpus for limit in limits.values()] == [0.7, 0.7, 0.6]
    assert any(note.startswith("CPU sets:") for note in notes)


@pytest.mark.parametrize(
    ("cpus", "quota"),
    [(0.5, (2500, 5000)), (0.2, (1000, 5000)), (0.1, (1000, 10000)), (2.0, (10000, 5000)), (0.0001, (1000, 1000000))],
)
def test_a_quota_is_never_shorter_than_the_kernel_allows(cpus, quota):
    assert Limits(cpus=cpus).quota() == quota


def test_a_host_without_limits_has_no_quota():
    assert Limits().quota() is None


def test_without_root_only_the_cpu_set_is_left_and_the_rest_is_named():
    assert Limits(0.2, (1,), 512 * MIB, 1e8).lost_without_root() == ("CPU quota", "memory", "bandwidth")
    assert Limits(latency_s=0.01, loss_share=0.1).lost_without_root() == ("latency", "packet loss")
    assert Limits(2.0, (0, 1)).lost_without_root() == ()  # two CPUs of two: the set is the quota
    assert Limits().lost_without_root() == ()


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "much", "", "101"])
def test_a_scale_that_is_none_is_refused(text):
    with pytest.raises(UsageError, match="cpu_scale is a number above 0"):
        parse_scale(text)


def test_a_scale_is_a_number_or_fit():
    assert (parse_scale("0.25"), parse_scale("fit")) == (0.25, FIT)
