"""bench/throttled.py: a process with a host's CPU."""

from __future__ import annotations

import sys

import pytest

from tfhet.bench import throttled
from tfhet.container.cgroup import Cgroup
from tfhet.errors import TfhetError, UsageError


@pytest.fixture(autouse=True)
def _groups() -> None:
    try:
        Cgroup.create("tfhet-tests-throttled").remove()
    except UsageError as error:
        pytest.skip(f"no control groups here: {error}")


def test_the_lines_of_a_process_come_back_and_its_failure_names_the_last_ones() -> None:
    said = throttled.run([sys.executable, "-c", f"print('{throttled.READY}'); print('done')"], 0.5, 30.0)
    assert said == [throttled.READY, "done"]
    with pytest.raises(TfhetError, match="no luck"):
        throttled.run([sys.executable, "-c", "raise SystemExit('no luck')"], 0.5, 30.0)
