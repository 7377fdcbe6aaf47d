"""Places of launchers in a job on this machine, whose hosts are all reached at 127.0.0.1."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tfhet.cluster import free_ports
from tfhet.events import ignore
from tfhet.launch import LaunchSettings
from tfhet.launch.assignment import Assignment
from tfhet.launch.leader import Leader
from tfhet.planes import Outlets


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
        described = {
            name: {"instance_group_name": name, "instance_type": "ml.m5.large", "hosts": hosts}
            for name, hosts in groups.items()
        }
        base = tmp_path / host
        base.mkdir(exist_ok=True)
        env = {
            "SAGEMAKER_BASE_DIR": str(base),
            "TRAINING_JOB_NAME": "job",
            "SM_CURRENT_HOST": host,
            "SM_HOSTS": json.dumps([*data, *dnn]),
            "SM_CURRENT_INSTANCE_GROUP": own,
            "SM_INSTANCE_GROUPS": json.dumps(list(groups)),
            "SM_INSTANCE_GROUPS_DICT": json.dumps(described),
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
def assignment_of(environment_of: Callable[..., dict[str, str]]) -> Callable[..., Assignment]:
    """`assignment_of(host, rank=None, *arguments, data=..., dnn=..., ranks=1)`: the assignment of that launcher."""

    def build(host: str, rank: int | None = None, *arguments: object, **shape: object) -> Assignment:
        settings, _ = LaunchSettings.parse([str(argument) for argument in arguments])
        return Assignment.of(environment_of(host, rank, **shape), settings)

    return build


@pytest.fixture
def leader_of(tmp_path: Path) -> Callable[..., Leader]:
    """`leader_of(assignment, secret, observer, ...)`: a leader whose data plane starts nothing."""

    def build(assignment: Assignment, *arguments: object, **options: object) -> Leader:
        outlets = Outlets(lambda line: None, lambda message: None, ignore, tmp_path, 20.0)
        side = assignment.plane.launcher_side(assignment.plane_settings, assignment.place, outlets)
        return Leader(assignment, side, *arguments, **options)

    return build
