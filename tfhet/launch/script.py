"""The training script of one rank: its command line and its environment."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tfhet.launch.assignment import Assignment
from tfhet.launch.settings import LaunchSettings
from tfhet.planes import LauncherSide
from tfhet.strategies import JobContext


def command_of(settings: LaunchSettings, arguments: Sequence[str]) -> list[str]:
    """The command of the script, or of the built-in trainer, with the arguments that are its own."""
    script = settings.train_script
    return [sys.executable, *([script] if script else ["-m", "tfhet.trainer"]), *arguments]


def environment_of(
    assignment: Assignment, side: LauncherSide, start: Mapping[str, Any], record: Path, timeline: Path | None
) -> dict[str, str]:
    """The variables of the script. start: the leader's message. record: folder of the run record. timeline: folder for
    the times of its steps; None: it does not note them. Raises ClusterError where this host cannot follow the order."""
    place, rank = assignment.place, assignment.place.rank
    assert rank is not None
    job = JobContext(
        job_id=str(start["job_id"]),
        mode=place.mode,
        rank=rank.rank,
        size=rank.size,
        local_rank=rank.local_rank,
        local_size=rank.local_size,
        plane=assignment.plane.name,
        order=start["plane"],
        strategy=assignment.strategy.name,
        seed=assignment.settings.job_seed,
        host=place.host,
        group=place.identity.current_group,
        output_dir=str(place.paths.output_data),
        record_dir=str(record),
        timeline_dir=None if timeline is None else str(timeline),
    )
    env = side.environment(start["plane"], {**place.env, **job.to_env(), "PYTHONUNBUFFERED": "1"})
    return assignment.strategy.environment(start["strategy"], place.host, rank, env)
