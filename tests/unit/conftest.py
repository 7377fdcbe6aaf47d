"""Places of launchers in a job on this machine, whose hosts are all reached at 127.0.0.1."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tfhet.cluster import Place, free_ports


@pytest.fixture
def control_port() -> int:
    (port,) = free_ports(1)
    return port


@pytest.fixture
def environment_of(tmp_path: Path, control_port: int) -> Callable[..., dict[str, str]]:
    """`environment_of(host, rank=None, data=..., dnn=..., ranks=1)`: the variables of that launcher."""

    def build(
        host: str,
        rank: int | None = None,
        *,
        data: Sequence[str] = ("d1",),
        dnn: Sequence[str] = ("t1",),
        ranks: int = 1,
        data_group: str = "data_group",
        dnn_group: str = "dnn_group",
    ) -> dict[str, str]:
        groups = {data_group: list(data), dnn_group: list(dnn)} if data else {dnn_group: list(dnn)}
        own = next(name for name, hosts in groups.items() if host in hosts)
        described = [
            {"instance_group_name": name, "instance_type": "ml.m5.large", "hosts": hosts}
            for name, hosts in groups.items()
        ]
        base = tmp_path / host
        base.mkdir(exist_ok=True)
        env = {
            "SAGEMAKER_BASE_DIR": str(base),
            "TRAINING_JOB_NAME": "job",
            "SM_CURRENT_HOST": host,
            "SM_CURRENT_INSTANCE_GROUP": own,
            "SM_RESOURCE_CONFIG": json.dumps({"current_host": host, "instance_groups": described}),
            "TFHET_PORTS": json.dumps({"control": control_port}),
            "TFHET_ADDRESSES": json.dumps(dict.fromkeys([*data, *dnn], "127.0.0.1")),
            "TFHET_SECRET": "the secret of these tests",
        }
        if rank is not None:
            numbers = (rank, len(dnn) * ranks, rank % ranks, ranks)
            names = ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE")
            env.update({f"HOROVOD_{name}": str(n) for name, n in zip(names, numbers, strict=True)})
        return env

    return build


@pytest.fixture
def place_of(environment_of: Callable[..., dict[str, str]]) -> Callable[..., Place]:
    """`place_of(host, rank=None, *arguments, data=..., dnn=..., ranks=1)`: the place of that launcher."""
    from tfhet.launch import LaunchSettings
    from tfhet.launch.assignment import Assignment

    def build(host: str, rank: int | None = None, *arguments: object, **shape: object) -> Place:
        settings, _ = LaunchSettings.parse([str(argument) for argument in arguments])
        return Assignment.of(environment_of(host, rank, **shape), settings).place

    return build
