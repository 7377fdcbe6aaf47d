from __future__ import annotations

import json

import pytest

from tfhet.record import WARM_UP_STEPS, HostUsage, Pause, StepTime, Timeline, UsageSample
from tfhet.telemetry import host_cpus, process_summaries, rank_summaries, timeline_json, timeline_tables
from tfhet.telemetry.timeline_summary import host_summaries


def step(number: int, dur_s: float = 0.5, rank: int = 0, allreduce_s: float | None = 0.25) -> StepTime:
    parts = {"wait_s": 0.125, "copy_s": 0.0625, "allreduce_s": allreduce_s}
    return StepTime(host=f"algo-{rank + 1}", rank=rank, step=number, epoch=0, at_s=10.0 + number, dur_s=dur_s, **parts)


def pause(name: str, at_s: float, dur_s: float) -> Pause:
    return Pause(host="algo-1", rank=0, name=name, at_s=at_s, dur_s=dur_s)


def test_rank_summary_excludes_the_warm_up():
    slow = [step(n, 60.0) for n in range(WARM_UP_STEPS)]
    pauses = [pause("checkpoint", 20.0, 2.0), pause("checkpoint", 25.0, 1.0), pause("validation", 30.0, 9.0)]
    (found,) = rank_summaries(Timeline.of([*slow, step(8), step(9), *pauses]))
    assert (found.rank, found.host, found.steps, found.step_ms) == (0, "algo-1", 2, 500.0)
    assert (found.wait_pct, found.copy_pct, found.compute_pct, found.allreduce_pct) == (25.0, 12.5, 12.5, 50.0)
    assert found.checkpoint_s == 3.0
    (found,) = rank_summaries(Timeline.of([step(1, allreduce_s=None)]))
    assert (found.compute_pct, found.allreduce_pct) == (62.5, None)


def test_process_summary_is_a_weighted_mean():
    samples = [
        UsageSample("algo-10", 1.0, 1.0, "algo-10", {"worker-0": 1.0, "launcher": 0.0}),
        UsageSample("algo-10", 2.0, 3.0, "algo-10", {"worker-0": 0.5, "worker-1": 0.25}),
        UsageSample("algo-2", 1.0, 1.0, "rank-0", {"launcher": 0.5}),
        UsageSample("algo-2", 1.0, 1.0, "rank-1", {"launcher": 0.25}),
    ]
    assert [(one.host, one.name, one.cpus, one.most_cpus) for one in process_summaries(Timeline.of(samples))] == [
        ("algo-2", "launcher of rank-0", 0.5, 0.5),
        ("algo-2", "launcher of rank-1", 0.25, 0.25),
        ("algo-10", "launcher of algo-10", 0.0, 0.0),
        ("algo-10", "worker-0", 0.625, 1.0),
        ("algo-10", "worker-1", 0.25, 0.25),
    ]


def test_cpus_of_a_host_by_second():
    def use(host: str, at_s: float, cpus: float, member: str = "", dur_s: float = 1.01) -> UsageSample:
        return UsageSample(host, at_s, dur_s, member or host, {"launcher": 0.25, "rank": cpus})

    entries = [
        StepTime(0.5, 0.1, at_s=100.0),
        *(use("algo-10", 98.5 + 1.01 * each, 1.0 + each) for each in range(4)),
        use("algo-2", 100.5, 1.0, "rank-0"),
        use("algo-2", 100.75, 2.0, "rank-1"),
        use("algo-2", 0.0, 9.0, dur_s=1e12),
        use("algo-2", 1e300, 9.0),
    ]
    tenth = [(-1, 1.25), (0, 2.25), (1, 3.25), (2, 4.25)]
    assert host_cpus(Timeline.of(entries)) == {"algo-2": [(1, 3.5)], "algo-10": tenth}
    assert host_cpus(Timeline()) == {}


def test_host_summary_has_means_and_most_memory():
    samples = [
        UsageSample("algo-1", 1.0, 1.0, "rank-0", {}, HostUsage(1.0, 4, "machine", 5 << 20, 1 << 20, 0, (100.0, 50.0))),
        UsageSample("algo-1", 2.0, 1.0, "rank-0", {}, HostUsage(2.0, 4, "machine", 3 << 20, 3 << 20, 0, (50.0, 0.0))),
        UsageSample("algo-1", 2.0, 1.0, "rank-1", {"rank-1": 1.0}),
        UsageSample("algo-2", 2.0, 1.0, "algo-2", {}, HostUsage(0.5, 2, "cgroup", 1 << 20, 0, 1 << 20)),
    ]
    found = [tuple(vars(one).values()) for one in host_summaries(Timeline.of(samples))]
    assert found == [
        ("algo-1", "machine", 1.5, 4, 5.0, 2.0, 0.0, 50.0),
        ("algo-2", "cgroup", 0.5, 2, 1.0, 0.0, 1.0, None),
    ]


def test_tables_and_json_of_a_timeline():
    assert timeline_tables(Timeline()) == []
    use = UsageSample("algo-1", 1.0, 1.0, "rank-0", {"rank-0": 1.0}, HostUsage(1.0, 4, "machine", 5, 1, 0))
    found = timeline_tables(Timeline.of([step(1), use]))
    assert [title for title, _, _ in found] == ["steps", "processes", "hosts"]
    assert all(len(row) == len(columns) for _, columns, rows in found for row in rows)
    content = timeline_json(Timeline.of([step(1), step(2, rank=1)]))
    assert json.loads(json.dumps(content)) == content
    assert [one["rank"] for one in content["ranks"]] == [0, 1] and content["hosts"] == content["processes"] == []
    assert [content["ranks"][0][name] for name in ("wait_pct", "wait_median_pct")] == pytest.approx([25.0, 25.0])
