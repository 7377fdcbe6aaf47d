"""The process of a peer: `python -m benchmarks.peers.worker MODULE` runs the jobs of MODULE's `PEER`.

{"prepare": JOB}           -> {"job": number, "versions": {module: version}}
{"begin": number}          -> {}: one pass is ready to start
{"run": number}            -> {"images": count}: the pass has ended
{"save": number, "to": F}  -> {}: the images of one pass are in the file F (.npy)
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.peers.peer import Job, Peer, Run
from tfhet.bench.child_process import answer_requests


class Worker:
    """Answers the requests of one process."""

    def __init__(self, peer: Peer):
        self._peer = peer
        self._jobs: list[Run] = []
        self._begun: dict[int, Iterator[np.ndarray]] = {}

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        if "prepare" in request:
            modules = {name: importlib.import_module(name) for name in self._peer.imports}
            self._jobs.append(self._peer.build(Job.from_json(request["prepare"])))
            versions = {name: str(getattr(module, "__version__", "?")) for name, module in modules.items()}
            return {"job": len(self._jobs) - 1, "versions": versions}
        if "begin" in request:
            self._begun[request["begin"]] = iter(self._jobs[request["begin"]]())
            return {}
        if "run" in request:
            return {"images": sum(len(batch) for batch in self._begun.pop(request["run"]))}
        np.save(request["to"], np.concatenate([np.array(batch) for batch in self._jobs[request["save"]]()]))
        return {}


if __name__ == "__main__":
    answer_requests(Worker(importlib.import_module(sys.argv[1]).PEER).answer)
