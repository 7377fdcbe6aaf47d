"""This side of a peer's process: starts it, asks, and waits for each answer."""

from __future__ import annotations

import contextlib
import json
import selectors
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from tfhet.bench.peers.job import Job
from tfhet.bench.peers.place import Place
from tfhet.errors import TfhetError

ANSWER_LIMIT_S = 600.0


class PeerProcess:
    """One peer at work. Between requests it does nothing, so that it costs the others nothing."""

    def __init__(self, place: Place, answer_limit_s: float = ANSWER_LIMIT_S):
        self.name = place.peer.name
        self.versions: dict[str, str] = {}
        self._limit_s = answer_limit_s
        self._words = tempfile.TemporaryFile(mode="w+", errors="replace")  # noqa: SIM115  closed with the process
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tfhet.bench.peers.worker", self.name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._words,
            env=place.environment(),
        )

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

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
        except (BrokenPipeError, OSError):
            raise self._ended() from None
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            if not selector.select(self._limit_s):
                self.close()
                raise TfhetError(f"peer {self.name} gave no answer within {self._limit_s:g} s")
        line = process.stdout.readline()
        if not line:
            raise self._ended()
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise TfhetError(f"peer {self.name}: {answer['error']}")
        return answer

    def _ended(self) -> TfhetError:
        code = self._process.wait(timeout=30)
        self._words.seek(0)
        last = " | ".join(self._words.read().strip().splitlines()[-3:])
        return TfhetError(f"peer {self.name} ended with exit code {code}: {last or 'without a word'}")

    def close(self) -> None:
        """Ends the process; safe to call again."""
        process = self._process
        if process.stdin is not None and not process.stdin.closed:
            with contextlib.suppress(OSError):  # it has ended already
                process.stdin.close()
        try:
            process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(timeout=30)
        if process.stdout is not None:
            process.stdout.close()
        self._words.close()
