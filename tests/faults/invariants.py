"""The invariants of every job, under any fault. `violations` names those that a job did not keep."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from faults.job import EPOCHS, FinishedJob
from faults.judge import Run, Verdict, digits_without, judge
from tfhet.simulate.training_job import NO_REASON

COUNTS = ("before", "once", "repeated", "missing", "bad")
"""Fields of an epoch's audit that count examples; each example counts in one of them."""
_SECOND_ENDED = ": the second job "
_REFUSED = re.compile(r"the second job ended: exit code 2: .*port")
_NONE_WHOLE = re.compile(r"none of the \d+ checkpoints in \S+ is whole")


def violations(
    job: FinishedJob, verdict: Verdict, resumed: FinishedJob | None = None, *, has_audit: bool = True
) -> list[str]:
    """Returns descriptions of the invariants that a job did not keep.

    Args:
        job: The job.
        verdict: The judge's, of the job and of `resumed`.
        resumed: The job that resumed from the checkpoints of `job`, which was stopped.
        has_audit: Whether the job counts its examples.
    """
    found = [*_end(job), *(f"left behind: {thing}" for thing in job.left)]
    found += [line for line in _second_jobs(job) if not _REFUSED.search(line)]
    found += _agreement(job) + _cause(job) + torn_checkpoints(job) + [f"by the judge: {line}" for line in verdict.words]
    if resumed is not None and not lost_its_only_checkpoint(job, resumed):
        found += [f"the job that resumed: {line}" for line in (*_end(resumed), *resumed.left)]
        if set(resumed.summary.exit_codes.values()) != {0}:
            found.append(f"the job that resumed failed: {resumed.summary.cause}")
    if has_audit and (is_complete(job) or (resumed is not None and is_complete(resumed))):
        found += _audit(audited_epochs(job, resumed), verdict)
    return found


def judged(job: FinishedJob, resumed: FinishedJob | None = None, left_out: Collection[tuple[int, int]] = ()) -> Verdict:
    """Returns the judge's verdict on a job that read the digits.

    A complete job must not miss an example of any epoch. Another job must not miss one of the epochs after which all of
    its ranks began another epoch.

    Args:
        job: The job.
        resumed: The job that resumed from its checkpoints.
        left_out: See `content_of`.
    """
    jobs = [job] if resumed is None else [job, resumed]
    runs = [Run.read(each.folder, each.ranks) for each in jobs]
    epochs = EPOCHS if is_complete(jobs[-1]) else runs[-1].finished
    return judge(runs, digits_without(frozenset(left_out)), range(epochs))


def is_complete(job: FinishedJob) -> bool:
    """Whether a job trained to its end."""
    return bool(job.codes) and set(job.codes.values()) == {0}


def is_stopped(job: FinishedJob) -> bool:
    """Whether a job ended because it was asked to stop."""
    return bool(job.codes) and set(job.codes.values()) == {143}


def lost_its_only_checkpoint(job: FinishedJob, resumed: FinishedJob) -> bool:
    """Whether a fault damaged the only checkpoint of `job`, and `resumed` refused to start from nothing instead."""
    is_damaged = any(fault.kind == "half-checkpoint" for fault in job.faults)
    return is_damaged and bool(_NONE_WHOLE.search(resumed.summary.cause or ""))


def audited_epochs(job: FinishedJob, resumed: FinishedJob | None = None) -> Sequence[Mapping[str, Any]]:
    """The epochs in the records of a job, or of the job that resumed it and read the rest of them."""
    if resumed is None:
        return job.summary.epochs
    again = {epoch["epoch"] for epoch in resumed.summary.epochs}
    return [*(epoch for epoch in job.summary.epochs if epoch["epoch"] not in again), *resumed.summary.epochs]


def total(epochs: Sequence[Mapping[str, Any]], name: str) -> int:
    """The sum of a field of the audit over `epochs`."""
    return sum(int(epoch.get(name) or 0) for epoch in epochs)


def torn_checkpoints(job: FinishedJob) -> list[str]:
    """Descriptions of the checkpoints that are neither whole nor absent. The newest does not count if a fault damaged
    it."""
    damaged = sum(fault.kind == "half-checkpoint" for fault in job.struck)
    folders = sorted(job.checkpoints.glob("checkpoint-*"))
    return [f"{folder.name} is not whole" for folder in folders[: len(folders) - damaged] if not _is_whole(folder)]


def _is_whole(folder: Path) -> bool:
    try:
        files = json.loads((folder / "manifest.json").read_text())["files"]
        return all(hashlib.sha256((folder / name).read_bytes()).hexdigest() == files[name]["sha256"] for name in files)
    except (OSError, ValueError, KeyError):
        return False


def _end(job: FinishedJob) -> list[str]:
    late = (job.summary.cause or "").startswith("the job ran longer than")
    return [f"it did not end within its deadline: {job.summary.cause}"] if late else []


def _second_jobs(job: FinishedJob) -> list[str]:
    """The reports of second jobs that ended. Each has to find that a port is in use."""
    return [line for event in job.named("fault.injected") if _SECOND_ENDED in (line := str(event["fault"]))]


def _agreement(job: FinishedJob) -> list[str]:
    """Launchers that live and were in reach end alike: all with 0, or all with another code. If they fail, a launcher
    that was out of reach fails, too."""
    codes = job.summary.exit_codes
    if len({bool(code) for code in job.codes.values()}) > 1:
        return [f"the launchers do not agree: {job.codes}"]
    if any(job.codes.values()) and 0 in codes.values():
        return [f"the job failed, and a launcher out of reach ended with 0: {codes}"]
    return []


def _cause(job: FinishedJob) -> list[str]:
    cause = job.summary.cause or ""
    is_named = bool(cause) and not cause.startswith(NO_REASON)
    return [f"no cause is named: {cause!r}"] if any(job.codes.values()) and not is_named else []


def _audit(epochs: Sequence[Mapping[str, Any]], verdict: Verdict) -> list[str]:
    """Each example of a complete job is counted once, and the judge counts the same."""
    found = [] if len(epochs) == EPOCHS else [f"{len(epochs)} of {EPOCHS} epochs in the record"]
    for epoch in epochs:
        counted = sum(int(epoch.get(name) or 0) for name in COUNTS)
        if counted != epoch["expected"]:
            found.append(f"epoch {epoch['epoch']}: {counted} of {epoch['expected']} examples are accounted for")
    for name, count in (("missing", verdict.missing), ("repeated", verdict.repeated)):
        if total(epochs, name) != count:
            found.append(f"the audit counts {total(epochs, name)} examples {name}, the judge {count}")
    return found
