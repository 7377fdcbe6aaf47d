"""watching/usage.py: memory of all processes below a command, of loader workers, and of GPUs."""

from __future__ import annotations

import json
import subprocess
import sys
from types import SimpleNamespace

import psutil
import pytest

from tfhet.watching.usage import TreeUsage

HELD_BYTES = 64 << 20
CODE = f"""
import os, sys
is_worker = os.fork() == 0
held = bytearray({HELD_BYTES}) if is_worker else b""
for at in range(0, len(held), 4096):
    held[at] = 1
if is_worker:
    print("ready", flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def rank(tmp_path):
    child = subprocess.Popen([sys.executable, "-c", CODE], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    (tmp_path / "notes-1.jsonl").write_text(json.dumps({"pid": child.pid, "rank": 0}) + "\n")
    assert child.stdout.readline() == b"ready\n"
    yield child
    child.communicate(b"end\nend\n", timeout=60)


def test_memory_of_workers_and_gpus_is_in_the_facts(rank, tmp_path):
    gpus = SimpleNamespace(latest=((50.0, 7 << 30), (0.0, 0)), stop=lambda: None)
    usage = TreeUsage(tmp_path)
    usage.follow(rank.pid, gpus)
    facts = usage.facts()
    assert HELD_BYTES <= facts["memory_loaders_peak_bytes"] < facts["memory_pss_peak_bytes"]
    assert facts["gpus_memory_peak_bytes"] == [7 << 30, 0]
    assert "gpus_memory_peak_bytes" not in TreeUsage(tmp_path).facts()


def test_batches_in_shared_memory_are_in_the_facts(rank, tmp_path, monkeypatch):
    """A batch on its way from a loader worker is in /dev/shm, and in the memory of no process."""
    used = iter([100, 100, 900, 300])
    monkeypatch.setattr(psutil, "disk_usage", lambda path: SimpleNamespace(used=next(used)))
    usage = TreeUsage(tmp_path)
    usage.follow(rank.pid)
    assert "memory_shared_peak_bytes" not in usage.facts()
    for _ in range(2):
        usage.sample()
    assert usage.facts()["memory_shared_peak_bytes"] == 800


def test_growing_memory_is_measured_at_once(rank, tmp_path, monkeypatch):
    usage = TreeUsage(tmp_path)
    monkeypatch.setattr(psutil.Process, "children", lambda self, recursive: [])
    usage.follow(rank.pid)
    before = usage.facts()["memory_pss_peak_bytes"]
    monkeypatch.undo()
    usage.sample()  # with the other process
    assert usage.facts()["memory_pss_peak_bytes"] >= before + HELD_BYTES
