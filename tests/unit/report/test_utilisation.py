"""report/run_view.py: how much of its CPUs each host used."""

from __future__ import annotations

import pytest

from tfhet.record import RunSummary
from tfhet.report.run_view import RunView, reading_s, use_of_hosts

EVENTS = [
    {"event": "reading.seen", "time_s": 10.0},
    {"event": "rank.ended", "time_s": 50.0},
    {"event": "rank.ended", "time_s": 60.0},
    {"event": "host.ended", "time_s": 90.0},
    {"event": 3, "time_s": "x"},
]


def summary(**changes: object) -> RunSummary:
    values = {
        "cluster": {"data_group": {"hosts": ["algo-2"]}, "dnn_group": {"hosts": ["algo-1"]}},
        "host_cpu_s": {"algo-1": 120.0, "algo-2": 60.0},
        "reading_cpu_s": {"algo-1": 50.0, "algo-2": 45.0},
        "limits": {"algo-2": {"cpus": 1.0, "memory_bytes": 5, "bits_per_s": 8.0}},
        "duration_s": 100.0,
    }
    return RunSummary(**{**values, **changes})


def test_the_reading_lasts_from_the_first_read_to_the_last_rank() -> None:
    assert reading_s(EVENTS) == 50.0
    assert reading_s(EVENTS[1:]) is None and reading_s([]) is None


def test_hosts_come_in_the_order_of_the_cluster_with_what_they_used_while_reading() -> None:
    data, dnn = use_of_hosts(summary(), reading_s(EVENTS))
    assert (data.name, data.group, data.cpus_used, data.used_pct) == ("algo-2", "data_group", 0.9, 90.0)
    assert data.limits == {"cpus": 1.0, "memory_bytes": 5, "bits_per_s": 8.0}
    assert (dnn.name, dnn.cpus_used, dnn.limits, dnn.used_pct) == ("algo-1", 1.0, {}, None)
    for role, busiest in (("data", ("algo-2", 90.0)), ("dnn", None)):
        run = summary(cluster={"data_group": {"hosts": ["algo-2"], "role": role}})
        assert RunView(run, "run", hosts=[data, dnn]).busiest_data_host == busiest


def test_where_nobody_says_when_the_ranks_read_the_whole_run_counts() -> None:
    data, dnn = use_of_hosts(summary())
    assert (data.cpus_used, dnn.cpus_used) == (0.6, 1.2)
    assert [one.cpus_used for one in use_of_hosts(summary(duration_s=None))] == [None, None]


def test_a_limit_is_drawn_at_its_place() -> None:
    chart = RunView(summary(), "run", hosts=use_of_hosts(summary(), 50.0)).use
    first, second = chart.figures
    drawn, limit = chart.axis.at(chart.figures[first].value), chart.axis.at(chart.limits[first])
    assert first == "algo-2 (data_group)" and limit == pytest.approx(drawn / 0.9)
    assert second not in chart.limits
    assert RunView(summary(), "run").use is None
