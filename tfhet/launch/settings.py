"""The launcher's own arguments. What it does not know goes to the training script, as it came."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from dataclasses import dataclass, fields

from tfhet.errors import UsageError

_NAMESPACE = re.compile(r"(?!AWS/)[A-Za-z0-9._/#:-]{1,255}")
"""What CloudWatch takes as one."""


@dataclass(frozen=True)
class LaunchSettings:
    """How to run the job. Every field is an argument `--NAME VALUE`, the same on every host."""

    train_script: str = ""
    """Python file that every rank runs. Empty: the built-in trainer, `python -m tfhet.trainer`."""
    data_group: str = ""
    """Name of the group that prepares data. Empty: `data_group`, if the job has one."""
    dnn_group: str = ""
    """Name of the group that trains. Empty: `dnn_group`, or the only group."""
    data_host_workers: int = 1
    """tf.data service workers on each data host."""
    dnn_host_workers: int = 0
    """tf.data service workers on each dnn host."""
    processes_per_host: int = 0
    """Number of ranks that a dnn host starts if neither mpirun nor horovodrun starts them. 0: one per GPU, at least
    1."""
    reserve_cpus: int = -1
    """Number of CPUs of a dnn host that its workers leave to the training. 0: none. -1: as many as the training is
    measured to use."""
    control_port: int = 16000
    """TCP port of the leader, to which the other launchers connect."""
    dispatcher_port: int = 6000
    """TCP port of the tf.data service dispatcher."""
    worker_port: int = 6001
    """TCP port of a host's first worker. Further workers take the next ports."""
    lease_s: float = 10.0
    """Seconds without a message from the job after which a host ends itself."""
    ready_timeout_s: float = 300.0
    """Maximum seconds until all hosts have joined and all workers are ready."""
    stall_timeout_s: float = 1800.0
    """Seconds without a step of the built-in trainer after which the job has failed. 0: no limit."""
    on_data_loss: str = "stop"
    """What happens when the last host that serves data is lost: `stop` ends the job, `local` lets the built-in trainer
    continue with local pipelines."""
    timeline: str = "hosts"
    """Detail of the timeline: `hosts` (usage of processes and hosts, once a second), `steps` (also every training step)
    or `off`."""
    emf_namespace: str = ""
    """CloudWatch namespace under which metric lines are printed again in the embedded metric format. Empty: they are
    not."""
    metrics_port: int = 0
    """TCP port of each host's Prometheus endpoint. Local rank N listens on this port + N. 0: no endpoint."""
    job_seed: int = 0
    """Seed from which every random number of the job derives."""

    def __post_init__(self) -> None:
        for name in ("data_host_workers", "dnn_host_workers", "processes_per_host"):
            if not 0 <= getattr(self, name) <= 256:
                raise UsageError(f"--{name} must be between 0 and 256, not {getattr(self, name)}")
        if self.reserve_cpus < -1:
            raise UsageError(f"--reserve_cpus {self.reserve_cpus}: give a number of CPUs, or -1 to have it measured")
        if not self.stall_timeout_s >= 0:
            raise UsageError(f"--stall_timeout_s must not be negative: {self.stall_timeout_s}; 0 switches it off")
        if self.on_data_loss not in ("stop", "local"):
            raise UsageError(f"--on_data_loss {self.on_data_loss!r} is unknown; known: stop, local")
        if self.timeline not in ("off", "hosts", "steps"):
            raise UsageError(f"--timeline {self.timeline!r} is unknown; known: off, hosts, steps")
        if self.emf_namespace and not _NAMESPACE.fullmatch(self.emf_namespace):
            raise UsageError(
                f"--emf_namespace {self.emf_namespace!r}: give 1 to 255 letters, digits and . - _ / # :, and no name "
                "that begins with AWS/"
            )
        if not 0 <= self.metrics_port <= 65535:
            raise UsageError(f"--metrics_port {self.metrics_port} is no TCP port; 0 switches it off")
        for name in ("lease_s", "ready_timeout_s"):
            if not getattr(self, name) > 0:
                raise UsageError(f"--{name} must be positive, not {getattr(self, name)}")

    @classmethod
    def parse(cls, argv: Sequence[str]) -> tuple[LaunchSettings, list[str]]:
        """The settings, and the arguments left for the training script. Raises UsageError."""
        parser = argparse.ArgumentParser(prog="launcher.py", exit_on_error=False, allow_abbrev=False, add_help=False)
        for item in fields(cls):
            kind = {"int": int, "float": float, "str": str}[str(item.type)]
            names = {f"--{item.name}", f"--{item.name.replace('_', '-')}"}
            parser.add_argument(*sorted(names), dest=item.name, type=kind, default=item.default)
        # The secret may come as a hyperparameter; it is read from the environment and goes no further.
        parser.add_argument("--tfhet_secret", "--tfhet-secret", dest="secret", default="")
        try:
            known, rest = parser.parse_known_args(list(argv))
        except argparse.ArgumentError as error:
            raise UsageError(f"launcher: {error}") from None
        values = vars(known)
        values.pop("secret")
        return cls(**values), rest
