"""What a launcher tells the process of a rank when it starts it: the rank's place in the job, in one variable.

job = JobContext.from_env(environment())
job.rank, job.size           # also without a launcher, under mpirun or alone
job.plane, job.order         # how its batches come; the order is the data plane's own
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from tfhet.cluster import Rank, job_name
from tfhet.errors import ClusterError, shown
from tfhet.strategies.registry import AUTO, rank_of

JOB_VARIABLE = "TFHET_JOB"
LOCAL_PLANE = "local"
"""The data plane of a rank that prepares its own data."""
MODES = ("local", "homogeneous", "heterogeneous")


@dataclass(frozen=True)
class JobContext:
    """The place of one process in its job."""

    job_id: str
    """Unique name of the run."""
    mode: str
    """`local`, `homogeneous` or `heterogeneous`."""
    rank: int = 0
    size: int = 1
    """Number of training processes."""
    local_rank: int = 0
    local_size: int = 1
    """Number of training processes on this host."""
    plane: str = LOCAL_PLANE
    """Name of the data plane from which the rank reads."""
    order: Mapping[str, Any] = field(default_factory=dict)
    """What the data plane says to its readers; JSON values."""
    strategy: str = AUTO
    """Name of the strategy by which the ranks train together."""
    seed: int = 0
    """Seed of the whole run; every random number derives from it."""
    host: str = ""
    """Name of the host that the process runs on."""
    group: str = ""
    """Name of the host's group; "" when there are none."""
    output_dir: str | None = None
    """Folder of the job's results; None: the script decides."""
    record_dir: str | None = None
    """Folder of the run record; None: there is none."""
    timeline_dir: str | None = None
    """Folder in which a rank notes the times of its steps; None: it does not."""

    def __post_init__(self) -> None:
        _check(self)

    @property
    def is_served(self) -> bool:
        """Whether other processes prepare the data of this one."""
        return self.plane != LOCAL_PLANE

    def to_env(self) -> dict[str, str]:
        """The variable that `from_env` reads."""
        return {JOB_VARIABLE: json.dumps(asdict(self), sort_keys=True)}

    @classmethod
    def from_env(cls, env: Mapping[str, str]) -> JobContext:
        """The context that the launcher gave this process.

        Without a launcher: a local context, or a homogeneous one of the ranks that mpirun or horovodrun started.
        Raises ClusterError for a malformed variable, and for one inherited by processes that are other ranks than
        it says (they would all read the same share of the data).
        """
        rank = rank_of(env)
        text = env.get(JOB_VARIABLE)
        if not text:
            return cls._without_launcher(env, rank)
        job = cls._parse(text)
        if rank is not None and (rank.rank, rank.size) != (job.rank, job.size):
            raise ClusterError(
                f"{JOB_VARIABLE} says rank {job.rank} of {job.size}, but {rank.source} started this process as "
                f"rank {rank.rank} of {rank.size}; start the ranks with the tfhet launcher, or unset {JOB_VARIABLE}"
            )
        return job

    @classmethod
    def _parse(cls, text: str) -> JobContext:
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ClusterError(f"{JOB_VARIABLE}: not JSON ({error})") from error
        if not isinstance(value, dict):
            raise ClusterError(f"{JOB_VARIABLE}: expected a JSON object, got {text[:40]!r}")
        known = {field.name for field in fields(cls)}
        odd = sorted(set(value) - known) + sorted({"job_id", "mode"} - set(value))
        if odd:
            raise ClusterError(f"{JOB_VARIABLE}: unknown or missing key {odd[0]!r}; known: {', '.join(sorted(known))}")
        return cls(**value)

    @classmethod
    def _without_launcher(cls, env: Mapping[str, str], rank: Rank | None) -> JobContext:
        shared: dict[str, Any] = {
            "job_id": job_name(env) or "local",
            "host": env.get("SM_CURRENT_HOST") or socket.gethostname(),
            "group": env.get("SM_CURRENT_INSTANCE_GROUP", ""),
            "output_dir": env.get("SM_OUTPUT_DATA_DIR") or None,
        }
        if rank is None:
            return cls(mode="local", **shared)
        shared |= {"rank": rank.rank, "size": rank.size, "local_rank": rank.local_rank, "local_size": rank.local_size}
        return cls(mode="homogeneous", **shared)


def _check(job: JobContext) -> None:
    texts = (job.job_id, job.mode, job.host, job.group, job.plane, job.strategy)
    counts = (job.rank, job.size, job.local_rank, job.local_size)
    if not all(isinstance(t, str) for t in texts) or not job.job_id or not job.plane:
        raise ClusterError(f"job: job_id, mode, host, group, plane and strategy must be text, got {_listed(texts)}")
    if job.mode not in MODES:
        raise ClusterError(f"job: unknown mode {shown(job.mode)}; known: {', '.join(MODES)}")
    if not all(isinstance(c, int) and not isinstance(c, bool) and c >= 0 for c in counts):
        raise ClusterError(f"job: ranks and sizes must be numbers >= 0, got {_listed(counts)}")
    if not isinstance(job.seed, int) or isinstance(job.seed, bool):
        raise ClusterError(f"job: seed must be an integer, got {shown(job.seed)}")
    if not isinstance(job.order, Mapping):
        raise ClusterError(f"job: order must be an object, got {shown(job.order)}")
    for name in ("output_dir", "record_dir", "timeline_dir"):
        if not isinstance(getattr(job, name), (str, type(None))):
            raise ClusterError(f"job: {name} must be text or null, got {shown(getattr(job, name))}")
    Rank(job.rank, job.size, job.local_rank, job.local_size, "the job")


def _listed(values: Iterable[object]) -> str:
    return ", ".join(map(shown, values))
