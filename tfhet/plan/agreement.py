"""The prediction for the cluster of a run against the run itself.

A plan is a comparison of predictions. If the prediction for the run's own cluster is wrong by more than its error, the
others are wrong, too: then the CPU of the input counts as the run measured it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from tfhet.errors import UsageError
from tfhet.plan.host import ClusterShape
from tfhet.plan.measured_run import BELIEVED, WAITS_PCT, MeasuredRun
from tfhet.plan.prediction import predict
from tfhet.plan.workload import Workload
from tfhet.record import Interval

MODEL_ERROR = 0.2
"""Error of the model, in addition to the interval of its inputs: 95 % of the benchmark's predictions were nearer."""
USED_PART = 0.5
"""Part of its CPUs below which a run that waits does not wait for CPUs."""
MOST_OVERHEAD = 10.0
"""CPU of a run's input over its profiled CPU that is believed if the run did not record its CPU."""


@dataclass(frozen=True)
class Agreement:
    cluster: str
    """The cluster of the run; of a watched run, its machine."""
    predicted_s: Interval
    """Step that the profile and the model predict for it."""
    measured_s: float
    """Median step of the run."""
    waited_pct: float
    """Share of the measured step that waited for data, 0 to 100."""
    holds: bool
    """Whether the measured step is in the predicted interval, or within the model's error of it."""
    is_simulated: bool
    """Whether the run's hosts were simulated: their CPUs are not the CPUs of the cluster."""
    counted: float | None = None
    """CPU of the input over the profiled CPU, by the measured step; None if the plan counts the profiled CPU."""


def own_cluster(run: MeasuredRun, today: ClusterShape, is_stated: bool) -> ClusterShape | None:
    """Returns the cluster on which the run was measured; None if it is not known. is_stated: whether `today` is stated
    by an option, so that the run may have had another."""
    if not run.run.watched:
        return None if is_stated else today
    cores = run.run.machine.get("cores_usable")
    ranks = run.dnn_ranks or 1
    machine = replace(today.dnn, name="its machine", vcpus=cores, gpus=ranks) if cores else None
    return ClusterShape(machine) if machine else None


def as_measured(run: MeasuredRun, workload: Workload, own: ClusterShape) -> tuple[Workload, Agreement | None]:
    """Returns the workload with the CPU of its input as the run measured it, and the comparison with the run.

    Args:
        run: The run.
        workload: The workload with the CPU that was profiled.
        own: The cluster of the run.

    Raises:
        UsageError: The run contradicts the prediction, and its CPU cannot be the cause.
    """
    if not run.run.step_ms or not run.run.wait_ms:
        return workload, None
    batch_size = run.run.batch_size or workload.trainer.batch_size
    trainer = replace(
        workload.trainer, accelerator_ms={own.dnn.gpu_kind or "": run.accelerator_ms}, batch_size=batch_size
    )
    same = replace(workload, trainer=trainer)
    overhead = run.overhead(same, own)
    if overhead is not None and BELIEVED[0] <= overhead <= BELIEVED[1]:
        # A part of the overhead belongs to the work and stays with it, the rest belongs to those hosts.
        counted = Interval(math.sqrt(overhead), min(1.0, overhead), max(1.0, overhead))
        same, workload = (replace(each, overhead=counted) for each in (same, workload))
    layout, measured_s = run.layout(same.pipeline, same.plane_costs), 1e-3 * run.run.step_ms.median
    found = predict(same, own, layout).step_s
    lowest, highest = found.low / (1 + MODEL_ERROR), found.high * (1 + MODEL_ERROR)
    holds = lowest <= measured_s <= highest
    its = own.dnn.name if run.run.watched else str(own)
    agreement = Agreement(its, found, measured_s, run.waited_pct, holds, run.is_simulated)
    if holds or run.is_simulated or (measured_s > highest and run.waited_pct < WAITS_PCT):
        return workload, agreement
    overhead = run.overhead(same, own, 0.0)
    if (why := _not_cpu(run, own, overhead, is_longer=measured_s > highest)) or overhead is None:
        raise UsageError(
            f"{run.folder.path}: {disagreement(agreement)}. {why}, so no comparison is made. Find the cause of the "
            "wait with `tfhet report`, profile what ran on the machine where it ran, or state all numbers without --run"
        )
    # A run that did not wait may have taken any amount of CPU up to this one.
    low = min(1.0, overhead) if run.waited_pct >= WAITS_PCT else 0.0
    counted = Interval(overhead, low, max(1.0, overhead) if run.waited_pct >= WAITS_PCT else overhead)
    return replace(workload, overhead=counted), replace(agreement, counted=overhead)


def _not_cpu(run: MeasuredRun, own: ClusterShape, overhead: float | None, *, is_longer: bool) -> str:
    """Returns why the CPU of the input is not the cause of a contradiction; "" if it may be the cause."""
    if overhead is None or not overhead > 0:
        return "Another amount of CPU does not explain it"
    cpus, used = own.dnn_hosts * own.dnn.vcpus + own.data_hosts * (own.data.vcpus if own.data else 0), run.cpus_used
    if is_longer and used is not None and used < USED_PART * cpus:
        return f"Its processes used {used:.2g} of {cpus:g} CPUs, which are not what it waited for"
    if is_longer and used is None and overhead > MOST_OVERHEAD:
        return f"Its input would have to take {overhead:.3g} times the profiled CPU"
    return ""


def disagreement(found: Agreement) -> str:
    """Returns both figures in words."""
    low, high = 1e3 * found.predicted_s.low, 1e3 * found.predicted_s.high
    return (
        f"the run measured {1e3 * found.measured_s:.3g} ms a step on {found.cluster}, with {found.waited_pct:.0f}% of "
        f"waiting for data, but the profile predicts {1e3 * found.predicted_s.value:.3g} ms ({low:.3g} to {high:.3g})"
    )
