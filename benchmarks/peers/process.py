"""The suite's side of a peer's process."""

from __future__ import annotations

import importlib
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.peers import packages
from benchmarks.peers.peer import Job, Peer
from tfhet.bench.child_process import AnsweringProcess
from tfhet.errors import TfhetError, unknown

MODULES = {
    "numpy": "benchmarks.peers.tfhet_numpy",
    "torch": "benchmarks.peers.tfhet_torch",
    "torch-last": "benchmarks.peers.tfhet_torch_last",
    "torch-sample": "benchmarks.peers.tfhet_torch_sample",
    "tf-batched": "benchmarks.peers.tf_batched",
    "tf-image": "benchmarks.peers.tf_image",
    "pillow": "benchmarks.peers.pillow",
    "opencv": "benchmarks.peers.opencv",
    "simplejpeg": "benchmarks.peers.simplejpeg",
    "turboloader": "benchmarks.peers.turboloader",
    "torchvision": "benchmarks.peers.torchvision",
    "albumentations": "benchmarks.peers.albumentations",
    "dali": "benchmarks.peers.dali",
}
"""The module of each peer, in the order of their cases."""


def peer_named(name: str) -> Peer:
    """Returns a peer. Raises UsageError that lists the known ones."""
    if name not in MODULES:
        unknown("peer", name, MODULES)
    peer: Peer = importlib.import_module(MODULES[name]).PEER
    return peer


class PeerProcess(AnsweringProcess):
    """The process of one peer. All methods raise TfhetError with the peer's error."""

    def __init__(self, peer: Peer, cache: Path | None = None):
        """cache: see `packages.folder_of`."""
        command = [sys.executable, "-m", "benchmarks.peers.worker", MODULES[peer.name]]
        super().__init__(f"peer {peer.name}", command, packages.environment_of(peer, cache))
        self.versions: dict[str, str] = {}
        """Versions of its modules, once a job is prepared."""

    def prepare(self, job: Job) -> int:
        """Returns the number of the job."""
        answer = self.ask({"prepare": vars(job)})
        self.versions = dict(answer["versions"])
        return int(answer["job"])

    def begin(self, job: int) -> None:
        """Makes one pass ready to start."""
        self.ask({"begin": job})

    def run(self, job: int, examples: int) -> None:
        """Runs the pass that was begun. Raises TfhetError also unless it returns `examples` images."""
        if (count := self.ask({"run": job})["images"]) != examples:
            raise TfhetError(f"{self.name} returned {count} images instead of {examples}")

    def images(self, job: int) -> np.ndarray:
        """Returns the images of one pass, [images, height, width, 3]."""
        with tempfile.TemporaryDirectory(prefix="tfhet-peer-") as folder:
            path = Path(folder) / "images.npy"
            self.ask({"save": job, "to": str(path)})
            return np.load(path)
