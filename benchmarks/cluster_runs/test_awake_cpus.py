"""CPUs that do not sleep."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from benchmarks.cluster_runs import awake_cpus
from benchmarks.cluster_runs.awake_cpus import DEVICE, awake

CPUS = Path("/sys/devices/system/cpu")
SETTLE_S, SECONDS, LIMIT_S = 0.2, 0.3, 40.0


def sleeps() -> int:
    """Number of times that this machine's CPUs have slept."""
    states = [state for state in CPUS.glob("cpu[0-9]*/cpuidle/state*") if int((state / "latency").read_text())]
    return sum(int((state / "usage").read_text()) for state in states)


def test_no_cpu_sleeps_within_the_block() -> None:
    if not os.access(DEVICE, os.W_OK) or not list(CPUS.glob("cpu0/cpuidle/state1")):
        pytest.skip(f"{DEVICE}, which this process may write to, and CPUs with states of sleep in {CPUS}")
    before, end_s = sleeps(), time.monotonic() + LIMIT_S
    while sleeps() == before:
        if time.monotonic() > end_s:
            pytest.skip("CPUs that sleep: others keep them busy, or awake")
        time.sleep(SECONDS)
    with awake():
        time.sleep(SETTLE_S)
        before = sleeps()
        time.sleep(SECONDS)
        assert sleeps() == before


def test_a_machine_that_cannot_say_so_is_left_as_it_is(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(awake_cpus, "DEVICE", tmp_path / "missing" / "device")
    with awake():
        pass
