"""However a job is ended, every process of it ends, and says so with its exit code.

`wait` of a started job checks that no process of it is left.
"""

from __future__ import annotations

import os
import signal
import time

import pytest

pytestmark = [pytest.mark.horovod, pytest.mark.timeout(120)]


def run_ends(started, script, how: str = "sleep", rank: int = 0, **shape):
    """A job of two ranks whose scripts are all there, and the processes of the scripts, by rank."""
    job = started("--train_script", script("ends"), "--how", how, "--rank", rank, "--lease_s", 4, channels={}, **shape)
    found = job.wait_for(r"training rank=(\d+) pid=(\d+)", times=2)
    return job, {int(rank): int(pid) for rank, pid in found}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_the_simulator_ends_every_host(started, script, number):
    job, _ = run_ends(started, script)
    job.process.send_signal(number)
    assert job.wait() == 130
    summary = job.folder.read_summary()
    assert set(summary.exit_codes.values()) == {143} and len(summary.exit_codes) == 3
    assert summary.cause == "stopped on request"


def test_a_signal_while_the_hosts_come_up_ends_every_host(started, script):
    job = started("--train_script", script("ends"), "--how", "sleep", channels={})
    job.wait_for(r"job: delivers data")
    job.process.terminate()
    assert job.wait() == 130
    assert all(job.folder.read_summary().exit_codes.values())


def test_a_script_that_ignores_sigterm_is_killed(started, script):
    job, scripts = run_ends(started, script, "stubborn", data=0)
    os.kill(scripts[1], signal.SIGUSR1)  # the other one's end is the job's end
    assert job.wait() == 1
    assert set(job.folder.read_summary().exit_codes.values()) == {128 + signal.SIGUSR1}


@pytest.mark.parametrize("rank", [0, 1])
def test_the_death_of_one_ranks_launcher_ends_all_within_the_lease(started, script, rank):
    job, _ = run_ends(started, script, "stubborn", rank)  # its script must go too, and ignores SIGTERM
    launchers = job.launchers()
    (label,) = [label for label in launchers if label.endswith(f"/{rank}")]
    began = time.monotonic()
    os.kill(launchers[label], signal.SIGKILL)
    assert job.wait() == 1
    assert time.monotonic() - began < 4 + 5 + 20  # lease_s + 5 is the promise; the rest is for a loaded machine
    summary = job.folder.read_summary()
    assert summary.exit_codes.pop(label) == -signal.SIGKILL
    assert set(summary.exit_codes.values()) == {1} and len(summary.exit_codes) == 2
    assert summary.cause


def test_the_death_of_a_data_hosts_launcher_ends_all(started, script):
    job, _ = run_ends(started, script)
    (host,) = [label for label in job.launchers() if "/" not in label]
    os.kill(job.launchers()[host], signal.SIGKILL)
    assert job.wait() == 1
    summary = job.folder.read_summary()
    assert set(summary.exit_codes.values()) == {-signal.SIGKILL, 1}
    assert f"{host} was lost" in summary.cause


def test_the_death_of_the_simulator_ends_every_host(started, script):
    job, _ = run_ends(started, script)
    job.process.kill()
    assert job.wait() == -signal.SIGKILL
