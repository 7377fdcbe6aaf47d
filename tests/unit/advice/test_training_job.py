"""advice/training_job.py: whether a job waits for its input, and what to change first."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from tfhet import catalogue
from tfhet.advice import HostUtilisation, InputState, ObservedJob, of_training_job, sentence, sentences
from tfhet.catalogue import InstanceGroup
from tfhet.cluster import HOMOGENEOUS_GROUP
from tfhet.record import Spread, StepTime, Waiting

INPUT, PARTLY, STEP, UNKNOWN = InputState.BOUND, InputState.HARDLY, InputState.NOT, InputState.UNKNOWN
ALONE = ObservedJob(
    "demo",
    "Completed",
    True,
    groups=(InstanceGroup(HOMOGENEOUS_GROUP, "ml.g5.xlarge", 1),),
    output_path="s3://bucket/out/",
)
MIXED = replace(
    ALONE,
    groups=(InstanceGroup("dnn_group", "ml.p4d.24xlarge", 1), InstanceGroup("data_group", "ml.c5.xlarge", 2)),
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


@dataclass(frozen=True)
class Judged:
    """A diagnosis in sentences."""

    kind: InputState
    verdict: str
    evidence: list[str]
    levers: list[str]
    next_run: list[str]


def judged(hosts: list[HostUtilisation], wait_pct: float | None = None, state: ObservedJob = ALONE) -> Judged:
    job = replace(state, hosts=hosts, wait_pct=wait_pct, metric_lines=12)
    found = of_training_job(job, catalogue.shipped())
    lists = (sentences(findings) for findings in (found.evidence, found.levers, found.next_run))
    return Judged(found.state, sentence(found.verdict), *lists)


@pytest.mark.parametrize(
    ("gpu", "cpu", "wait_pct", "kind"),
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
def test_the_verdict_is_that_of_the_waiting_or_else_of_the_gpus(
    gpu: float | None, cpu: float, wait_pct: float | None, kind: str
) -> None:
    assert judged([trains(gpu, cpu)], wait_pct).kind == kind


def test_busy_cpus_are_named_and_cheaper_stages_come_before_a_bigger_size_and_that_before_a_data_group() -> None:
    found = judged([trains(30, 95)])
    assert "the GPUs are busy 30.0 % of the time, and the CPUs are used up" in found.verdict
    cheaper, bigger, group = found.levers
    assert cheaper.startswith("Cheaper stages first")
    assert "ml.g5.2xlarge has 8 vCPUs for 1 GPU, ml.g5.xlarge has 4" in bigger
    assert group.startswith("Then a data group: `tfhet plan") and "--cluster 1*ml.g5.xlarge" in group


def test_idle_cpus_beside_idle_gpus_are_no_reason_for_more_cpus() -> None:
    found = judged([trains(30, 20)], 50.0)
    assert "a stage runs on one thread, or waits for the source or the network" in found.verdict
    assert found.levers[0].startswith("Find what the input waits for") and "only when" in found.levers[-1]
    assert not any("data group" in lever for lever in found.levers)


def test_a_family_without_a_bigger_size_is_said_to_have_none() -> None:
    state = replace(ALONE, groups=(InstanceGroup(HOMOGENEOUS_GROUP, "ml.p4d.24xlarge", 1),))
    found = judged([trains(30, 95, kind="ml.p4d.24xlarge")], state=state)
    assert any("ml.p4d has none with more CPUs for 8 GPUs" in lever for lever in found.levers)


def test_busy_data_hosts_mean_more_of_them_behind_cheaper_stages() -> None:
    found = judged(mixed(30, 10, 95, 96), 50.0, MIXED)
    assert "the CPUs of the data hosts are used up" in found.verdict
    assert [lever.split(":")[0] for lever in found.levers] == [
        "Cheaper stages first, they cost nothing",
        "More data hosts",
    ]


def test_idle_data_hosts_do_not_mean_more_of_them() -> None:
    found = judged(mixed(30, 10, 20, 20), 50.0, MIXED)
    assert "the data hosts wait for their source or the network" in found.verdict
    assert not any(lever.startswith("More data hosts") for lever in found.levers)
    found = judged(mixed(30, 95, 20, 20), 50.0, MIXED)
    assert "the CPUs of the training hosts are used up, those of the data hosts are not" in found.verdict


def test_an_input_that_keeps_up_leaves_the_step_and_what_is_too_much() -> None:
    found = judged(mixed(95, 10, 20, 20), 1.0, MIXED)
    assert found.kind == STEP and found.levers[0].startswith(
        "First shorten the training step itself: neither cheaper stages nor"
    )
    assert any(lever.startswith("Fewer data hosts: their CPUs are used to 20.0 %") for lever in found.levers)
    found = judged([trains(95, 10, gpu_memory=20)], 1.0)
    assert any(lever.startswith("A larger batch: 20.0 % of the GPUs' memory") for lever in found.levers)


def test_gpus_that_rest_while_nobody_waits_rest_inside_the_step() -> None:
    assert "rest inside the step" in judged([trains(30, 20)], 1.0).verdict


def test_the_evidence_has_numbers_spread_and_hosts_that_differ() -> None:
    waited, gpus, cpus, *_ = judged([trains(90, 50), trains(40, 50, "algo-2")], 12.5).evidence
    assert waited == "Waiting for data: 12.5 % of the step, of 12 metric lines."
    assert gpus == "GPUs of 2 training hosts: 65.0 % (p10 40, p90 90); uneven: algo-2 40, algo-1 90."
    assert cpus == "CPUs of 2 training hosts: 50.0 % (p10 50, p90 50)."


def test_memory_and_disks_that_are_nearly_full_are_named() -> None:
    evidence = judged([trains(90, 50, memory=95, disk=10)], 1.0).evidence
    assert any(each.startswith("Nearly full, memory: algo-1 95 %") for each in evidence)
    assert not any("disk" in each for each in evidence)


def test_before_the_first_minute_it_says_to_ask_again() -> None:
    starting = replace(ALONE, status="InProgress, Downloading", is_over=False)
    for hosts in ([], [HostUtilisation("algo-1")]):
        found = judged(hosts, state=starting)
        assert found.kind == UNKNOWN and "There is nothing of demo yet (InProgress, Downloading)" in found.verdict
        assert "Ask again" in found.verdict and not found.levers
    assert "CloudWatch has no utilisation of demo (Completed)" in judged([]).verdict


def test_waits_that_stand_out_are_advised_on_beside_the_steady_state() -> None:
    """Metric lines of 10 steps each; the fifteenth holds a stall of 20 s, the ninth an epoch start of 10 s."""
    waits_s = {14: 2.0, 8: 1.0}
    lines = [StepTime(0.1 + waits_s.get(at, 0.0), waits_s.get(at, 0.0), epoch=at // 8) for at in range(24)]
    waits = Waiting.of(lines, stretch=10, mean_pct=None)
    found = judged([trains(90, 40)], waits.steady_pct, replace(ALONE, waits=waits))
    assert found.kind == STEP and "stalls cost 37.0 % of the time (1 wait, 20 s)" in found.verdict
    assert "epoch starts cost 18.5 % of the time (1 wait, 10 s)" in found.verdict
    assert "the longest first: 20 s at metric line 15." in found.levers[0] and "read on" in found.levers[1]
    assert "12 metric lines (with epoch starts and stalls 55.6 %, median 0.0 %)" in found.evidence[0]


def test_what_is_off_is_to_be_switched_on_for_the_next_run() -> None:
    lines, timeline, profiler = judged([trains(30, 95)]).next_run
    assert "metric line" in lines and "timeline=steps" in timeline
    assert "{'ProfilerConfig': {'S3OutputPath': 's3://bucket/out/profiler'" in profiler
    on = replace(ALONE, has_profiler=True, has_step_timeline=True)
    assert judged([trains(30, 95)], 20.0, on).next_run == []
    off = replace(on, has_profiler=False)
    assert len(judged([trains(30, 95)], 20.0, off).next_run) == 1
