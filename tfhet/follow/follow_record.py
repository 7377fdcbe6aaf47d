"""The record of a paid run, made of its log and of SageMaker's description."""

from __future__ import annotations

import re

from tfhet.follow.cost import JobCost
from tfhet.follow.heard import Heard
from tfhet.follow.hosts import cluster_of, number
from tfhet.follow.state import COMPLETED, JobState
from tfhet.messages import MetricLine
from tfhet.record import RunSummary, Spread
from tfhet.units import HOUR_S

_EXIT_CODE = re.compile(r"exit ?code:? *(\d{1,3})", re.IGNORECASE)


def summary_of(state: JobState, heard: Heard, cost: JobCost) -> RunSummary:
    """The run as far as it is known. A sample of its step times is the mean of the steps between two metric lines.

    The first of several metric lines, in whose steps graphs are traced, is left out of the times.
    """
    steps, ranks = heard.steps, max((each.ranks for each in heard.introduced.values()), default=0)
    timed = Timed.of(steps)
    batch = state.hyperparameter("batch_size") or state.hyperparameter("batch-size") or ""
    return RunSummary(
        name=state.name,
        job_id=state.name,
        mode="heterogeneous" if state.is_heterogeneous else "homogeneous",
        started=state.started_s,
        duration_s=state.ended_s - state.started_s if state.started_s and state.ended_s else None,
        cluster=cluster_of(state.groups, heard.introduced, heard.hosts),
        exit_codes=_exit_codes(state, heard),
        exit_code=_exit_code(state, heard),
        cause=_cause(state, heard),
        steps=steps[-1].step if steps else None,
        batch_size=int(batch) if batch.isdecimal() else None,
        ranks=ranks or None,
        step_ms=timed.step_ms,
        wait_ms=timed.wait_ms,
        step_parts_ms=heard.parts_ms,
        wait_pct=timed.wait_pct,
        examples_per_s=timed.examples_per_s,
        first_batch_s=heard.first_batch_s,
        epochs=tuple(heard.epochs[epoch] for epoch in sorted(heard.epochs)),
        restarts=heard.restarts if heard.introduced else None,
        status=state.status if state.is_over else None,
        failure_reason=state.failure_reason,
        billable_s=cost.billable_s,
        usd=cost.usd,
        usd_per_million_examples=_per_million(state, cost, timed),
        metrics=_final(state, heard),
    )


class Timed:
    """The times of steps, from the means that metric lines give; each counts as long as its steps took."""

    def __init__(self, lines: list[tuple[MetricLine, int]]):
        """lines: each with how many steps it is the mean of."""
        weights = [count * line.step_ms for line, count in lines]
        whole_ms = sum(weights)
        self.step_ms = Spread.of([line.step_ms for line, _ in lines]) if lines else None
        self.wait_ms = Spread.of([line.step_ms * line.wait_pct / 100 for line, _ in lines]) if lines else None
        self.wait_pct: float | None = None
        self.examples_per_s: float | None = None
        if whole_ms > 0:
            pairs = list(zip(lines, weights, strict=True))
            self.wait_pct = sum(line.wait_pct * weight for (line, _), weight in pairs) / whole_ms
            self.examples_per_s = sum(line.examples_per_s * weight for (line, _), weight in pairs) / whole_ms

    @classmethod
    def of(cls, steps: list[MetricLine]) -> Timed:
        """The times of metric lines in order, without the first where there are more."""
        counts = [line.step - before.step for before, line in zip(steps, steps[1:], strict=False)]
        return cls(list(zip(steps[1:], counts, strict=True)) if counts else [(line, line.step) for line in steps])


def _exit_code(state: JobState, heard: Heard) -> int | None:
    """None while the job runs; of one that failed as its launchers or SageMaker say, else 1."""
    if not state.is_over:
        return None
    if state.status == COMPLETED:
        return 0
    said = [code for code, _ in heard.ends.values() if code]
    stated = _EXIT_CODE.search(state.failure_reason or "")
    return (said[0] if said else int(stated[1]) if stated else 0) or 1


def _exit_codes(state: JobState, heard: Heard) -> dict[str, int | None]:
    """A job is completed when all its hosts have ended well."""
    if state.status == COMPLETED:
        return dict.fromkeys(sorted(heard.hosts, key=number), 0)
    return {host: heard.ends[host][0] for host in sorted(heard.ends, key=number)}


def _cause(state: JobState, heard: Heard) -> str | None:
    if not state.is_over or state.status == COMPLETED:
        return None
    said = [why for code, why in heard.ends.values() if code]
    return (said[0] if said else state.failure_reason) or str(state)


def _per_million(state: JobState, cost: JobCost, timed: Timed) -> float | None:
    """While it trains: the time before and after that is left out."""
    if cost.usd_per_hour is None or not timed.examples_per_s:
        return None
    share = state.billed_s / state.trained_s if state.is_spot and state.billed_s and state.trained_s else 1.0
    return 1e6 / timed.examples_per_s * share * cost.usd_per_hour / HOUR_S


def _final(state: JobState, heard: Heard) -> dict[str, float]:
    """The quality that was reached: of the last epoch, else of the last metric line, else as SageMaker found it."""
    last = heard.epochs[max(heard.epochs)] if heard.epochs else {}
    steps = heard.steps
    loss = {"loss": steps[-1].loss} if steps and steps[-1].loss is not None else {}
    merged = {**state.final_metrics, **loss, **last}
    return {name: merged[name] for name in ("loss", "accuracy", "val_loss", "val_accuracy") if name in merged}
