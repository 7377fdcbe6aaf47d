"""A process that makes batches of the chain, and does nothing else.

{"prepare": [batch size, blurs]} -> {}: it has made some
{"make": seconds}                -> {"batches": n, "seconds": s, "cpu_s": s}: made in so long
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.job_scripts.feed_train import Digits
from tfhet.bench.child_process import answer_requests

PREPARED = 3


def batches(size: int, blurs: int) -> Iterator[np.ndarray]:
    """Batches without end, float32 [size, 28, 28]."""
    digits = Digits(blurs)
    for begin in itertools.count(step=size):
        yield np.stack([digits[index][0] for index in range(begin, begin + size)])


def made(source: Iterator[np.ndarray], seconds: float) -> dict[str, float]:
    """How many batches it makes in `seconds`, one at least, and what they take."""
    began_s, cpu_s, count, taken_s = time.monotonic(), time.process_time(), 0, 0.0
    while count == 0 or taken_s < seconds:
        next(source)
        count, taken_s = count + 1, time.monotonic() - began_s
    return {"batches": count, "seconds": taken_s, "cpu_s": time.process_time() - cpu_s}


def main() -> None:
    """Answers until its input ends."""
    source: list[Iterator[np.ndarray]] = []

    def handle(request: dict[str, Any]) -> dict[str, Any]:
        if "prepare" in request:
            source.append(batches(*request["prepare"]))
            for _ in range(PREPARED):
                next(source[-1])
            return {}
        return dict(made(source[-1], request["make"]))

    answer_requests(handle)


if __name__ == "__main__":
    main()
