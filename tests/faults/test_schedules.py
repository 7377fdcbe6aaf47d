"""Jobs under faults that are drawn from a seed, and the schedules that broke an invariant once.

TFHET_FAULT_SEED: the first seed (0). TFHET_FAULT_SEEDS: their number (1). A test's id names its seed.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from faults.invariants import is_stopped, judged, violations
from faults.job import EPOCHS, LEASE_S, READER, READY_S, WITNESS, FinishedJob, cluster_named, lacking, run_job
from faults.sabotage import busy_cpus
from faults.schedule import Aim, schedule
from tfhet.simulate import Fault

SEEDS = range(
    first := int(os.environ.get("TFHET_FAULT_SEED", "0")), first + int(os.environ.get("TFHET_FAULT_SEEDS", "1"))
)
GLOBAL_BATCH = 32
RAY_PATIENCE_S = 30.0
"""Seconds in which the agents of a killed node of Ray notice its end."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@dataclass(frozen=True)
class Setting:
    """How the jobs of some schedules are run."""

    plane: str
    hosts: str = "process"
    is_busy: bool = False
    """Whether other processes keep all CPUs busy."""
    is_ray_script: bool = False
    """Whether the job is one script for Ray, which has no audit."""

    @property
    def is_ray(self) -> bool:
        return self.plane == "ray"

    @property
    def length_s(self) -> float:
        """Seconds within which faults are done: about as long as a job trains; nodes of Ray take longer to start."""
        return 15.0 if self.is_ray else 5.0

    def arguments(self, ranks: int) -> list[str]:
        """Arguments of the launcher for a job of about 5 s of training."""
        ready_s, batch = 60.0 if self.is_ray else READY_S, GLOBAL_BATCH // ranks
        words = f"--lease_s {LEASE_S:g} --ready_timeout_s {ready_s:g} --step_ms 50 --batch_size {batch}"
        words += f" --epochs {EPOCHS} --data_plane {self.plane}"
        if self.plane == "feed":
            words += f" --data_host_processes 2 --train_script {READER} --reads feed"
        elif self.is_ray:
            words += f" --data_host_cpus 1 --train_script {READER}"
            words += " --strategy ray --reads cluster" if self.is_ray_script else " --strategy torch --reads ray"
        else:
            words += " --model emulated --shuffle 0 --chain none --validation none --export false --log_every 5"
            words += f" --train_script {WITNESS}"
        return words.split()

    def run(self, cluster_name: str, faults: tuple[Fault, ...], place: Path, **more: Any) -> FinishedJob:
        """Runs a job under `faults`."""
        cluster = cluster_named(cluster_name)
        ranks = 1 if self.is_ray_script else Aim.of(cluster, self.plane).ranks
        how: dict[str, Any] = {"hosts": self.hosts, **more}
        if self.is_ray:  # Ray's workers run at a low priority by default, and would starve on a busy machine
            how |= {"max_run_s": 300.0, "patience_s": RAY_PATIENCE_S, "variables": {"RAY_worker_niceness": "0"}}
        if self.is_ray or self.hosts == "namespace":
            how["start"] = "alone"
        with busy_cpus() if self.is_busy else contextlib.nullcontext():
            return run_job(cluster, self.arguments(ranks), place, faults, **how)

    def check(self, cluster_name: str, faults: tuple[Fault, ...], place: Path) -> FinishedJob:
        """Runs a job under `faults`, resumes it if it was stopped, and checks the invariants."""
        if missing := lacking(self.hosts, faults):
            pytest.skip(f"this machine lacks {', '.join(missing)}")
        print(f"{cluster_name}: {' '.join(map(str, faults))}")
        job, resumed = self.run(cluster_name, faults, place), None
        if self.plane == "tf_service" and is_stopped(job):
            resumed = self.run(cluster_name, (), place / "resumed", checkpoints=job.checkpoints)
        found = violations(job, judged(job, resumed), resumed, has_audit=not self.is_ray_script)
        assert found == [], f"exit codes {job.summary.exit_codes}: {job.summary.cause}"
        return job


SETTINGS = {
    "tf_service": Setting("tf_service"),
    "tf_service-busy": Setting("tf_service", is_busy=True),
    "tf_service-namespace": Setting("tf_service", hosts="namespace"),
    "feed": Setting("feed"),
    "feed-namespace": Setting("feed", hosts="namespace"),
    "ray": Setting("ray"),
    "ray-script": Setting("ray", is_ray_script=True),
}
REGRESSIONS = {
    # The renewed dispatcher was frozen, and then nothing listened at its port any more.
    "frozen-after-renewal": (
        "two-and-two",
        "kill:dispatcher:from=scripts:after=2.7",
        "hang:dispatcher:from=scripts:after=3.4",
        "kill:host@data-1:from=scripts:after=1.6",
    ),
    # The worker of the lost host lived on until its launcher thawed, and the epoch waited for what it had held.
    "thawed-after-loss": ("two-and-two", "hang:launcher@data-1:after=0.5:for=12"),
    # The worker of a host that was lost before the ranks read lived on, and the dispatcher was renewed for ever.
    "frozen-before-reading": ("two-and-two", "hang:launcher@data-1:from=scripts:after=0.3"),
    # The second job was alone, listened at the loopback address only, and did not find the leader's port in use.
    "alone-beside-the-leader": ("one-and-one", "second-job:dnn-1:after=2.6"),
    # Seed 80: the leader stood still while the ranks took their last steps; it ended with 0, the others with 1.
    "leader-frozen-at-the-end": (
        "one-and-one",
        "half-checkpoint:dnn-1",
        "clock=-5s:data-1:from=scripts:after=1.2",
        "hang:launcher@dnn-1:after=2.8:for=11",
    ),
}
"""Cluster and faults of schedules that broke an invariant once."""
RAY_REGRESSIONS = {
    # The rank ended with the node, and the cause was the last that Ray had said to it, of its connection.
    "node-of-a-rank": ("two-and-two", "kill:ray@dnn-2:after=1"),
    # Both losses have to be made good.
    "node-and-host": ("two-and-two", "kill:ray@data-1:from=scripts:after=4", "kill:host@data-2:after=6"),
}


def _marks(setting: Setting) -> list[pytest.MarkDecorator]:
    return [pytest.mark.ray] if setting.is_ray else [pytest.mark.horovod] * (setting.plane == "tf_service")


@pytest.mark.parametrize("seed", SEEDS, ids="seed{}".format)
@pytest.mark.parametrize(
    "setting", [pytest.param(setting, marks=_marks(setting), id=name) for name, setting in SETTINGS.items()]
)
def test_drawn(setting: Setting, seed: int, place: Path) -> None:
    name = ("one-and-one", "two-and-two")[seed % 2]
    aim = Aim.of(cluster_named(name), setting.plane, has_networks=setting.hosts == "namespace")
    setting.check(name, schedule(seed, aim, setting.length_s), place)


@pytest.mark.horovod
@pytest.mark.parametrize("name", REGRESSIONS)
def test_regression(name: str, place: Path) -> None:
    cluster, *faults = REGRESSIONS[name]
    SETTINGS["tf_service"].check(cluster, tuple(map(Fault.parse, faults)), place)


@pytest.mark.ray
@pytest.mark.parametrize("name", RAY_REGRESSIONS)
def test_ray_regression(name: str, place: Path) -> None:
    cluster, *faults = RAY_REGRESSIONS[name]
    job = SETTINGS["ray"].check(cluster, tuple(map(Fault.parse, faults)), place)
    if name == "node-of-a-rank":
        assert (job.summary.cause or "").startswith(f"ray on {job.hosts['dnn-2']} ended")
    else:
        assert job.summary.exit_code == 0
        assert (job.summary.restarts, list(job.summary.lost_hosts)) == (1, [job.hosts["data-2"]])
