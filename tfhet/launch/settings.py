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
    """Python file to run on every rank; "": the built-in trainer (`python -m tfhet.trainer`)."""
    data_group: str = ""
    """Name of the group that prepares data; "": `data_group`, where there is one."""
    dnn_group: str = ""
    """Name of the group that trains; "": `dnn_group`, or the only group."""
    data_host_workers: int = 1
    """tf.data service workers on each data host."""
    dnn_host_workers: int = 0
    """tf.data service workers on each dnn host."""
    processes_per_host: int = 0
    """Ranks that a dnn host starts where neither mpirun nor horovodrun starts them; 0: as many as it has GPUs, at least
    1."""
    reserve_cpus: int = -1
    """CPUs of a dnn host that its workers keep off; 0: none; -1: as many as the training is measured to use."""
    control_port: int = 16000
    dispatcher_port: int = 6000
    worker_port: int = 6001
    """Port of a host's first worker; the next ones follow."""
    lease_s: float = 10.0
    """A host that hears nothing of the job for so long ends itself."""
    ready_timeout_s: float = 300.0
    """How long all hosts and workers may take to come up."""
    stall_timeout_s: float = 1800.0
    """A job whose built-in trainer takes no step for so long has failed; 0: never."""
    on_data_loss: str = "stop"
    """What to do when the last host that serves data is lost: `stop` the job, or go on with `local` pipelines."""
    timeline: str = "hosts"
    """What is noted of where the time goes: what the `hosts` use, once a second, the `steps` too, or nothing: `off`."""
    emf_namespace: str = ""
    """CloudWatch namespace of the metric lines, written once more in its embedded metric format; "": they are not."""
    metrics_port: int = 0
    """Port at which the launcher of a host answers Prometheus, the one of local rank N at N more; 0: none does."""
    job_seed: int = 0
    """Every random number of the job derives from it."""

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
