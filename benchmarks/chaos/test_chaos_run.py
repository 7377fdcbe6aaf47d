"""The suite on real jobs."""

from __future__ import annotations

import argparse

import pytest

from benchmarks.chaos import suite as chaos

pytestmark = [pytest.mark.horovod, pytest.mark.timeout(240)]


@pytest.mark.slow
def test_schedules_that_are_drawn_end_as_they_may_and_leave_nothing(repository, tmp_path):
    launcher, kept = repository / "scripts" / "launcher.py", tmp_path / "kept"
    more = {"hosts": "process", "busy": False, "regressions": False, "more": False, "json": None}
    options = argparse.Namespace(seeds=2, first=25, launcher=launcher, folder=kept, **more)
    record = chaos.SUITE.run(options, lambda event: None, ())
    assert {job["kind"] for job in record.details["schedules"]} == {"failure", "goes on"}
    assert [job["breaches"] for job in record.details["schedules"]] == [[], []]
    assert record.figures["chaos.schedules"].value == 2
    assert not kept.exists()
