"""The process's environment, and the directories that it names.

Only this module reads `os.environ`; all other code is given a mapping.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tfhet.errors import ClusterError


@dataclass(frozen=True)
class HostPaths:
    """The directories of one host, in SageMaker's layout. Nothing is created here.

    `SM_MODEL_DIR`, `SM_OUTPUT_DATA_DIR`, `SM_OUTPUT_DIR`, `SM_INPUT_CONFIG_DIR` and `SM_CHANNEL_<NAME>` win over
    the layout where `variables` holds them: a user's script reads those, so both have to mean the same place.
    """

    base: Path
    """The job's base directory, `/opt/ml` on SageMaker."""
    variables: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    """The environment that may override single paths."""

    def _path(self, variable: str, *below: str) -> Path:
        given = self.variables.get(variable)
        return Path(given) if given else self.base.joinpath(*below)

    @property
    def input_config(self) -> Path:
        """Directory of the job's description files."""
        return self._path("SM_INPUT_CONFIG_DIR", "input", "config")

    @property
    def resource_config(self) -> Path:
        """The file that describes the cluster."""
        return self.input_config / "resourceconfig.json"

    @property
    def hyperparameters(self) -> Path:
        return self.input_config / "hyperparameters.json"

    @property
    def input_data(self) -> Path:
        """Directory that holds one directory per channel."""
        return self.base / "input" / "data"

    def channel(self, name: str) -> Path:
        """Directory of an input channel; need not exist."""
        return self._path(f"SM_CHANNEL_{name.upper()}", "input", "data", name)

    @property
    def model(self) -> Path:
        """Its content becomes model.tar.gz when the job ends."""
        return self._path("SM_MODEL_DIR", "model")

    @property
    def output(self) -> Path:
        return self._path("SM_OUTPUT_DIR", "output")

    @property
    def output_data(self) -> Path:
        """Its content becomes output.tar.gz when the job ends."""
        return self._path("SM_OUTPUT_DATA_DIR", "output", "data")

    @property
    def failure(self) -> Path:
        """The file whose first 1,024 characters become the job's FailureReason."""
        return self.output / "failure"

    @property
    def checkpoints(self) -> Path:
        """Synchronised with S3 while the job runs, and restored before a restart."""
        return self.base / "checkpoints"

    @property
    def code(self) -> Path:
        """Working directory of the entry point."""
        return self.base / "code"


def environment() -> Mapping[str, str]:
    """The variables of this process, as a copy: later changes of `os.environ` are not seen."""
    return dict(os.environ)


def base_dir(env: Mapping[str, str]) -> Path:
    """The job's base directory: `SAGEMAKER_BASE_DIR`, or `/opt/ml`. Same rule as sagemaker_training.environment."""
    return Path(env.get("SAGEMAKER_BASE_DIR") or "/opt/ml")


def host_paths(env: Mapping[str, str]) -> HostPaths:
    """The paths of this host, under its base directory unless an `SM_*` variable says otherwise."""
    return HostPaths(base_dir(env), env)


def cache_dir(env: Mapping[str, str]) -> Path:
    """Directory for files that tfhet can make again: `$XDG_CACHE_HOME/tfhet`, or `~/.cache/tfhet`.

    A relative `XDG_CACHE_HOME` is ignored, as the XDG base directory specification asks.
    """
    return _user_dir(env, "XDG_CACHE_HOME", ".cache")


def config_dir(env: Mapping[str, str]) -> Path:
    """Directory for the user's own settings: `$XDG_CONFIG_HOME/tfhet`, or `~/.config/tfhet`; see `cache_dir`."""
    return _user_dir(env, "XDG_CONFIG_HOME", ".config")


def _user_dir(env: Mapping[str, str], variable: str, below_home: str) -> Path:
    given = Path(env.get(variable) or "")
    if given.is_absolute():
        return given / "tfhet"
    return Path(env.get("HOME") or Path.home()) / below_home / "tfhet"


def job_name(env: Mapping[str, str]) -> str:
    """The training job's name, equal on every host of a job; "" when there is none.

    The platform sets `TRAINING_JOB_NAME`. Ranks that another program starts on other hosts may lack it and have the
    `SM_*` variables of the first host instead, so the same name is looked up there.
    """
    if env.get("TRAINING_JOB_NAME"):
        return env["TRAINING_JOB_NAME"]
    try:
        name = (json_variable(env, "SM_TRAINING_ENV", dict) or {}).get("job_name")
    except ClusterError:
        name = None
    return name if isinstance(name, str) and name else env.get("SAGEMAKER_JOB_NAME", "")


def parse_json(text: str | bytes, where: str) -> object:
    """The JSON value in `text`. Raises ClusterError naming `where` when it is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ClusterError(f"{where}: not JSON ({error})") from error


def json_variable(env: Mapping[str, str], name: str, kind: type) -> Any:
    """The JSON object (`dict`) or list in a variable, None where it is not set. Raises ClusterError naming it."""
    text = env.get(name)
    value = parse_json(text, name) if text else None
    if text and not isinstance(value, kind):
        raise ClusterError(f"{name}: expected a JSON {'object' if kind is dict else 'list'}")
    return value
