"""bench/throttled.py: a process with a host's CPU."""

from __future__ import annotations

import pytest

from tfhet.bench import throttled
from tfhet.container.cgroup import Cgroup
from tfhet.container.limits import Limits
from tfhet.errors import TfhetError, UsageError


@pytest.fixture(autouse=True)
def _groups() -> None:
    try:
        Cgroup.create("tfhet-tests-throttled").remove()
    except UsageError as error:
        pytest.skip(f"no control groups here: {error}")


@pytest.mark.parametrize("limits", [Limits(cpus=0.5), None], ids=["limited", "free"])
def test_the_lines_of_a_process_come_back_and_its_failure_names_the_last_ones(
    limits: Limits | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(throttled, "Cgroup", Cgroup if limits else None)  # needs none where nothing is limited
    said = throttled.run("stages", limits=limits, limit_s=60.0)  # a module that does nothing by itself
    assert said == []
    with pytest.raises(TfhetError, match="bench.channel failed"):
        throttled.run("channel", limits=limits, limit_s=60.0)
    with pytest.raises(TfhetError, match="not enough values"):
        throttled.run("channel", limits=limits, limit_s=60.0)
