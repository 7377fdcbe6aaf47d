"""Assignments of launchers in a job on this machine, and leaders whose data plane starts nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tfhet.events import ignore
from tfhet.launch import LaunchSettings
from tfhet.launch.assignment import Assignment
from tfhet.launch.leader import Leader
from tfhet.planes import Outlets


@pytest.fixture
def assignment_of(environment_of: Callable[..., dict[str, str]]) -> Callable[..., Assignment]:
    """`assignment_of(host, rank=None, *arguments, data=..., dnn=..., ranks=1)`: the assignment of that launcher."""

    def build(host: str, rank: int | None = None, *arguments: object, **shape: object) -> Assignment:
        settings, _ = LaunchSettings.parse([str(argument) for argument in arguments])
        return Assignment.of(environment_of(host, rank, **shape), settings)

    return build


@pytest.fixture
def leader_of() -> Callable[..., Leader]:
    """`leader_of(assignment, observer, ...)`: a leader whose data plane starts nothing."""

    def build(assignment: Assignment, *arguments: object, **options: object) -> Leader:
        outlets = Outlets(lambda line: None, lambda report: None, ignore, lambda order: None, 20.0, bytes(32))
        side = assignment.plane.launcher_side(assignment.plane_settings, assignment.place, outlets)
        return Leader(assignment, side, *arguments, **options)

    return build
