"""The launcher's own arguments. It passes those that neither it nor the data plane knows on to the training script."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from tfhet import arguments, planes, strategies
from tfhet.cluster import CONTROL_PORT, DATA, DNN
from tfhet.errors import UsageError
from tfhet.schema import MAX_SECONDS, Seconds, matching, number, one_of, whole

_NAMESPACE = matching(r"(?!AWS/)[A-Za-z0-9._/#:-]*", "letters, digits and . - _ / # :, and not begin with AWS/", 255)
"""Namespaces that CloudWatch accepts."""


@dataclass(frozen=True)
class LaunchSettings:
    """How to run the job. Every field is an argument `--NAME VALUE`, the same on every host."""

    train_script: str = ""
    """Python file that every rank runs. Empty: the built-in trainer, `python -m tfhet.trainer`."""
    data_group: str = ""
    """Name of the group that prepares data. Empty: `data_group`, if the job has one."""
    dnn_group: str = ""
    """Name of the group that trains; "": `dnn_group`, or the only group."""
    data_plane: str = planes.AUTO
    """How batches come to the ranks: the name of a data plane; `auto`: the first that has hosts to serve."""
    strategy: str = strategies.AUTO
    """How ranks train together: the name of a strategy; `auto`: by the number of ranks."""
    processes_per_host: Annotated[int, whole(0, 256)] = 0
    """Number of ranks that a dnn host starts where nothing else starts them; 0: as many as it has GPUs, at least 1."""
    control_port: int = CONTROL_PORT
    """Port of the leader, to which all other launchers connect."""
    lease_s: Seconds = 10.0
    """Seconds after which a host that hears nothing of the job ends itself."""
    ready_timeout_s: Seconds = 300.0
    """Seconds that all hosts and their processes may take to become ready."""
    stall_timeout_s: Annotated[float, number(0.0, MAX_SECONDS)] = 1800.0
    """Seconds without a step of the trainer, or of a script that reads by tfhet, before the job fails; 0: never."""
    on_data_loss: Annotated[str, one_of(("stop", "local"))] = "stop"
    """After the loss of the last serving host: `stop` ends the job, with `local` the built-in trainer continues."""
    check_weights: Annotated[str, one_of(("on", "off"))] = "on"
    """Whether a job fails whose ranks' weights drift apart; `off`: for ranks that train different models on purpose."""
    timeline: Annotated[str, one_of(("hosts", "steps", "off"))] = "hosts"
    """Timeline detail: `hosts` (usage once a second), `steps` (also every training step) or `off`."""
    emf_namespace: Annotated[str, _NAMESPACE] = ""
    """CloudWatch namespace in which metric lines are printed once more, in embedded metric format; "": they are not."""
    metrics_port: Annotated[int, whole(0, 65535)] = 0
    """Port of the Prometheus endpoint; local rank N listens on this port + N. 0 disables the endpoint."""
    job_seed: int = 0
    """Seed from which every random number of the job derives."""
    planes: Mapping[str, Any] = field(default_factory=dict, metadata=arguments.NOT_AN_ARGUMENT)
    """Settings of the data planes among which the job chooses, by name."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "data_plane", self._plane())
        candidates = planes.candidates(self.data_plane)
        given = {plane.name: self.planes.get(plane.name) or plane.settings() for plane in candidates}
        object.__setattr__(self, "planes", given)
        if self.on_data_loss == "local" and not any(plane.goes_local for plane in candidates):
            raise UsageError(
                f"--on_data_loss local with --data_plane {self.data_plane}: no rank prepares its own data there; omit "
                "it, and the job ends with the cause when its last data host is lost"
            )

    def _plane(self) -> str:
        """The name of the data plane, which the strategy may determine. Raises UsageError where it allows no other."""
        only = "" if self.strategy == strategies.AUTO else strategies.get(self.strategy).plane
        if only and self.data_plane not in (planes.AUTO, only):
            raise UsageError(
                f"--strategy {self.strategy} with --data_plane {self.data_plane}: its script runs on the data plane "
                f"{only!r}, and on no other; omit --data_plane"
            )
        return only or self.data_plane

    @property
    def groups(self) -> dict[str, str]:
        """The names of groups that were given, by role."""
        return {DATA.name: self.data_group, DNN.name: self.dnn_group}

    @classmethod
    def parse(cls, argv: Sequence[str]) -> tuple[LaunchSettings, list[str]]:
        """The settings, and the arguments left for the training script. Raises UsageError."""
        settings, rest = arguments.parse(cls, strategies.translated(argv), "launcher")
        # The secret may come as a hyperparameter; it is read from the environment, and the script does not get it.
        _, rest = arguments.parse(_Secret, rest, "launcher")
        of_planes: dict[str, Any] = {}
        for plane in planes.candidates(settings.data_plane):
            of_planes[plane.name], rest = arguments.parse(plane.settings, rest, "launcher")
        if settings.strategy != strategies.AUTO:
            strategies.get(settings.strategy)
        return replace(settings, planes=of_planes), rest


@dataclass(frozen=True)
class _Secret:
    tfhet_secret: str = ""
