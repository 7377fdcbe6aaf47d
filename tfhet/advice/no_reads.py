"""Advice for a job whose script read nothing by tfhet, so that its data groups served nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tfhet.advice.finding import Finding
from tfhet.record import RunSummary

_CURE = "read by tfhet.distribute(dataset) or tfhet.torch.loader(make_dataset)"


def unread(run: RunSummary) -> Finding | None:
    """Returns the consequence for a job that succeeded without a read, and what to do; None for others."""
    has_steps = run.step_ms is not None or any(each.get("steps") for each in run.by_rank)
    if run.watched or has_steps or run.exit_code != 0 or run.has_read is not False:
        return None
    alike = "; each rank reads what its own code reads, perhaps all the same" if (run.ranks or 1) > 1 else ""
    groups = [f"{len(group.get('hosts') or ())} x {name}" for name, group in run.cluster.items() if _serves(group)]
    if groups:
        clause = f"nobody read from {', '.join(groups)}: the script read no data by tfhet, and its steps are not known"
        return Finding("unread_data_group", f"{clause}{alike}: {_CURE}, or run the job without data hosts")
    return Finding("unread", f"the script read no data by tfhet, so its steps are not known{alike}: {_CURE}")


def _serves(group: Mapping[str, Any]) -> bool:
    return group.get("role") == "data"
