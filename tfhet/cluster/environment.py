"""The process's environment, which only this module reads; all other code gets a mapping."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from typing import Any

from tfhet.errors import ClusterError

KEPT_VARIABLE = "TFHET_SERVERS_KEEP"
"""Variable with names, separated by commas, of variables that servers get although they look secret, such as AWS
credentials for a pipeline that reads from S3."""
_SECRET = re.compile(r"^AWS_(?!(DEFAULT_)?REGION$)|SECRET|TOKEN|PASSWORD|PASSWD|CREDENTIAL|API_?KEY|PRIVATE_?KEY", re.I)


def environment() -> Mapping[str, str]:
    """A copy of the variables of this process."""
    return dict(os.environ)


def job_name(env: Mapping[str, str]) -> str:
    """The training job's name, equal on every host; "" without a job. The platform sets `TRAINING_JOB_NAME`; ranks that
    another program starts on other hosts may only have the `SM_*` variables of the first host."""
    if env.get("TRAINING_JOB_NAME"):
        return env["TRAINING_JOB_NAME"]
    try:
        name = json_variable(env, "SM_TRAINING_ENV").get("job_name")
    except ClusterError:
        name = None
    return name if isinstance(name, str) and name else env.get("SAGEMAKER_JOB_NAME", "")


def parse_json(text: str | bytes, where: str) -> object:
    """The JSON value in `text`. Raises ClusterError with `where` if it is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ClusterError(f"{where}: not JSON ({error})") from error


def json_variable(env: Mapping[str, str], name: str) -> dict[str, Any]:
    """The JSON object in a variable; an empty one if it is not set. Raises ClusterError with its name."""
    value = parse_json(env.get(name) or "{}", name)
    if not isinstance(value, dict):
        raise ClusterError(f"{name}: expected a JSON object")
    return value


def without_secrets(env: Mapping[str, str]) -> dict[str, str]:
    """`env` without variables whose names look secret, for a process that runs graphs of other processes."""
    kept = env.get(KEPT_VARIABLE, "").split(",")
    return {name: value for name, value in env.items() if name in kept or not _SECRET.search(name)}
