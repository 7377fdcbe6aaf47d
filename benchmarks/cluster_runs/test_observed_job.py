"""the folder of a suite's runs, which ends with the suite, however that ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from benchmarks.cluster_runs.observed_job import new_place

SUITE = """
import signal
from benchmarks.cluster_runs.observed_job import new_place
with new_place("played") as place:
    print(place, flush=True)
    signal.pause()
"""


def test_the_folder_is_gone_afterwards_unless_it_is_kept(tmp_path: Path) -> None:
    with new_place("played") as place:
        (place / "run").mkdir()
    assert not place.exists()
    with new_place("played", keep=True) as place:
        pass
    assert place.is_dir()
    place.rmdir()


def test_a_suite_that_is_told_to_end_between_two_jobs_leaves_no_folder(tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", SUITE], stdout=subprocess.PIPE, text=True, env=environment) as suite:
        assert suite.stdout is not None
        place = Path(suite.stdout.readline().strip())
        assert place.is_dir() and place.parent == tmp_path
        suite.terminate()
        assert suite.wait(30) == 128 + signal.SIGTERM
    assert list(tmp_path.iterdir()) == []
