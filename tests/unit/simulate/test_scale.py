"""The share of the machine that each host may use."""

from __future__ import annotations

import pytest

from tfhet.container import Limits
from tfhet.errors import UsageError
from tfhet.simulate import ClusterFile
from tfhet.simulate.scale import FIT, MANY_HOSTS, cost_of, limits_of, parse_scale
from tfhet.units import GIB, MIB

TWO = """
groups:
  data_group: {hosts: 2, instance_type: ml.c5.xlarge}
  dnn_group: {hosts: 1, instance_type: ml.p3.2xlarge}
"""
HOSTS = {"algo-1": "data_group", "algo-2": "dnn_group", "algo-3": "data_group"}


def limited(text: str = TWO, hosts=HOSTS, **options) -> tuple[dict[str, Limits], list[str]]:
    options = {"cpus": [0, 1], "memory_bytes": 100 * GIB, **options}
    return limits_of(ClusterFile.parse(text, "c.yaml"), hosts, **options)


def test_scale_applies_to_the_instance_types():
    assert limited() == (dict.fromkeys(HOSTS, Limits()), []), "no scale, no limits"
    limits, _ = limited(cpu_scale=0.25, cpus=range(8))
    assert (limits["algo-1"].cpus, limits["algo-1"].memory_bytes) == (1.0, 2 * GIB)
    assert limits["algo-1"].bits_per_s == pytest.approx(312.5e6)
    assert limits["algo-2"].cpus == 2.0 and limits["algo-2"].memory_bytes == pytest.approx(61 * GIB / 4)


@pytest.mark.parametrize("scale", [None, 0.01])
def test_limits_of_the_file_win(scale):
    own = "hosts: 2, cpus: 0.2, memory_mib: 512, mbit_per_s: 100, latency_ms: 5, loss_pct: 2,"
    limits, _ = limited(TWO.replace("hosts: 2,", own), cpu_scale=scale)
    assert limits["algo-1"] == Limits(0.2, limits["algo-1"].cpu_set, 512 * MIB, 100e6, 0.005, 0.02)
    assert (limits["algo-2"].latency_s, limits["algo-2"].loss_share) == (None, None), "types have neither"


@pytest.mark.parametrize(
    ("text", "cpus", "shares"),
    [
        (TWO, 2, [0.5, 1.0, 0.5]),
        (TWO, 64, [4.0, 8.0, 4.0]),
        (TWO.replace("hosts: 1,", "hosts: 1, cpus: 1.5,"), 2, [0.25, 1.5, 0.25]),
    ],
    ids=["whole machine", "no larger than the type", "rest"],
)
def test_fit_uses_the_whole_machine(text, cpus, shares):
    limits, notes = limited(text, cpu_scale=FIT, cpus=range(cpus))
    assert [limits[host].cpus for host in HOSTS] == shares
    assert notes[0].startswith("cpu_scale")


def test_too_many_cpus():
    with pytest.raises(UsageError):
        limited(TWO.replace("hosts: 1,", "hosts: 1, cpus: 2,"), cpu_scale=FIT)
    _, notes = limited(cpu_scale=1.0)
    assert any("16 CPUs" in note for note in notes)


def test_memory_is_enough_for_tensorflow():
    limits, _ = limited(TWO.replace("hosts: 1,", "hosts: 1, ranks: 3,"), cpu_scale=0.01)
    assert (limits["algo-1"].memory_bytes, limits["algo-2"].memory_bytes) == (1.5 * GIB, 3.5 * GIB)


def test_memory_fits_the_machine():
    limits, notes = limited(cpu_scale=1.0, memory_bytes=20 * GIB)
    assert 19 * GIB < sum(limit.memory_bytes or 0 for limit in limits.values()) <= 20 * GIB
    assert any(note.startswith("memory:") for note in notes)
    limits, notes = limited(TWO.replace("hosts: 1,", "hosts: 1, memory_mib: 30720,"), memory_bytes=20 * GIB)
    assert limits["algo-2"].memory_bytes == 30 * GIB and any("30.0 GiB" in note for note in notes)


def test_unknown_type_matters_only_if_needed():
    text = TWO.replace("ml.c5.xlarge", "ml.c5.huge")
    for scale in (0.1, FIT):
        with pytest.raises(UsageError, match="group data_group: .*'ml.c5.huge'"):
            limited(text, cpu_scale=scale)
    assert limited(text)[1] == []
    own = text.replace("hosts: 2,", "hosts: 2, cpus: 0.2, memory_mib: 512, mbit_per_s: 100,")
    assert limited(own, cpu_scale=0.1)[0]["algo-1"].cpus == 0.2


def test_cpu_sets_are_small_and_not_overloaded():
    text = "groups: {a: {hosts: 1, cpus: 1.5}, b: {hosts: 4, cpus: 0.25}}"
    hosts = {"algo-1": "b", "algo-2": "a", "algo-3": "b", "algo-4": "b", "algo-5": "b"}
    limits, notes = limited(text, hosts, cpus=[0, 2, 5])
    assert notes == []
    sets = {host: limit.cpu_set or () for host, limit in limits.items()}
    assert {host: len(cpus) for host, cpus in sets.items()} == {h: 2 if g == "a" else 1 for h, g in hosts.items()}
    for cpu in (0, 2, 5):
        assert sum((limits[host].cpus or 0) / len(cpus) for host, cpus in sets.items() if cpu in cpus) <= 1.0


def test_without_cpu_sets_quotas_remain():
    text = "groups: {a: {hosts: 2, cpus: 0.7}, b: {hosts: 1, cpus: 0.6}}"
    limits, notes = limited(text, {"x": "a", "y": "a", "z": "b"})
    assert [(limit.cpu_set, limit.cpus) for limit in limits.values()] == [(None, 0.7), (None, 0.7), (None, 0.6)]
    assert any(note.startswith("CPU sets:") for note in notes)


@pytest.mark.parametrize(
    ("cpus", "quota"),
    [
        (0.5, (2500, 5000)),
        (0.2, (1000, 5000)),
        (0.1, (1000, 10000)),
        (2.0, (10000, 5000)),
        (0.0001, (1000, 1000000)),
        (None, None),
    ],
)
def test_quota_is_within_the_kernels_bounds(cpus, quota):
    assert Limits(cpus=cpus).quota() == quota


@pytest.mark.parametrize(
    ("limits", "names"),
    [
        (Limits(0.2, (1,), 512 * MIB, 1e8), ("CPU quota", "memory", "bandwidth")),
        (Limits(latency_s=0.01, loss_share=0.1), ("latency", "packet loss")),
        (Limits(2.0, (0, 1)), ()),  # two CPUs of two: the set is the quota
        (Limits(), ()),
    ],
)
def test_limits_that_need_root(limits, names):
    assert limits.lost_without_root() == names


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "much", "", "101"])
def test_wrong_scale_is_refused(text):
    with pytest.raises(UsageError):
        parse_scale(text)
    assert (parse_scale("0.25"), parse_scale("fit")) == (0.25, FIT)


def test_many_hosts_have_a_cost():
    assert cost_of(MANY_HOSTS - 1, 2, GIB, 300.0) is None
    note = cost_of(1000, 2, 16 * GIB, 300.0)
    assert "195.3 of 16.0 GiB" in note and "1000 s" in note and "--ready_timeout_s 2000" in note
    assert "--ready_timeout_s" not in cost_of(100, 16, 16 * GIB, 300.0)
