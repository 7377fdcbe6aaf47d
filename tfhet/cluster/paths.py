"""The directories of a host, and of its user, that an environment names."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Mapping
from pathlib import Path

from tfhet.errors import UsageError


class HostPaths:
    """The directories of one host in SageMaker's layout; none is created here. `SM_MODEL_DIR`, `SM_OUTPUT_DATA_DIR`,
    `SM_OUTPUT_DIR`, `SM_INPUT_CONFIG_DIR` and `SM_CHANNEL_<NAME>` in `variables` win over the layout."""

    def __init__(self, base: Path, variables: Mapping[str, str] | None = None):
        self._variables = variables or {}
        self.base = base
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
        """Directory of an input channel, which need not exist."""
        return self._path(f"SM_CHANNEL_{name.upper()}", "input", "data", name)

    def _path(self, variable: str, *below: str) -> Path:
        given = self._variables.get(variable)
        return Path(given) if given else self.base.joinpath(*below)


def host_paths(env: Mapping[str, str]) -> HostPaths:
    """The paths of this host. The base directory is `SAGEMAKER_BASE_DIR`, or `/opt/ml`."""
    return HostPaths(Path(env.get("SAGEMAKER_BASE_DIR") or "/opt/ml"), env)


def cache_dir(env: Mapping[str, str]) -> Path:
    """Directory for files that tfhet can make again: `$XDG_CACHE_HOME/tfhet` if absolute, or `~/.cache/tfhet`."""
    return _user_dir(env, "XDG_CACHE_HOME", ".cache")


class Exposed(UsageError, PermissionError):
    """A folder in which other users may have added or changed files."""


def code_dir(env: Mapping[str, str], name: str) -> Path:
    """Makes the folder `name` of `cache_dir`, for code that this user's processes run. Raises like `own_folder`."""
    cache = cache_dir(env)
    for above in reversed(cache.parents):
        above.mkdir(mode=0o700, exist_ok=True)
    return own_folder(own_folder(cache) / name)


def own_folder(folder: Path) -> Path:
    """Makes a folder that only this user may enter, unless it exists, and returns it. Raises Exposed if another user
    (except root) can add files to it or replace it, and other OSErrors."""
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or not _is_trusted(found):
        raise Exposed(f"{folder}: others may put files there; remove it, or set XDG_CACHE_HOME to a folder of yours")
    for above in sorted({*folder.absolute().parents, *folder.resolve().parents} - {Path("/")}):
        if not _is_trusted(above.stat(), may_be_sticky=True):
            raise Exposed(
                f"{folder}: others may put files there, as they may rename what is in {above}; forbid that, or set "
                "XDG_CACHE_HOME to a folder of yours"
            )
    if found.st_mode & 0o077:
        for entry in folder.iterdir():
            with contextlib.suppress(FileNotFoundError):  # of a build that has ended
                if not entry.is_symlink() and not _is_trusted(entry.lstat()):
                    raise Exposed(f"{entry}: others may have written to it; remove it")
        if found.st_uid == os.geteuid():
            folder.chmod(0o700)
    return folder


def _is_trusted(found: os.stat_result, *, may_be_sticky: bool = False) -> bool:
    """Whether only this user and root can write to it; in a sticky folder, others cannot change their files."""
    may_write = found.st_mode & 0o022 and not (may_be_sticky and found.st_mode & stat.S_ISVTX)
    return found.st_uid in (0, os.geteuid()) and not may_write


def config_dir(env: Mapping[str, str]) -> Path:
    """Directory for the user's settings: `$XDG_CONFIG_HOME/tfhet`, or `~/.config/tfhet`; see `cache_dir`."""
    return _user_dir(env, "XDG_CONFIG_HOME", ".config")


def _user_dir(env: Mapping[str, str], variable: str, below_home: str) -> Path:
    given = Path(env.get(variable) or "")
    base = given if given.is_absolute() else Path(env.get("HOME") or Path.home()) / below_home
    return base / "tfhet"
