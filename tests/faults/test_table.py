"""Each case of the table of faults, on a cluster of its own."""

from __future__ import annotations

import contextlib
import dataclasses
from pathlib import Path

import pytest

from faults.case import BUSY, DAMAGES, FaultCase, unexpected
from faults.cases import CASES
from faults.invariants import judged, violations
from faults.job import FinishedJob, cluster_named, lacking, run_job
from faults.sabotage import DAMAGED, busy_port, damaged_digits


@pytest.mark.slow
@pytest.mark.horovod
@pytest.mark.timeout(600)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_table(case: FaultCase, place: Path) -> None:
    if missing := lacking(case.hosts, case.parsed):
        pytest.skip(f"this machine lacks {', '.join(missing)}")
    job, resumed = run(case, place)
    verdict = judged(job, resumed, [DAMAGED] * (case.before in DAMAGES))
    assert violations(job, verdict, resumed) + unexpected(case, job, resumed) == []


def run(case: FaultCase, place: Path) -> tuple[FinishedJob, FinishedJob | None]:
    """The job of a case, and the job that resumed from its checkpoints."""
    cluster = cluster_named(case.cluster)
    if case.before in DAMAGES:
        channel = damaged_digits(place / "data", case.before)
        cluster = dataclasses.replace(cluster, channels={"training": str(channel)})
    how = {"hosts": case.hosts} | ({"start": "alone"} if case.hosts == "namespace" else {})
    busy = case.before.removeprefix(BUSY) if case.before.startswith(BUSY) else ""
    job = run_job(
        cluster,
        case.command(),
        place,
        case.parsed,
        while_running=lambda job: busy_port(job, busy) if busy else contextlib.nullcontext(),
        **how,
    )
    if not case.resumes:
        return job, None
    return job, run_job(cluster, case.command(resumes=True), place / "again", checkpoints=job.checkpoints, **how)
