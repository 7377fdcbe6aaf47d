"""Processes of the ranks of a strategy on this machine, and their results."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tfhet import strategies
from tfhet.cluster import Rank
from tfhet.strategies import OWN

LIMIT_S = 240


def met(script: Path, kind: str, folder: Path, size: int = 2) -> list[dict[str, Any]]:
    """Runs the ranks of a strategy that has a meeting, see `results`."""
    strategy = strategies.get(kind)
    meeting = strategy.meeting(["localhost"], size, OWN)
    assert meeting is not None
    meeting.load()
    order = meeting.open("127.0.0.1", "lo", "127.0.0.1", ())
    try:
        ranks = [Rank(rank, size, rank, size, "tfhet") for rank in range(size)]
        variables = [strategy.environment(order, "localhost", rank, os.environ) for rank in ranks]
        return results(script, kind, folder, variables)
    finally:
        meeting.close()


def results(script: Path, kind: str, folder: Path, variables: Sequence[Mapping[str, str]]) -> list[dict[str, Any]]:
    """Runs `script KIND SIZE FILE` for each of `variables`, by which the ranks meet; returns what they pickled."""
    size, ranks = len(variables), list[subprocess.Popen[bytes]]()
    try:
        for rank in range(size):
            env = {**os.environ, **variables[rank], "OMP_NUM_THREADS": "1"}
            command = [sys.executable, str(script), kind, str(size), str(folder / f"{rank}.pickle")]
            with (folder / f"{rank}.log").open("wb") as log:
                ranks.append(subprocess.Popen(command, env=env, stdout=log, stderr=subprocess.STDOUT))
        codes = [rank.wait(LIMIT_S) for rank in ranks]
        logs = "\n".join((folder / f"{rank}.log").read_text()[-3000:] for rank in range(size))
        assert codes == [0] * size, logs
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()
    return [pickle.loads((folder / f"{rank}.pickle").read_bytes()) for rank in range(size)]
