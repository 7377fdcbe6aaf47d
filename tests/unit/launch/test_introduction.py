"""launch/launcher.py: the line that a launcher begins with is the one by which follow/hosts.py knows its host."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tfhet.control import Secret
from tfhet.follow.hosts import Introduction
from tfhet.launch.assignment import Place
from tfhet.launch.launcher import Launcher


@pytest.mark.parametrize("derived", [False, True])
def test_every_launcher_says_its_group_role_and_ranks(place_of: Callable[..., Place], derived: bool) -> None:
    env = {} if derived else {"TFHET_SECRET": "the secret of these tests"}
    secret = Secret.from_env(env, "job", {"d1", "t1"})
    assert secret.derived is derived
    data, dnn = (Launcher(place, []) for place in (place_of("d1"), place_of("t1", 1, ranks=2)))
    assert Introduction.parse(data._introduction(secret)) == Introduction("data_group", "data")
    assert Introduction.parse(dnn._introduction(secret)) == Introduction("dnn_group", "dnn", 2)
