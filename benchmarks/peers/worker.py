"""The peer's side: `python -m benchmarks.peers.worker NAME` reads one JSON line per request and answers with one.

{"prepare": JOB}           -> {"job": number, "versions": {...}}
{"begin": number}          -> {}: made ready to be done once, without doing any of it
{"run": number}            -> {"images": count, "bytes": count}: done
{"save": number, "to": F}  -> begun and done, and the images as one array in the file F (.npy)
What goes wrong is answered with {"error": text}. The end of the input ends the process.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks import peers
from benchmarks.peers.job import Job
from benchmarks.peers.peer import Peer
from tfhet.bench import child_process


def handler(peer: Peer) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Answers the requests of one process."""
    jobs: list[Callable[[], Iterator[np.ndarray]]] = []
    begun: dict[int, Iterator[np.ndarray]] = {}
    return lambda request: _answer(peer, jobs, begun, request)


def _answer(
    peer: Peer,
    jobs: list[Callable[[], Iterator[np.ndarray]]],
    begun: dict[int, Iterator[np.ndarray]],
    request: dict[str, Any],
) -> dict[str, Any]:
    if "prepare" in request:
        jobs.append(peer.build(Job.from_json(request["prepare"])))
        return {"job": len(jobs) - 1, "versions": versions(peer)}
    if "begin" in request:
        begun[request["begin"]] = jobs[request["begin"]]()
        return {}
    if "run" in request:
        images = size = 0
        for batch in begun.pop(request["run"]):
            images, size = images + len(batch), size + batch.nbytes
        return {"images": images, "bytes": size}
    batches = [np.array(batch) for batch in jobs[request["save"]]()]
    result = np.concatenate(batches)
    with open(request["to"], "wb") as file:
        np.save(file, result)
    return {"images": len(result), "bytes": result.nbytes}


def versions(peer: Peer) -> dict[str, str]:
    """Versions of the peer's modules, as they name themselves."""
    return {name: str(getattr(importlib.import_module(name), "__version__", "?")) for name in peer.imports}


def main(argv: list[str]) -> int:
    child_process.answer_requests(handler(peers.get(argv[0])))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
