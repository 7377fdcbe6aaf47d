"""planes/costs.py: the file of costs, and the costs of each data plane in it."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import pytest

from tfhet import planes
from tfhet.errors import TfhetError, UsageError
from tfhet.planes import CostFile, own_path
from tfhet.record import Interval

SHIPPED = CostFile.shipped()
moving = pytest.mark.parametrize("name", [name for name in planes.names() if name != "local"])


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return tmp_path


@moving
def test_shipped_file_has_sane_costs_of_every_plane(name):
    cost = SHIPPED.plane(name)
    assert date.fromisoformat(cost.date) and cost.machine and cost.source
    every = [value for value in vars(cost).values() if isinstance(value, Interval)]
    assert all(value.value > 0 for value in every if value != Interval.exact(0.0))
    # 10 us to 50 ms per batch and 0.05 to 5 s per GB: a number outside has the wrong unit.
    assert all(1e-5 < each.value < 0.05 for each in (cost.reader_cpu_s_per_batch, cost.server_cpu_s_per_batch))
    assert all(0.05 < each.value < 5 for each in (cost.reader_cpu_s_per_gb, cost.server_cpu_s_per_gb))
    assert SHIPPED.vcpu.pass_ms.low > 0


@moving
def test_wire_costs_follow_batches_and_bytes(name):
    cost, wire = SHIPPED.plane(name), planes.get(name).costs(SHIPPED).wire
    found = wire(100_000)
    assert found.reader_s_per_gb.value == pytest.approx(
        1e4 * cost.reader_cpu_s_per_batch.value + cost.reader_cpu_s_per_gb.value
    )
    assert wire(10**12).server_s_per_gb.high == pytest.approx(cost.server_cpu_s_per_gb.high, rel=1e-3)
    busy_s = found.reader_s_per_gb.value + (0 if name == "ray" else found.server_s_per_gb.value)
    assert found.gb_per_s.value == pytest.approx(1 / busy_s)
    assert found.gb_per_s.low <= found.gb_per_s.value <= found.gb_per_s.high
    with pytest.raises(UsageError):
        wire(0)


def test_plane_without_servers_moves_nothing():
    with pytest.raises(UsageError):
        planes.get("local").costs().wire(1000)


def test_faster_vcpu_needs_less_cpu_time():
    cost = SHIPPED.plane("ray")
    found = cost.at_speed(2.0)
    assert found.reader_cpu_s_per_gb.value == pytest.approx(cost.reader_cpu_s_per_gb.value / 2)
    assert found.leader_cpus.high == pytest.approx(cost.leader_cpus.high / 2)
    assert found.request_s == cost.request_s and found.date == cost.date


def test_own_file_replaces_the_shipped_one(home):
    assert CostFile.default() == SHIPPED
    own = CostFile(SHIPPED.vcpu, {name: one.at_speed(3.0) for name, one in SHIPPED.planes.items()})
    path = own_path()
    assert path is not None and path == own.write(path) and home in path.parents
    assert CostFile.default() == own
    assert "3" in planes.get("feed").costs().source


def _changed(field: str, value: object) -> dict:
    document = json.loads(Path(planes.__file__).with_name("costs.json").read_text())
    *above, last = field.split(".")
    inner = document
    for each in above:
        inner = inner[each]
    inner[last] = value
    return document


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("schema", 0),
        ("schema", None),
        ("vcpu", {}),
        ("planes.feed.date", 3),
        ("planes.feed.request_s", None),
        ("planes.feed.reader_cpu_s_per_gb", {"value": 1, "low": 2, "high": 3}),
        ("planes.feed.reader_cpu_s_per_gb", {"value": 1, "low": 0, "high": 3}),
    ],
)
def test_wrong_file_is_refused_with_its_path(tmp_path, field, value):
    path = tmp_path / "costs.json"
    path.write_text(json.dumps(_changed(field, value)))
    with pytest.raises(TfhetError, match="costs.json"):
        CostFile.read(path)


def test_file_that_lacks_a_plane_is_refused():
    with pytest.raises(UsageError, match="'feed'"):
        planes.get("feed").costs(CostFile(SHIPPED.vcpu, {}))


@pytest.mark.parametrize("name", planes.names())
def test_planes_make_arguments_of_a_layout(name):
    plane = planes.get(name)
    found = plane.arguments(2, 1)
    settings = plane.settings(**found)
    assert {argument: getattr(settings, argument) for argument in found} == found
    assert bool(found) == bool(plane.costs().most_servers_per_host)


@pytest.mark.parametrize(
    ("name", "servers", "expected"),
    [
        ("feed", (1, 0), {"data_host_processes": 0, "dnn_host_processes": 0}),
        ("feed", (1, 1), {"data_host_processes": 0, "dnn_host_processes": -1}),
        ("ray", (2, 0), {"data_host_cpus": -1, "dnn_host_cpus": 0}),
        ("ray", (2, 1), {"data_host_cpus": -1, "dnn_host_cpus": 1}),
        ("ray", (0, 1), {"data_host_cpus": -1, "dnn_host_cpus": -1}),
    ],
)
def test_host_has_all_processes_or_none(name, servers, expected):
    assert planes.get(name).arguments(*servers) == expected
