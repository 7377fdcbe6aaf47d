"""launch/launcher.py: what a launcher says of itself to the readers of its log."""

from __future__ import annotations

from collections.abc import Callable

from tfhet.launch.assignment import Assignment
from tfhet.launch.launcher import Launcher
from tfhet.messages import HostLine


def test_every_launcher_says_its_group_role_and_ranks(assignment_of: Callable[..., Assignment]) -> None:
    data, dnn = (Launcher(one, []) for one in (assignment_of("d1"), assignment_of("t1", 1, ranks=2)))
    assert data._host_line() == HostLine(
        "heterogeneous", "data", "data_group", 0, {"dispatcher": "127.0.0.1:6000", "workers": "1"}
    )
    assert dnn._host_line() == HostLine(
        "heterogeneous", "dnn", "dnn_group", 2, {"dispatcher": "127.0.0.1:6000", "workers": "1"}
    )
