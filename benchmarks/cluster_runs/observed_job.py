"""A simulated job under observation: when its steps were taken, which hosts are meant, what it leaves behind."""

from __future__ import annotations

import contextlib
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from benchmarks.cluster_runs.stopped import unless_stopped
from tfhet.clock import SYSTEM, Clock
from tfhet.cluster import environment
from tfhet.messages import EpochLine, MetricLine, parse_line
from tfhet.record import RunSummary
from tfhet.simulate import ClusterFile, Fault
from tfhet.simulate.host import SimulatedHost, hosts_named
from tfhet.simulate.simulation import Simulation

WITNESS_VARIABLE = "TFHET_WITNESS"
"""Tells `job_scripts/witness_train.py` a folder that is none of the host's own, which a fault may fill."""


@dataclass(frozen=True)
class Moment:
    """A line of rank 0, as it was heard."""

    at_s: float
    """On the clock."""
    step: int
    """Steps taken by then; 0 where the line does not say."""
    epoch: int


class ObservedJob(Simulation):
    """One run of a job in `place`, a new folder, which also holds the job's temporary files, and its checkpoints unless
    `checkpoints` says where they are.
    """

    def __init__(
        self,
        cluster: ClusterFile,
        command: Sequence[str],
        place: Path,
        *,
        faults: Sequence[Fault] = (),
        checkpoints: Path | None = None,
        max_run_s: float = 120.0,
        variables: Mapping[str, str] = MappingProxyType({}),
        clock: Clock = SYSTEM,
        **how: Any,
    ):
        """variables: further ones of its environment. how: see `Simulation`."""
        self.temporary = place / "tmp"
        """Where its processes put what they call temporary."""
        self.checkpoints = checkpoints or place / "checkpoints"
        self.steps: list[Moment] = []
        self.epoch_ends: list[Moment] = []
        self.on_first_step: Callable[[], None] = lambda: None
        """Called once, when the first metric line has come."""
        self._clock = clock
        self.temporary.mkdir(parents=True)
        env = {**environment(), **variables, "TMPDIR": str(self.temporary.resolve())}
        if how.get("hosts") != "namespace":  # containers see only their own folders
            env[WITNESS_VARIABLE] = str((place / "run" / "witness").resolve())
        super().__init__(
            cluster,
            command,
            place / "run",
            max_run_s=max_run_s,
            checkpoints=self.checkpoints,
            faults=faults,
            on_line=self.hear,
            env=env,
            **how,
        )

    def run(self) -> RunSummary:
        """As ever; raises Stopped when this process was told to stop meanwhile, which ends the suite."""
        return unless_stopped(super().run())

    def hear(self, line: str) -> None:
        """Takes note of a line of the job."""
        said = parse_line(line)
        if isinstance(said, MetricLine):
            self.steps.append(Moment(self._clock.monotonic(), said.step, said.epoch))
            if len(self.steps) == 1:
                self.on_first_step()
        elif isinstance(said, EpochLine):
            self.epoch_ends.append(Moment(self._clock.monotonic(), 0, int(said.numbers["epoch"])))

    def named(self, place: str) -> list[SimulatedHost]:
        """The hosts that `data-1`, `dnn-2` or a host's own name stands for; all for ""."""
        return hosts_named(self.hosts, place)

    def launchers(self) -> dict[str, int]:
        """Process ids of the launchers, by label, as far as they were started."""
        return {label: child.pid for label, child in self._children.items()}


@contextlib.contextmanager
def new_place(prefix: str, *, keep: bool = False) -> Iterator[Path]:
    """A new folder for runs, which is gone afterwards unless it is to be kept: also where SIGTERM ends the suite."""
    place = Path(tempfile.mkdtemp(prefix=f"tfhet-bench-{prefix}-"))
    before = signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        yield place
    finally:
        if not keep:
            shutil.rmtree(place, ignore_errors=True)
        signal.signal(signal.SIGTERM, before)
