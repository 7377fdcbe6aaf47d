"""The variables that SageMaker's training toolkit sets for an entry point, made of the same files' values."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from tfhet.cluster import HostPaths
from tfhet.record import machine

_KNOWN = ("program", "submit_directory", "job_name", "region", "container_log_level", "enable_cloudwatch_metrics")
"""Names of the toolkit's own hyperparameters after `sagemaker_`; further ones are the framework's."""


def input_config(modes: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Returns the content of inputdataconfig.json. modes: input mode by channel."""
    return {name: {"TrainingInputMode": mode, "RecordWrapperType": "None"} for name, mode in modes.items()}


def toolkit_variables(
    paths: HostPaths,
    resources: Mapping[str, Any],
    modes: Mapping[str, str],
    parameters: Mapping[str, str],
    job: str,
    command: Sequence[str],
) -> dict[str, str]:
    """Returns the `SM_*` variables of a host.

    Args:
        resources: Content of resourceconfig.json.
        modes: Input mode by channel.
        parameters: Hyperparameters, each a JSON value as text.
        command: The entry point, a Python file, and its arguments.
    """
    by_name = {one["instance_group_name"]: one for one in resources["instance_groups"]}
    group = resources["current_group_name"]
    given = {name: json.loads(text) for name, text in parameters.items()}
    own = {name: value for name, value in given.items() if not name.startswith("sagemaker_")}
    framework = {name: each for name, each in given.items() if name not in own and name[10:] not in _KNOWN}
    channels = {name: str(paths.channel(name)) for name in sorted(modes)}
    shared: dict[str, Any] = {
        "channel_input_dirs": channels,
        "current_host": resources["current_host"],
        "current_instance_group": group,
        "current_instance_group_hosts": by_name[group]["hosts"],
        "current_instance_type": resources["current_instance_type"],
        "distribution_instance_groups": given.get("sagemaker_distribution_instance_groups", []),
        "framework_module": None,
        "hosts": resources["hosts"],
        "input_config_dir": str(paths.input_config),
        "input_data_config": input_config(modes),
        "input_dir": str(paths.base / "input"),
        "instance_groups": list(by_name),
        "instance_groups_dict": by_name,
        "is_hetero": len(by_name) > 1,
        "log_level": 20,
        "model_dir": str(paths.model),
        "module_dir": str(paths.code),
        "module_name": command[0].removesuffix(".py"),
        "network_interface_name": resources["network_interface_name"],
        "num_cpus": os.cpu_count() or 1,
        "num_gpus": len(machine()["gpus"]),
        "num_neurons": 0,
        "output_data_dir": str(paths.output_data),
        "output_dir": str(paths.base / "output"),
        "output_intermediate_dir": str(paths.base / "output" / "intermediate"),
        "resource_config": resources,
        "user_entry_point": command[0],
    }
    environment = {**shared, "additional_framework_parameters": framework, "hyperparameters": own, "job_name": job}
    del shared["channel_input_dirs"]
    values = {
        **shared,
        "channels": list(channels),
        "framework_params": framework,
        "hps": own,
        "training_env": environment,
        "user_args": list(command[1:]),
        **{f"channel_{name}": path for name, path in channels.items()},
        **{f"hp_{name}": value for name, value in own.items()},
    }
    return {f"SM_{name.upper()}": _text(value) for name, value in values.items()}


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True, separators=(",", ":"))
