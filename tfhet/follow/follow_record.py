"""The record of a paid run, from its log and SageMaker's description."""

from __future__ import annotations

import re
from typing import Any

from tfhet.follow.heard import Heard, cluster_of
from tfhet.follow.state import COMPLETED, JobCost, JobState, usd_per_million
from tfhet.messages import MetricLine
from tfhet.record import RunSummary, Spread, natural

_EXIT_CODE = re.compile(r"exit ?code:? *(\d{1,3})", re.IGNORECASE)


def summary_of(state: JobState, heard: Heard, cost: JobCost) -> RunSummary:
    """Returns the summary of a run. A step time sample is the mean between two metric lines; the first line, which
    includes the warm-up, is omitted."""
    times = _times(heard.steps)
    batch = state.hyperparameter("batch_size") or state.hyperparameter("batch-size") or ""
    return RunSummary(
        name=state.name,
        job_id=state.name,
        mode="heterogeneous" if state.is_heterogeneous else "homogeneous",
        started=state.started_s,
        duration_s=state.ended_s - state.started_s if state.started_s and state.ended_s else None,
        cluster=cluster_of(state.groups, heard),
        exit_codes=_exit_codes(state, heard),
        exit_code=_exit_code(state, heard),
        cause=_cause(state, heard),
        steps=max(heard.metrics, default=None),
        batch_size=int(batch) if batch.isdecimal() else None,
        ranks=max((line.ranks for line in heard.introduced.values()), default=0) or None,
        step_parts_ms=heard.parts_ms,
        first_batch_s=heard.first_batch_s,
        epochs=tuple(heard.epochs[epoch] for epoch in sorted(heard.epochs)),
        restarts=heard.restarts if heard.introduced else None,
        status=state.status if state.is_over else None,
        failure_reason=state.failure_reason,
        billable_s=cost.billable_s,
        usd=cost.usd,
        usd_per_million_examples=usd_per_million(state, cost, times.get("examples_per_s")),
        metrics=_quality(state, heard),
        **times,
    )


def _times(steps: list[MetricLine]) -> dict[str, Any]:
    """Returns the times as fields of a RunSummary: means of metric lines, weighted by the time of their steps."""
    if not steps:
        return {}
    lines = steps[1:] or steps
    counts = [after.step - before.step for before, after in zip(steps, steps[1:], strict=False)] or [steps[0].step]
    found: dict[str, Any] = {
        "step_ms": Spread.of([line.step_ms for line in lines]),
        "wait_ms": Spread.of([line.step_ms * line.wait_pct / 100 for line in lines]),
    }
    pairs = [(line, count * line.step_ms) for line, count in zip(lines, counts, strict=True)]
    whole_ms = sum(weight for _, weight in pairs)
    if whole_ms > 0:
        for name in ("wait_pct", "examples_per_s"):
            found[name] = sum(getattr(line, name) * weight for line, weight in pairs) / whole_ms
    return found


def _exit_code(state: JobState, heard: Heard) -> int | None:
    """Returns None for a running job; of a failed one the code that a launcher or SageMaker names, else 1."""
    if not state.is_over:
        return None
    if state.status == COMPLETED:
        return 0
    codes = [code for code, _ in heard.ends.values() if code]
    stated = _EXIT_CODE.search(state.failure_reason or "")
    return (codes[0] if codes else int(stated[1]) if stated else 0) or 1


def _exit_codes(state: JobState, heard: Heard) -> dict[str, int | None]:
    if state.status == COMPLETED:
        return dict.fromkeys(sorted(heard.hosts, key=natural), 0)
    return {host: heard.ends[host][0] for host in sorted(heard.ends, key=natural)}


def _cause(state: JobState, heard: Heard) -> str | None:
    if not state.is_over or state.status == COMPLETED:
        return None
    return next((why for code, why in heard.ends.values() if code), state.failure_reason) or str(state)


def _quality(state: JobState, heard: Heard) -> dict[str, float]:
    """Returns loss and accuracy of the last epoch, else of the last metric line, else by SageMaker."""
    last = heard.epochs[max(heard.epochs)] if heard.epochs else {}
    loss = heard.steps[-1].loss if heard.steps else None
    merged = {**state.final_metrics, **({} if loss is None else {"loss": loss}), **last}
    return {name: merged[name] for name in ("loss", "accuracy", "val_loss", "val_accuracy") if name in merged}
