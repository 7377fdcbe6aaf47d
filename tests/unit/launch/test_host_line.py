"""launch/launcher.py: what a launcher says of itself to the readers of its log."""

from __future__ import annotations

from collections.abc import Callable

from tfhet.launch.place import Place

from tfhet.launch.launcher import Launcher
from tfhet.messages import HostLine


def test_every_launcher_says_its_group_role_and_ranks(place_of: Callable[..., Place]) -> None:
    data, dnn = (Launcher(place, []) for place in (place_of("d1"), place_of("t1", 1, ranks=2)))
    plane = {"workers": str(data.place.workers)}
    assert data._host_line() == HostLine("heterogeneous", "data", "data_group", 0, plane)
    assert dnn._host_line() == HostLine("heterogeneous", "dnn", "dnn_group", 2, plane)
