"""The place of a rank in its job, which a launcher passes to the rank's process in one variable."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from tfhet.cluster import Rank, job_name, json_variable
from tfhet.errors import ClusterError
from tfhet.schema import Text, from_json
from tfhet.strategies.registry import AUTO, rank_of, source_of

JOB_VARIABLE = "TFHET_JOB"
LOCAL_PLANE = "local"
"""The data plane of a rank that prepares its own data."""


@dataclass(frozen=True)
class JobContext:
    """The place of one process in its job."""

    job_id: Text
    """Unique name of the run."""
    mode: Literal["local", "homogeneous", "heterogeneous"]
    rank: int = 0
    size: int = 1
    local_rank: int = 0
    local_size: int = 1
    plane: Text = LOCAL_PLANE
    """Name of the data plane from which the rank reads."""
    order: Mapping[str, Any] = field(default_factory=dict)
    """The data plane's message to its readers; JSON values."""
    strategy: str = AUTO
    seed: int = 0
    """Seed of the whole run; every random number derives from it."""
    host: str = ""
    group: str = ""
    """Name of the host's group; "" when there are none."""
    output_dir: str | None = None
    """Folder of the job's results; None: the script decides."""
    record_dir: str | None = None
    """Folder of the run record; None: there is none."""
    timeline_dir: str | None = None
    """Folder in which a rank notes the times of its steps; None: it does not."""
    checks_weights: bool = False
    """Whether the rank sends samples of its weights, which the leader compares."""

    def __post_init__(self) -> None:
        Rank(self.rank, self.size, self.local_rank, self.local_size, "the job")

    @property
    def is_served(self) -> bool:
        """Whether other processes prepare the data of this one."""
        return self.plane != LOCAL_PLANE

    @property
    def threads(self) -> int:
        """This rank's share of the host's cores for its data: their number divided by `local_size`, at least 1."""
        return max(1, (os.cpu_count() or 1) // self.local_size)

    def to_env(self) -> dict[str, str]:
        """The variable that `from_env` reads."""
        return {JOB_VARIABLE: json.dumps(asdict(self), sort_keys=True)}

    @classmethod
    def from_env(cls, env: Mapping[str, str]) -> JobContext:
        """The context that the launcher gave this process; without a launcher a local one, or a homogeneous one of the
        ranks that mpirun, horovodrun or torchrun started. Raises ClusterError for a malformed variable, and for one
        inherited by a process that is another rank than it says (several would read the same share of the data)."""
        if not env.get(JOB_VARIABLE):
            return cls._without_launcher(env)
        job = from_json(cls, json_variable(env, JOB_VARIABLE), JOB_VARIABLE, is_strict=True, error=ClusterError)
        rank = rank_of(env, job.strategy)
        if rank is not None and (rank.rank, rank.size) != (job.rank, job.size):
            raise ClusterError(
                f"{JOB_VARIABLE} says rank {job.rank} of {job.size}, but {rank.source} started this process as "
                f"rank {rank.rank} of {rank.size}; start the ranks with the tfhet launcher, or unset {JOB_VARIABLE}"
            )
        return job

    @classmethod
    def _without_launcher(cls, env: Mapping[str, str]) -> JobContext:
        rank = rank_of(env)
        place = rank or Rank(0, 1, 0, 1, "alone")
        strategy = source_of(rank).strategy if rank else ""
        return cls(
            job_id=job_name(env) or "local",
            mode="local" if rank is None else "homogeneous",
            rank=place.rank,
            size=place.size,
            local_rank=place.local_rank,
            local_size=place.local_size,
            strategy=strategy or AUTO,
            host=env.get("SM_CURRENT_HOST") or socket.gethostname(),
            group=env.get("SM_CURRENT_INSTANCE_GROUP", ""),
            output_dir=env.get("SM_OUTPUT_DATA_DIR") or None,
        )
