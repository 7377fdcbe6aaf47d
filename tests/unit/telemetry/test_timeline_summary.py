from __future__ import annotations

import json

import pytest

from tfhet.record import WARM_UP_STEPS, HostUsage, Pause, StepTime, Timeline, UsageSample
from tfhet.telemetry import host_cpus, process_summaries, rank_summaries, timeline_json, timeline_tables
from tfhet.telemetry.timeline_summary import host_summaries


def step(number: int, dur_s: float = 0.5, rank: int = 0, allreduce_s: float | None = 0.25) -> StepTime:
    return StepTime(
        host=f"algo-{rank + 1}",
        rank=rank,
        step=number,
        epoch=0,
        at_s=10.0 + number,
        dur_s=dur_s,
        wait_s=0.125,
        copy_s=0.0625,
        allreduce_s=allreduce_s,
    )


def test_the_steps_of_a_rank_are_shared_out_without_the_first_ones():
    slow = [step(n, 60.0) for n in range(WARM_UP_STEPS)]
    saved = [
        Pause(host="algo-1", rank=0, name="checkpoint", at_s=20.0, dur_s=2.0),
        Pause(host="algo-1", rank=0, name="checkpoint", at_s=25.0, dur_s=1.0),
    ]
    other = Pause(host="algo-1", rank=0, name="validation", at_s=30.0, dur_s=9.0)
    (found,) = rank_summaries(Timeline.of([*slow, step(8), step(9), *saved, other]))
    assert (found.rank, found.host, found.steps, found.step_ms) == (0, "algo-1", 2, 500.0)
    assert (found.wait_pct, found.copy_pct, found.compute_pct, found.allreduce_pct) == (25.0, 12.5, 12.5, 50.0)
    assert found.checkpoint_s == 3.0


def test_an_allreduce_that_was_not_told_apart_is_in_the_computing():
    (found,) = rank_summaries(Timeline.of([step(1, allreduce_s=None)]))
    assert (found.compute_pct, found.allreduce_pct) == (62.5, None)


def test_a_process_is_as_busy_as_it_was_on_average():
    looks = [
        UsageSample("algo-10", 1.0, 1.0, "algo-10", {"worker-0": 1.0, "launcher": 0.0}),
        UsageSample("algo-10", 2.0, 3.0, "algo-10", {"worker-0": 0.5, "worker-1": 0.25}),
        UsageSample("algo-2", 1.0, 1.0, "rank-0", {"launcher": 0.5}),
        UsageSample("algo-2", 1.0, 1.0, "rank-1", {"launcher": 0.25}),
    ]
    found = [(each.host, each.name, each.cpus, each.most_cpus) for each in process_summaries(Timeline.of(looks))]
    assert found == [
        ("algo-2", "launcher of rank-0", 0.5, 0.5),
        ("algo-2", "launcher of rank-1", 0.25, 0.25),
        ("algo-10", "launcher of algo-10", 0.0, 0.0),
        ("algo-10", "worker-0", 0.625, 1.0),
        ("algo-10", "worker-1", 0.25, 0.25),
    ]


def test_the_cpus_of_a_host_are_those_of_its_launchers_by_the_second_since_the_first_step():
    def use(host: str, at_s: float, cpus: float, member: str = "", dur_s: float = 1.01) -> UsageSample:
        return UsageSample(host, at_s, dur_s, member or host, {"launcher": 0.25, "rank": cpus})

    found = host_cpus(
        Timeline.of(
            [
                StepTime(0.5, 0.1, at_s=100.0),
                *(use("algo-10", 98.5 + 1.01 * each, 1.0 + each) for each in range(4)),
                use("algo-2", 100.5, 1.0, "rank-0"),
                use("algo-2", 100.75, 2.0, "rank-1"),
                use("algo-2", 0.0, 9.0, dur_s=1e12),
                use("algo-2", 1e300, 9.0),
            ]
        )
    )
    assert found == {
        "algo-2": [(1, 3.5)],
        "algo-10": [(-1, 1.25), (0, 2.25), (1, 3.25), (2, 4.25)],
    }
    assert host_cpus(Timeline()) == {}


def test_a_host_is_told_with_its_most_memory_and_the_mean_of_its_gpus():
    looks = [
        UsageSample("algo-1", 1.0, 1.0, "rank-0", {}, HostUsage(1.0, 4, "machine", 5 << 20, 1 << 20, 0, (100.0, 50.0))),
        UsageSample("algo-1", 2.0, 1.0, "rank-0", {}, HostUsage(2.0, 4, "machine", 3 << 20, 3 << 20, 0, (50.0, 0.0))),
        UsageSample("algo-1", 2.0, 1.0, "rank-1", {"rank-1": 1.0}),
        UsageSample("algo-2", 2.0, 1.0, "algo-2", {}, HostUsage(0.5, 2, "cgroup", 1 << 20, 0, 1 << 20)),
    ]
    one, two = host_summaries(Timeline.of(looks))
    assert vars(one) == {
        "host": "algo-1",
        "counted": "machine",
        "cpus": 1.5,
        "of_cpus": 4,
        "memory_mib": 5.0,
        "received_mib_per_s": 2.0,
        "sent_mib_per_s": 0.0,
        "gpu_busy_pct": 50.0,
    }
    assert (two.counted, two.sent_mib_per_s, two.gpu_busy_pct) == ("cgroup", 1.0, None)


def test_only_tables_with_rows_are_there_and_every_row_fits_its_columns():
    assert timeline_tables(Timeline()) == []
    use = UsageSample("algo-1", 1.0, 1.0, "rank-0", {"rank-0": 1.0}, HostUsage(1.0, 4, "machine", 5, 1, 0))
    found = timeline_tables(Timeline.of([step(1), use]))
    assert [title for title, _, _ in found] == ["steps", "processes", "hosts"]
    assert all(len(row) == len(columns) for _, columns, rows in found for row in rows)


def test_the_json_names_what_the_tables_show():
    content = timeline_json(Timeline.of([step(1), step(2, rank=1)]))
    assert json.loads(json.dumps(content)) == content
    assert [found["rank"] for found in content["ranks"]] == [0, 1]
    assert content["ranks"][0]["wait_pct"] == pytest.approx(25.0)
    assert content["ranks"][0]["wait_median_pct"] == pytest.approx(25.0)
    assert content["hosts"] == content["processes"] == []
