"""However a job ends, all its processes end, with an exit code.

`wait` of a started job checks that no process of it is left.
"""

from __future__ import annotations

import os
import signal

import pytest

pytestmark = [pytest.mark.horovod, pytest.mark.timeout(120)]


def run_ends(started, script, how: str = "sleep", rank: int = 0, **shape):
    """A job of two ranks whose scripts are all there, and the processes of the scripts, by rank."""
    job = started("--train_script", script("ends"), "--how", how, "--rank", rank, "--lease_s", 4, channels={}, **shape)
    found = job.wait_for(r"training rank=(\d+) pid=(\d+)", times=2)
    return job, {int(rank): int(pid) for rank, pid in found}


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_signal_to_the_simulator_ends_every_host(started, script, number):
    job, _ = run_ends(started, script)
    job.process.send_signal(number)
    assert job.wait() == 130
    summary = job.folder.read_summary()
    assert set(summary.exit_codes.values()) == {143} and len(summary.exit_codes) == 3
    assert summary.cause == "stopped on request"


def test_signal_during_the_start_ends_every_host(started, script):
    job = started("--train_script", script("ends"), "--how", "sleep", channels={})
    job.wait_for(r"job: delivers data")
    job.process.terminate()
    assert job.wait() == 130
    assert all(job.folder.read_summary().exit_codes.values())


def test_script_that_ignores_sigterm_is_killed(started, script):
    job, scripts = run_ends(started, script, "stubborn", data=0)
    os.kill(scripts[1], signal.SIGUSR1)  # the other one's end is the job's end
    assert job.wait() == 1
    assert set(job.folder.read_summary().exit_codes.values()) == {128 + signal.SIGUSR1}


@pytest.mark.parametrize("rank", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_killed_launcher_of_a_rank_ends_all(started, script, rank):
    job, _ = run_ends(started, script, "stubborn", rank)  # its script must go too, and ignores SIGTERM
    launchers = job.launchers()
    (label,) = [label for label in launchers if label.endswith(f"/{rank}")]
    os.kill(launchers[label], signal.SIGKILL)
    assert job.wait() == 1
    summary = job.folder.read_summary()
    assert summary.exit_codes.pop(label) == -signal.SIGKILL
    assert set(summary.exit_codes.values()) == {1} and len(summary.exit_codes) == 2
    assert summary.cause


def test_killed_launcher_of_a_data_host_ends_all(started, script):
    job, _ = run_ends(started, script)
    (host,) = [label for label in job.launchers() if "/" not in label]
    os.kill(job.launchers()[host], signal.SIGKILL)
    assert job.wait() == 1
    summary = job.folder.read_summary()
    assert set(summary.exit_codes.values()) == {-signal.SIGKILL, 1}
    assert f"{host} was lost" in summary.cause


def test_killed_simulator_ends_every_host(started, script):
    job, _ = run_ends(started, script)
    job.process.kill()
    assert job.wait() == -signal.SIGKILL
