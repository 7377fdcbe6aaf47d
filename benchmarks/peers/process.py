"""This side of a peer's process: what it can be asked for."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.peers.job import Job
from benchmarks.peers.place import Place
from tfhet.bench.child_process import ANSWER_LIMIT_S, AnsweringProcess


class PeerProcess(AnsweringProcess):
    """One peer at work."""

    def __init__(self, place: Place, answer_limit_s: float = ANSWER_LIMIT_S):
        command = [sys.executable, "-m", "benchmarks.peers.worker", place.peer.name]
        super().__init__(f"peer {place.peer.name}", command, place.environment(), answer_limit_s)
        self.versions: dict[str, str] = {}

    def prepare(self, job: Job) -> int:
        """The number of the job. Raises TfhetError with what the peer said, as all of these do."""
        answer = self.ask({"prepare": job.to_json()})
        self.versions = dict(answer["versions"])
        return int(answer["job"])

    def begin(self, job: int) -> int:
        """Makes the job ready to be done once -> the job."""
        self.ask({"begin": job})
        return job

    def run(self, job: int) -> int:
        """Does the job that was begun -> images made."""
        return int(self.ask({"run": job})["images"])

    def images(self, job: int) -> np.ndarray:
        """Does the job once -> [images, height, width, 3]."""
        with tempfile.TemporaryDirectory(prefix="tfhet-peer-") as folder:
            path = Path(folder) / "images.npy"
            self.ask({"save": job, "to": str(path)})
            return np.load(path)
