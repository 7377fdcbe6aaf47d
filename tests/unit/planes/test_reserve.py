from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys

import pytest

from tfhet.planes import cpus
from tfhet.planes.cpus import WINDOWS, Reserve, cpu_s

pytestmark = pytest.mark.timeout(60)


def kept(ranks: int, used: list[float]) -> list[int]:
    """How many CPUs were kept, time by time that it changed."""
    told: list[int] = []
    measured = Reserve(ranks, lambda cpus, most: told.append(cpus))
    for one in used:
        measured.add(one)
    return told


def test_as_many_cpus_are_kept_as_the_ranks_of_the_host_use():
    assert kept(1, [0.7]) == [1]
    assert kept(4, [1.4]) == [6]
    assert kept(8, [2.0]) == [16]


def test_half_a_cpu_is_not_worth_a_whole_one():
    assert kept(1, [1.4]) == [1]
    assert kept(1, [1.6]) == [2]
    assert kept(1, [0.3]) == []


def test_more_is_kept_at_once_and_less_only_when_it_lasts():
    assert kept(1, [1.0, 3.0, 1.0, 1.0]) == [1, 3]
    assert kept(1, [1.0, 3.0, *[1.0] * WINDOWS]) == [1, 3, 1]


def test_what_does_not_change_is_not_told_again():
    assert kept(1, [0.9, 0.8, 0.95, 0.7]) == [1]


def test_a_busy_process_is_measured_until_its_end(monkeypatch):
    monkeypatch.setattr(cpus, "WINDOW_S", 0.3)
    told: list[tuple[int, float]] = []
    child = subprocess.Popen([sys.executable, "-c", "while True: pass"])

    async def scenario() -> None:
        async with asyncio.timeout(30):
            following = asyncio.create_task(Reserve(8, lambda *said: told.append(said)).follow(child.pid))
            while not told:  # eight ranks: enough even when other tests leave this process a tenth of a CPU
                await asyncio.sleep(0.05)
            child.kill()
            await asyncio.to_thread(child.wait)
            await following

    try:
        asyncio.run(scenario())
    finally:
        child.kill()
        child.wait()
    assert all(0.0 < used < 8 * 1.5 for _, used in told)


def test_the_cpu_of_a_process_counts_that_of_its_children():
    code = "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'while True: pass'])"
    parent = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
    try:
        for _ in range(200):
            spent = cpu_s(parent.pid)
            assert spent is not None
            if spent > 0.5:
                break
            asyncio.run(asyncio.sleep(0.1))
        assert spent > 0.5
    finally:
        os.killpg(parent.pid, signal.SIGKILL)
        parent.wait()
    assert cpu_s(parent.pid) is None
