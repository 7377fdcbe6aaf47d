"""A job of `train.py`: what it hears, and that one without all of its stamps is refused."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks.planes import windowed_job
from benchmarks.planes.windowed_job import WindowedJob
from tfhet.errors import JobFailed
from tfhet.record import RunSummary
from tfhet.simulate import ClusterFile, GroupFile

LINES = ("first_batch", "warm", "window_begins", "window_ends step_s=0.25 steps=8 rss=1000")
USE = {"algo-1": {"memory_peak_bytes": 10}, "algo-2": {"memory_peak_bytes": 20}}


class Heard(WindowedJob):
    """A job that only hears lines, between each two of which each host uses a second of CPU."""

    lines: tuple[str, ...] = LINES
    used_s = 0.0

    @property
    def cgroups(self):
        def cpu_s() -> float:
            self.used_s += 0.5
            return self.used_s

        return dict.fromkeys(("algo-1", "algo-2"), SimpleNamespace(cpu_s=cpu_s, pids=list))

    def run(self) -> RunSummary:
        for line in self.lines:
            self.hear(f"algo-1 | [algo-1/0] [stamp] {line}")
        return RunSummary(job_id="x", mode="heterogeneous", exit_code=0, host_use=USE)


@pytest.fixture
def job(tmp_path: Path) -> Heard:
    cluster = ClusterFile("x", {"dnn_group": GroupFile(), "data_group": GroupFile()})
    return Heard(cluster, "feed", ["--chain", "small"], tmp_path / "run", max_run_s=5.0)


def test_a_window_is_what_the_script_said_and_the_cpu_between_its_stamps(job: Heard):
    assert not job._has_come()
    window = job.window()
    assert job._has_come(), "the hosts are limited once the script is warm"
    assert (window.step_s, window.steps, window.rss) == (0.25, 8, 1000)
    assert window.cpu_s == {"dnn_group": 1.0, "data_group": 1.0} and window.first_batch_s >= 0
    assert window.host_bytes == {"dnn_group": 10, "data_group": 20}


def test_a_host_that_cannot_be_looked_at_is_in_the_last_lines(job: Heard, monkeypatch: pytest.MonkeyPatch):
    def unseen(pids: object) -> dict[int, float]:
        raise OSError("gone")

    monkeypatch.setattr(windowed_job, "tasks_cpu_s", unseen)
    with pytest.raises(OSError, match="gone"):
        job.hear("[stamp] warm")
    assert job._lines[-1] == "[bench] warm: OSError: gone"


def test_processes_of_tasks_are_told_from_actors_and_all_others():
    titles = ("ray::Map(prepared)", "ray::SplitCoordinator", "python -c ray::")
    with contextlib.ExitStack() as stack:
        pids = [stack.enter_context(sleeping(title)).pid for title in titles]
        assert list(windowed_job.tasks_cpu_s([*pids, 2**22 + 1])) == pids[:1]


@contextlib.contextmanager
def sleeping(title: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process of this title, which runs until the context ends."""
    with subprocess.Popen(
        [title, "-c", "print(flush=True); input()"], executable=sys.executable, stdin=-1, stdout=-1
    ) as process:
        assert process.stdout is not None and process.stdout.readline()
        yield process
        process.kill()


def test_a_job_that_was_not_heard_to_the_end_is_refused(job: Heard):
    job.lines = LINES[:2]
    with pytest.raises(JobFailed, match="heard of first_batch, warm"):
        job.window()


def test_stamps_are_those_of_the_script():
    script = Path(windowed_job.ROOT, windowed_job.SCRIPT).read_text()
    assert tuple(re.findall(r'stamp\("(\w+)"', script)) == tuple(line.split()[0] for line in LINES)
