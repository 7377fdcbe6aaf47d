"""The job without MPI: every host is started once and in the same way, and the leader starts the ranks."""

from __future__ import annotations

import re
import signal

import pytest

pytestmark = [pytest.mark.horovod, pytest.mark.timeout(200)]

SHAPE = {"start": "alone", "dnn": 2, "channels": {}}
"""Two dnn hosts with two ranks each, and a data host; the second dnn host has the ranks 2 and 3."""


def test_failed_rank_ends_every_host(simulated, script):
    run = simulated("--train_script", script("ends"), "--how", "exit", "--rank", 3, **SHAPE)
    assert run.summary.exit_code == 3 and set(run.summary.exit_codes.values()) == {3}
    failures = run.failures()
    assert len(failures) == 3 and all("rank 3: exit code 3" in text for text in failures.values())
    (ranks,) = [event for event in run.folder.events() if event["event"] == "job.ranks"]
    assert (ranks["by"], ranks["size"], ranks["per_host"]) == ("alone", 4, 2)


@pytest.mark.parametrize(
    ("fault", "others", "cause"),
    [
        pytest.param("sigterm:launcher@dnn-1", 143, "SIGTERM", marks=pytest.mark.slow),
        ("sigterm:launcher@dnn-2", 143, "SIGTERM"),
        ("kill:host@dnn-2", 1, "was lost"),
    ],
)
def test_end_of_one_launcher_ends_the_job(simulated, script, fault, others, cause):
    words = ("--train_script", script("ends"), "--how", "sleep", "--lease_s", 5)
    run = simulated(*words, **SHAPE, faults=[f"{fault}:from=scripts"])
    assert re.search(cause, run.summary.cause)
    codes = list(run.summary.exit_codes.values())
    assert len(codes) == 3 and set(codes) - {-signal.SIGKILL} == {others}
    assert codes.count(-signal.SIGKILL) == fault.startswith("kill")
