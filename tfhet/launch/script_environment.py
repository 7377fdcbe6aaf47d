"""The variables of the training script of one rank."""

from __future__ import annotations

from pathlib import Path

from tfhet.launch.assignment import Assignment
from tfhet.messages import link
from tfhet.planes import LauncherSide
from tfhet.strategies import JobContext


def environment_of(
    assignment: Assignment, side: LauncherSide, start: link.Start, record: Path, timeline: Path | None
) -> dict[str, str]:
    """The variables of the script. start: the leader's order. record: folder of the run record. timeline: folder for
    the times of its steps; None: it does not write them. Raises ClusterError where this host cannot follow the
    order."""
    place, rank = assignment.place, assignment.place.rank
    assert rank is not None
    job = JobContext(
        job_id=start.job_id,
        mode=place.mode,
        rank=rank.rank,
        size=rank.size,
        local_rank=rank.local_rank,
        local_size=rank.local_size,
        plane=assignment.plane.name,
        order=start.plane,
        strategy=assignment.strategy.name,
        seed=assignment.settings.job_seed,
        host=place.host,
        group=place.identity.current_group,
        output_dir=str(place.paths.output_data),
        record_dir=str(record),
        timeline_dir=None if timeline is None else str(timeline),
    )
    env = side.environment(start.plane, {**place.env, **job.to_env(), "PYTHONUNBUFFERED": "1"})
    return assignment.strategy.environment(start.strategy, place.host, rank, env)
