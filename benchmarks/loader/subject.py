"""The process of one loader: reads a request from standard input, answers with one line of JSON, and ends.

It runs as a file, and imports nothing but the standard library before the loader's modules.
"""

from __future__ import annotations

import importlib
import itertools
import json
import os
import sys
import types
from pathlib import Path
from time import perf_counter
from typing import Any


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what libraries print goes to standard error
    try:
        answer = _answer(json.load(sys.stdin))
    except Exception as error:  # noqa: BLE001  foreign code: the runner reports what it raised
        answer = {"error": f"{type(error).__name__}: {error}"}
    answers.write(json.dumps(answer))
    answers.flush()
    os._exit(0)  # the runner ends the worker processes


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    begun_s = perf_counter()
    modules = {name: importlib.import_module(name) for name in request["imports"]}
    answer: dict[str, Any] = {"import_s": perf_counter() - begun_s}
    answer["versions"] = {name: str(getattr(module, "__version__", "?")) for name, module in modules.items()}
    if request.get("is_sampled"):
        answer["import_mib"] = _memory_mib()
    package = types.ModuleType("benchmarks")  # without its __init__, which imports parts of tfhet
    package.__path__ = [str(Path(__file__).parents[1])]
    sys.modules["benchmarks"] = package
    from benchmarks.loader.loaders import LOADERS
    from benchmarks.peers.peer import Job

    loader, job = LOADERS[request["loader"]], Job.from_json(request["job"])
    if "prepare" in request:
        assert loader.prepare is not None
        loader.prepare(job)
        return answer
    batches = loader.build(job)

    def take(count: int) -> Any:
        for images, labels in itertools.islice(batches, count):
            shapes = [(job.batch_size, 3, job.size, job.size), (job.batch_size, job.size, job.size, 3)]
            dtype = str(images.dtype).removeprefix("torch.")
            if tuple(images.shape) not in shapes or dtype != loader.dtype or len(labels) != job.batch_size:
                raise ValueError(f"batch of {dtype} {list(images.shape)} with {len(labels)} labels")
        return images, labels

    images, labels = take(1)
    answer["first_batch_s"], size = perf_counter() - begun_s, len(job.files) // job.batch_size
    if "save" in request:
        import numpy as np

        np.savez(request["save"], images=np.asarray(images), labels=np.asarray(labels).ravel())
        return answer
    take(max(1, size // 2))  # until the queues are full
    start_s, taken, spent_s = perf_counter(), 0, 0.0
    while spent_s < request["seconds"]:
        take(size)
        taken, spent_s = taken + size * job.batch_size, perf_counter() - start_s
    return {**answer, "images_per_s": taken / spent_s}


def _memory_mib() -> float:
    """This process's PSS."""
    lines = Path("/proc/self/smaps_rollup").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


if __name__ == "__main__":
    main()
