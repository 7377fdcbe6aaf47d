"""The directories of a host, and of its user, that an environment names."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path


class HostPaths:
    """The directories of one host, in SageMaker's layout; none is created here. `SM_MODEL_DIR`, `SM_OUTPUT_DATA_DIR`,
    `SM_OUTPUT_DIR`, `SM_INPUT_CONFIG_DIR` and `SM_CHANNEL_<NAME>` win over the layout where `variables` holds them: a
    user's script reads those, so both have to mean the same place."""

    def __init__(self, base: Path, variables: Mapping[str, str] | None = None):
        self._variables = variables or {}
        self.base = base
        """The job's base directory, `/opt/ml` on SageMaker."""
        self.input_config = self._path("SM_INPUT_CONFIG_DIR", "input", "config")
        self.resource_config = self.input_config / "resourceconfig.json"
        self.hyperparameters = self.input_config / "hyperparameters.json"
        self.input_data = base / "input" / "data"
        """Directory that holds one directory per channel."""
        self.model = self._path("SM_MODEL_DIR", "model")
        """Its content becomes model.tar.gz when the job ends."""
        self.output = self._path("SM_OUTPUT_DIR", "output")
        self.output_data = self._path("SM_OUTPUT_DATA_DIR", "output", "data")
        """Its content becomes output.tar.gz when the job ends."""
        self.failure = self.output / "failure"
        """The file whose first 1,024 characters become the job's FailureReason."""
        self.checkpoints = base / "checkpoints"
        """Synchronised with S3 while the job runs, and restored before a restart."""
        self.code = base / "code"
        """Working directory of the entry point."""

    def channel(self, name: str) -> Path:
        """Directory of an input channel; need not exist."""
        return self._path(f"SM_CHANNEL_{name.upper()}", "input", "data", name)

    def _path(self, variable: str, *below: str) -> Path:
        given = self._variables.get(variable)
        return Path(given) if given else self.base.joinpath(*below)


def host_paths(env: Mapping[str, str]) -> HostPaths:
    """The paths of this host, under its base directory unless an `SM_*` variable says otherwise. The base directory is
    `SAGEMAKER_BASE_DIR`, or `/opt/ml`: the same rule as in sagemaker_training.environment."""
    return HostPaths(Path(env.get("SAGEMAKER_BASE_DIR") or "/opt/ml"), env)


def cache_dir(env: Mapping[str, str]) -> Path:
    """Directory for files that tfhet can make again: `$XDG_CACHE_HOME/tfhet`, or `~/.cache/tfhet`. A relative
    `XDG_CACHE_HOME` is ignored, as the XDG base directory specification asks."""
    return _user_dir(env, "XDG_CACHE_HOME", ".cache")


def code_dir(env: Mapping[str, str], name: str) -> Path:
    """The folder `name` of `cache_dir`, for code that this user's processes load or run; makes it. Raises
    PermissionError where another user owns it or may write to it (root's are trusted), and other OSErrors."""
    folder = cache_dir(env) / name
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if found.st_uid not in (0, os.geteuid()) or found.st_mode & 0o022 or not stat.S_ISDIR(found.st_mode):
        raise PermissionError(
            f"{folder}: others may put code there; remove it, or set XDG_CACHE_HOME to a folder of yours"
        )
    return folder


def config_dir(env: Mapping[str, str]) -> Path:
    """Directory for the user's own settings: `$XDG_CONFIG_HOME/tfhet`, or `~/.config/tfhet`; see `cache_dir`."""
    return _user_dir(env, "XDG_CONFIG_HOME", ".config")


def _user_dir(env: Mapping[str, str], variable: str, below_home: str) -> Path:
    given = Path(env.get(variable) or "")
    base = given if given.is_absolute() else Path(env.get("HOME") or Path.home()) / below_home
    return base / "tfhet"
