"""advice/training_job.py: whether a job waits for its input, and what to change first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tfhet import catalogue
from tfhet.advice import Finding, HostUtilisation, InputState, ObservedJob, of_training_job
from tfhet.advice.input_bound import SHORTEN_STEP, Diagnosis
from tfhet.catalogue import InstanceGroup
from tfhet.cluster import HOMOGENEOUS_GROUP
from tfhet.record import Spread, StepTime, Waiting

INPUT, PARTLY, STEP, UNKNOWN = InputState.BOUND, InputState.HARDLY, InputState.NOT, InputState.UNKNOWN
ALONE = ObservedJob("demo", "Completed", True, groups=(InstanceGroup(HOMOGENEOUS_GROUP, "ml.g5.xlarge", 1),))
MIXED = replace(
    ALONE, groups=(InstanceGroup("dnn_group", "ml.p4d.24xlarge", 1), InstanceGroup("data_group", "ml.c5.xlarge", 2))
)


def flat(pct: float | None) -> Spread | None:
    return None if pct is None else Spread.of([pct] * 3)


def trains(
    gpu: float | None, cpu: float | None, host: str = "algo-1", kind: str = "ml.g5.xlarge", **more: float
) -> HostUtilisation:
    rest = {f"{name}_pct": flat(pct) for name, pct in more.items()}
    group = HOMOGENEOUS_GROUP if kind == "ml.g5.xlarge" else "dnn_group"
    return HostUtilisation(host, group, kind, flat(cpu), flat(gpu), **rest)


def mixed(gpu: float, cpu: float, *data_cpu: float) -> list[HostUtilisation]:
    data = [HostUtilisation(f"algo-{n + 2}", "data_group", "ml.c5.xlarge", flat(pct)) for n, pct in enumerate(data_cpu)]
    return [trains(gpu, cpu, kind="ml.p4d.24xlarge"), *data]


def judged(hosts: list[HostUtilisation], wait_pct: float | None = None, state: ObservedJob = ALONE) -> Diagnosis:
    return of_training_job(replace(state, hosts=hosts, wait_pct=wait_pct, metric_lines=12), catalogue.shipped())


def kinds(findings: Sequence[Finding]) -> list[str]:
    return [each.kind for each in findings]


@pytest.mark.parametrize(
    ("gpu", "cpu", "wait_pct", "state"),
    [
        (30, 95, None, INPUT),
        (30, 20, None, INPUT),
        (65, 95, None, INPUT),
        (65, 20, None, PARTLY),
        (95, 95, None, STEP),
        (95, 20, None, STEP),
        (30, 95, 1.0, STEP),  # what ranks measured is better evidence
        (95, 20, 40.0, INPUT),
        (95, 20, 5.0, PARTLY),
        (None, 95, 40.0, INPUT),
        (None, 95, None, UNKNOWN),
    ],
)
def test_waiting_decides_before_utilisation(gpu, cpu, wait_pct, state) -> None:
    assert judged([trains(gpu, cpu)], wait_pct).state is state


GROW = ["profile_first", "bigger", "data_group"]
FIND = ["find_the_wait", "profile_first", "more_cpus_last"]


@pytest.mark.parametrize(
    ("hosts", "wait_pct", "job", "reason", "levers"),
    [
        ([trains(30, 95)], None, ALONE, "CPUs are used up", GROW),
        ([trains(30, 20)], 50.0, ALONE, "one thread", FIND),
        ([trains(30, None)], 50.0, ALONE, "not known", FIND),
        (mixed(30, 10, 95, 96), 50.0, MIXED, "data hosts are used up", ["profile_first", "more_data_hosts"]),
        (mixed(30, 10, 20, 20), 50.0, MIXED, "data hosts wait", FIND),
        (
            mixed(30, 95, 20, 20),
            50.0,
            MIXED,
            "training hosts are used up",
            ["profile_first", "bigger", "more_data_hosts"],
        ),
        (mixed(95, 10, 20, 20), 1.0, MIXED, "", [SHORTEN_STEP.kind, "fewer_data_hosts"]),
        ([trains(95, 10, gpu_memory=20)], 1.0, ALONE, "", [SHORTEN_STEP.kind, "larger_batch"]),
        ([trains(30, 20)], 1.0, ALONE, "GPUs rest", [SHORTEN_STEP.kind]),
    ],
)
def test_levers_follow_from_busy_cpus(hosts, wait_pct, job, reason, levers) -> None:
    found = judged(hosts, wait_pct, job)
    assert kinds(found.levers) == levers and reason in found.verdict.clause


def test_bigger_size_is_of_the_family() -> None:
    _, bigger, group = judged([trains(30, 95)]).levers
    assert "ml.g5.2xlarge has 8 vCPUs" in bigger.clause and "--cluster 1*ml.g5.xlarge" in group.clause
    state = replace(ALONE, groups=(InstanceGroup(HOMOGENEOUS_GROUP, "ml.p4d.24xlarge", 1),))
    largest = judged([trains(30, 95, kind="ml.p4d.24xlarge")], state=state).levers[1]
    assert largest.kind == "bigger" and "ml.p4d has none" in largest.clause


def test_evidence_has_numbers_and_uneven_hosts() -> None:
    waited, gpus, cpus = judged([trains(90, 50), trains(40, 50, "algo-2")], 12.5).evidence
    assert "12.5 %" in waited.clause and "12 metric lines" in waited.clause
    for part in ("65.0 % (p10 40, p90 90)", "algo-2 40", "algo-1 90"):
        assert part in gpus.clause
    assert "50.0 %" in cpus.clause and "algo" not in cpus.clause
    full = judged([trains(90, 50, memory=95, disk=10)], 1.0).evidence
    assert kinds(full)[-1] == "memory_nearly_full" and "algo-1 95 %" in full[-1].clause


@pytest.mark.parametrize("hosts", [[], [HostUtilisation("algo-1")]])
def test_job_without_metrics_is_unknown(hosts) -> None:
    for state, kind in ((replace(ALONE, status="InProgress", is_over=False), "nothing_yet"), (ALONE, "nothing_kept")):
        found = judged(hosts, state=state)
        assert (found.state, found.verdict.kind, found.levers) == (UNKNOWN, kind, ())


def test_stalls_and_epoch_starts_are_separate() -> None:
    """Metric lines of 10 steps each; the fifteenth holds a stall of 20 s, the ninth an epoch start of 10 s."""
    waits_s = {14: 2.0, 8: 1.0}
    lines = [StepTime(0.1 + waits_s.get(at, 0.0), waits_s.get(at, 0.0), epoch=at // 8) for at in range(24)]
    waits = Waiting.of(lines, stretch=10, mean_pct=None)
    found = judged([trains(90, 40)], waits.steady_pct, replace(ALONE, waits=waits))
    assert found.state is STEP and kinds(found.levers) == ["look_at_stalls", "bridge_epochs"]
    assert "37.0 % of the time (1 wait, 20 s)" in found.verdict.clause
    assert "18.5 % of the time (1 wait, 10 s)" in found.verdict.clause
    assert "20 s at metric line 15" in found.levers[0].clause and "55.6 %" in found.evidence[0].clause


@pytest.mark.parametrize(
    ("wait_pct", "changes", "wanted"),
    [(None, {}, ["print_metric_lines", "switch_timeline_on"]), (20.0, {"has_step_timeline": True}, [])],
)
def test_next_run_switches_measurements_on(wait_pct, changes, wanted) -> None:
    found = judged([trains(30, 95)], wait_pct, replace(ALONE, **changes)).next_run
    assert kinds(found) == wanted
