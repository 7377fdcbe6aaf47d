"""Cost of moving batches by a data plane, for the plan: the types, and the file that holds the measured numbers.

    CostFile.default().plane("feed").wire(19_000_000).reader_s_per_gb

A *server* is a process that prepares batches, and a *reader* a rank that receives them. Some planes have no servers.
`costs.json` in this package has round numbers; `tfhet plan --calibrate` measures them on the user's machine.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from tfhet.cluster import config_dir, environment
from tfhet.errors import DataError, UsageError
from tfhet.record import Interval, read_json, write_json
from tfhet.schema import from_json
from tfhet.units import GB

SCHEMA = 1
_SHIPPED = Path(__file__).with_name("costs.json")
_NOTHING = Interval.exact(0.0)


@dataclass(frozen=True)
class WireCost:
    """Cost of batches of one size between one server and one reader. A GB is 1e9 bytes of tensors."""

    reader_s_per_gb: Interval
    server_s_per_gb: Interval
    """CPU seconds of the server. The cost of preparing the batches is not included."""
    gb_per_s: Interval
    """Rate of batches that follow each other, with one in flight."""

    @classmethod
    def one_in_flight(cls, reader: Interval, server: Interval) -> WireCost:
        """Returns the cost if the server writes a batch first and the reader reads it after that."""
        return cls(reader, server, reader.plus(server).inverse())


def _no_wire(batch_bytes: int) -> WireCost:
    raise UsageError("this data plane moves no batches between hosts")


@dataclass(frozen=True)
class PlaneCosts:
    """All properties of a data plane that a plan uses; the default is a plane that moves no batches."""

    wire: Callable[[int], WireCost] = _no_wire
    """Returns the cost of batches of this number of bytes. Raises UsageError if it is unknown."""
    source: str = "nothing is moved"
    """Day, machine and origin of the costs."""
    request_s: Interval = _NOTHING
    """Seconds for the request for a batch and its answer between two hosts, without the batch itself."""
    most_servers_per_host: int = 0
    """Maximum number of servers on a host that a plan tries; 0 if the plane has none."""
    leader_cpus: Interval = _NOTHING
    """CPUs that the plane's processes use all the time on the leader's host, whatever is moved."""
    host_cpus: Interval = _NOTHING
    """The same for every other host."""
    is_needed: bool = False
    """Whether batches go through the plane even if there are no data hosts."""
    uses_all_hosts: bool = True
    """Whether hosts with ranks can prepare batches too, with all their spare CPUs, if there are data hosts."""


@dataclass(frozen=True)
class VcpuCost:
    """CPU time of the work in `bench/cpu_work.py` if all vCPUs of the machine are busy with it."""

    date: str
    machine: str
    source: str
    pass_ms: Interval
    """CPU milliseconds per pass."""


@dataclass(frozen=True)
class MovingCost:
    """Cost of moving batches by one data plane. CPU seconds of a side = s per batch x batches + s per GB x GB."""

    date: str
    machine: str
    source: str
    """The records or the command that measured the numbers."""
    reader_cpu_s_per_batch: Interval
    reader_cpu_s_per_gb: Interval
    server_cpu_s_per_batch: Interval
    server_cpu_s_per_gb: Interval
    request_s: Interval
    """See `PlaneCosts`; an assumption, because one machine has no network to measure."""
    leader_cpus: Interval = _NOTHING
    host_cpus: Interval = _NOTHING

    def __post_init__(self) -> None:
        if not self.reader_cpu_s_per_gb.low > 0 or not self.server_cpu_s_per_gb.low > 0:
            raise UsageError("the CPU seconds per GB of reader and server must be above 0")

    def wire(self, batch_bytes: int, *, is_prepared_ahead: bool = False) -> WireCost:
        """Returns the cost of batches of one size. is_prepared_ahead: the server writes a batch before the reader
        requests it, so only the reader limits the rate. Raises UsageError for batches without bytes."""
        if not batch_bytes > 0:
            raise UsageError(f"batches of {batch_bytes} bytes: give more than 0")
        batches = GB / batch_bytes
        reader = self.reader_cpu_s_per_batch.times(batches).plus(self.reader_cpu_s_per_gb)
        server = self.server_cpu_s_per_batch.times(batches).plus(self.server_cpu_s_per_gb)
        if is_prepared_ahead:
            return WireCost(reader, server, reader.inverse())
        return WireCost.one_in_flight(reader, server)

    def costs(self, *, is_prepared_ahead: bool = False, **properties: Any) -> PlaneCosts:
        """Returns the costs for a plan. properties: further fields of `PlaneCosts`."""
        return PlaneCosts(
            functools.partial(self.wire, is_prepared_ahead=is_prepared_ahead),
            f"{self.date}, {self.machine} ({self.source})",
            request_s=self.request_s,
            leader_cpus=self.leader_cpus,
            host_cpus=self.host_cpus,
            **properties,
        )

    def at_speed(self, speed: float) -> MovingCost:
        """Returns the cost on a machine whose vCPUs are `speed` times as fast."""
        changed: dict[str, Any] = {
            name: value.times(1 / speed).rounded()
            for name, value in vars(self).items()
            if isinstance(value, Interval) and name != "request_s"
        }
        return replace(self, source=f"{self.source}; CPU time divided by {speed:.3g}", **changed)


@dataclass(frozen=True)
class CostFile:
    """A file of costs, of the package or measured by `tfhet plan --calibrate`."""

    vcpu: VcpuCost
    planes: Mapping[str, MovingCost]
    """Costs by name of the data plane."""

    @classmethod
    def read(cls, path: Path) -> CostFile:
        """Raises UsageError for a missing file and another schema, and DataError for wrong fields."""
        document = read_json(path, "file of plan costs")
        if document.get("schema") != SCHEMA:
            raise UsageError(
                f"{path}: costs of schema {document.get('schema')}, and this tfhet reads schema {SCHEMA}; measure them "
                "again with `tfhet plan --calibrate`, or remove the file to use the costs of the package"
            )
        try:
            return from_json(cls, document, f"file of plan costs {path}")
        except UsageError as error:  # an interval
            raise DataError(f"{path}: {error}", str(path)) from None

    @classmethod
    def shipped(cls) -> CostFile:
        return cls.read(_SHIPPED)

    @classmethod
    def default(cls) -> CostFile:
        """Returns the costs that were measured on this machine, or the costs of the package."""
        path = own_path()
        return cls.read(path) if path is not None and path.is_file() else cls.shipped()

    def write(self, path: Path) -> Path:
        return write_json(path, {"schema": SCHEMA, **asdict(self)})

    def plane(self, name: str) -> MovingCost:
        """Returns the costs of a data plane. Raises UsageError if the file has none."""
        if name not in self.planes:
            raise UsageError(f"the file of plan costs lacks {name!r}; `tfhet plan --calibrate` makes a new one")
        return self.planes[name]


def own_path() -> Path | None:
    """Returns the path at which `tfhet plan --calibrate` writes; None if the user has no home folder."""
    try:
        return config_dir(environment()) / "costs.json"
    except (OSError, RuntimeError):
        return None
