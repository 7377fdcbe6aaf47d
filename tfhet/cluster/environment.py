"""The process's environment. The only place that reads `os.environ`; everybody else is given a mapping."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from tfhet.cluster.paths import HostPaths

DEFAULT_BASE = Path("/opt/ml")
"""Where SageMaker puts a job's files."""


def environment() -> Mapping[str, str]:
    """The variables of this process, as a copy: later changes of `os.environ` are not seen."""
    return dict(os.environ)


def base_dir(env: Mapping[str, str]) -> Path:
    """The job's base directory: `SAGEMAKER_BASE_DIR`, or `/opt/ml`. Same rule as sagemaker_training.environment."""
    return Path(env.get("SAGEMAKER_BASE_DIR") or DEFAULT_BASE)


def cache_dir(env: Mapping[str, str]) -> Path:
    """Where tfhet may keep what it can make again: `$XDG_CACHE_HOME/tfhet`, or `~/.cache/tfhet`.

    A relative `XDG_CACHE_HOME` is ignored, as the XDG base directory specification asks.
    """
    return _user_dir(env, "XDG_CACHE_HOME", ".cache")


def config_dir(env: Mapping[str, str]) -> Path:
    """Where a user may write what tfhet is to know: `$XDG_CONFIG_HOME/tfhet`, or `~/.config/tfhet`; as `cache_dir`."""
    return _user_dir(env, "XDG_CONFIG_HOME", ".config")


def _user_dir(env: Mapping[str, str], variable: str, below_home: str) -> Path:
    given = Path(env.get(variable) or "")
    if given.is_absolute():
        return given / "tfhet"
    home = Path(env["HOME"]) if env.get("HOME") else Path.home()
    return home / below_home / "tfhet"


def host_paths(env: Mapping[str, str]) -> HostPaths:
    """The paths of this host, under its base directory unless an `SM_*` variable says otherwise."""
    return HostPaths(base_dir(env), env)


def job_name(env: Mapping[str, str]) -> str:
    """The training job's name, equal on every host of a job; "" when there is none.

    `TRAINING_JOB_NAME` is set by the platform. Ranks that a launcher of another make starts on other hosts may lack it
    and have the `SM_*` variables of the first host instead, so the same name is looked up there.
    """
    if env.get("TRAINING_JOB_NAME"):
        return env["TRAINING_JOB_NAME"]
    try:
        training = json.loads(env.get("SM_TRAINING_ENV") or "{}")
    except (ValueError, RecursionError):
        training = None
    name = training.get("job_name") if isinstance(training, dict) else None
    return name if isinstance(name, str) and name else env.get("SAGEMAKER_JOB_NAME", "")
