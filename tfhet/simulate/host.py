"""One simulated host: its directory, configuration files and variables, as SageMaker's toolkit lays them out.

And the backend of the hosts of a run, process trees or containers.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tfhet.cluster import DATA, HostPaths, Ports
from tfhet.process import Child


@dataclass(frozen=True)
class SimulatedHost:
    """A host of a simulated cluster."""

    name: str
    group: str
    instance_type: str
    address: str
    """Its own loopback address."""
    ports: Ports
    ranks: int
    """Number of ranks of this host; 1 where it does not train."""
    paths: HostPaths
    shared: tuple[str, ...] = ()
    """Names of the data plane's ports that are the leader's, the same on all hosts."""
    serves: bool = False
    """Whether processes of the data plane prepare batches here."""
    detour: tuple[int, ...] | None = None
    """The leader's ports, control and then the shared ones, as this host reaches them, where that is not directly."""
    role: str = DATA.name
    """Name of the role that its group has."""

    @property
    def leader_ports(self) -> tuple[int, ...]:
        """The leader's ports: control, and then the shared ones of the data plane."""
        return (self.ports.control, *(self.ports.plane[name][0] for name in self.shared))

    @property
    def sees(self) -> dict[str, str]:
        """Variables with the ports for its launchers."""
        ports = self.ports
        if self.detour is not None:
            others = {name: (port,) for name, port in zip(self.shared, self.detour[1:], strict=True)}
            ports = Ports(self.detour[0], {**ports.plane, **others})
        return ports.to_env(self.shared)

    def write(
        self,
        resource_config: Mapping[str, Any],
        channels: Mapping[str, Path],
        parameters: Mapping[str, str],
        modes: Mapping[str, str] | None = None,
    ) -> None:
        """Lays out the base directory, without `directories`. modes: input modes of channels; File for others."""
        paths = self.paths
        for directory in (paths.input_config, paths.input_data, paths.model, paths.output_data):
            directory.mkdir(parents=True, exist_ok=True)
        modes = modes or {}
        data = {name: {"TrainingInputMode": modes.get(name, "File"), "RecordWrapperType": "None"} for name in channels}
        _write(paths.input_config / "inputdataconfig.json", data)
        _write(paths.resource_config, resource_config)
        _write(paths.hyperparameters, parameters)

    def directories(self, channels: Mapping[str, Path], code: Path, checkpoints: Path | None) -> dict[Path, Path]:
        """Directories of this machine by their place below the host's base directory."""
        seen = {self.paths.channel(name): directory.resolve() for name, directory in channels.items()}
        seen[self.paths.code] = code.resolve()
        if checkpoints is None:
            self.paths.checkpoints.mkdir()
        else:
            checkpoints.mkdir(parents=True, exist_ok=True)
            seen[self.paths.checkpoints] = checkpoints.resolve()
        return seen

    def variables(
        self, resource_config: Mapping[str, Any], channels: Sequence[str], job: str, arguments: Sequence[str]
    ) -> dict[str, str]:
        """The `SM_*` variables that the toolkit gives an entry point on this host."""
        paths, groups = self.paths, resource_config["instance_groups"]
        by_name = {group["instance_group_name"]: group for group in groups}
        variables = {
            "SAGEMAKER_BASE_DIR": str(paths.base),
            "TRAINING_JOB_NAME": job,
            "SAGEMAKER_JOB_NAME": job,
            "CURRENT_HOST": self.name,
            "SM_CURRENT_HOST": self.name,
            "SM_HOSTS": json.dumps(resource_config["hosts"]),
            "SM_CURRENT_INSTANCE_TYPE": self.instance_type,
            "SM_CURRENT_INSTANCE_GROUP": self.group,
            "SM_CURRENT_INSTANCE_GROUP_HOSTS": json.dumps(by_name[self.group]["hosts"]),
            "SM_INSTANCE_GROUPS": json.dumps([group["instance_group_name"] for group in groups]),
            "SM_INSTANCE_GROUPS_DICT": json.dumps(by_name),
            "SM_IS_HETERO": "true" if len(groups) > 1 else "false",
            "SM_NETWORK_INTERFACE_NAME": resource_config["network_interface_name"],
            "SM_RESOURCE_CONFIG": json.dumps(resource_config),
            "SM_CHANNELS": json.dumps(sorted(channels)),
            "SM_INPUT_DIR": str(paths.base / "input"),
            "SM_INPUT_CONFIG_DIR": str(paths.input_config),
            "SM_OUTPUT_DIR": str(paths.base / "output"),
            "SM_OUTPUT_DATA_DIR": str(paths.base / "output" / "data"),
            "SM_MODEL_DIR": str(paths.base / "model"),
            "SM_USER_ARGS": json.dumps(list(arguments)),
            "SM_LOG_LEVEL": "20",
        }
        for name in channels:
            variables[f"SM_CHANNEL_{name.upper()}"] = str(paths.channel(name))
        return variables


OnLine = Callable[[str], Callable[[str], None]]
"""By host name, what takes its lines."""


class HostBackend(Protocol):
    """Starts the hosts of one run, does to them what faults ask for, and removes what is left of them."""

    hosts: Sequence[SimulatedHost]
    notes: list[str]
    """What the user should know of the limits."""
    starts_launchers: bool
    """Whether it starts the launchers themselves, not containers with launchers inside."""
    cuts_batches: bool
    """Whether `cut` stops batches between hosts too, not only the launchers' link."""

    @property
    def cgroups(self) -> Mapping[str, Any]:
        """Control groups by host name; empty where hosts have none."""

    async def open(self, channels: Mapping[str, Path]) -> None:
        """Makes what the hosts share. `channels`: directories of this machine. Raises UsageError."""

    async def start(self, host: SimulatedHost, children: dict[str, Child]) -> None:
        """Starts the processes of a host. Each is put into `children` when it runs: by label, `host` or `host/rank`."""

    def limit(self) -> None:
        """Imposes the limits of all hosts, also of hosts that start later."""

    def cut(self, hosts: Collection[str]) -> None:
        """Separates these hosts, by name, from all others."""

    def heal(self, hosts: Collection[str]) -> None:
        """Takes one `cut` of these hosts back."""

    async def impair(self, kind: str, host: str, amount: float | None) -> None:
        """Does a fault of a kind in `fault.IMPAIRMENTS` to a host."""

    def restore(self, kind: str, host: str) -> None:
        """Takes the `impair` of this kind back: the host has its own limits again."""

    async def connect(self, address: str, port: int) -> asyncio.StreamWriter:
        """A TCP connection from outside the cluster to a host. Raises OSError."""

    def cpu_s(self) -> dict[str, float]:
        """CPU seconds of each host so far, by name; empty where that is not known."""

    def facts(self) -> dict[str, Any]:
        """Fields of RunSummary that only the backend knows."""

    async def close(self) -> None:
        """Removes what `open` and `start` made; the processes have ended."""


def hyperparameters(command: Sequence[str], job: str) -> dict[str, str]:
    """The hyperparameters, each a JSON value as text, of a job that runs `command`: a file and `--NAME VALUE` words."""
    words = [*command[1:], ""]
    given = {name[2:]: value for name, value in zip(words, words[1:], strict=False) if name.startswith("--")}
    parameters = {"sagemaker_program": command[0], "sagemaker_job_name": job, **given}
    return {name: value if _is_json(value) else json.dumps(value) for name, value in parameters.items()}


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _write(path: Path, document: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(document, indent=1), encoding="utf-8")
