"""One run of `benchmarks.cluster`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.cluster.case import ClusterCase, Variant
from benchmarks.cluster_runs.load import Course
from benchmarks.cluster_runs.point import Job, Point
from tfhet.errors import DataError

RUN_LIMIT_S = 240.0


def measured(case: ClusterCase, variant: Variant, step_s: float, course: Course, channel: Path, folder: Path) -> Point:
    """Runs the variant in `folder`, with an accelerator whose step takes `step_s`. Raises JobFailed, or Stopped."""
    command = case.command(variant, step_s, course.steps)
    job = Job(case.cluster(variant.data_hosts, channel), command, folder, course, RUN_LIMIT_S)
    summary = job.run()
    # The hosts differ; what they have together is what a point counts.
    return job.point(summary, case.all_cpus(variant.data_hosts) / len(job.hosts))


def point_from_json(content: Mapping[str, Any], where: str) -> Point:
    """The inverse of `Point.to_json`. Raises DataError naming `where`."""
    try:
        return Point(**{**content, "windows_ms": tuple(map(float, content["windows_ms"]))})
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"{where}: a run in it cannot be read: {error!r}", where) from None
