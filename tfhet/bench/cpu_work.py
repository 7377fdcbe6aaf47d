"""The work by which processors are compared: `python -m tfhet.bench.cpu_work` does it when a request asks for it.

It is what an input pipeline does to images, in plain numpy on one thread: a maximum over neighbours, sums of integers,
a look-up, a copy in another order; no matrix products, whose speed depends on a library. It must never change, because
records of it are compared over years. {"passes": n} is answered with {"cpu_s": s, "wall_s": s, "checksum": n}.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tfhet.bench.child_process import answer_requests
from tfhet.clock import SYSTEM, Clock

IMAGES, SIZE, CHANNELS = 64, 128, 3
CHECKSUM = 249_570_660
"""Result of one pass, the same on every machine."""


def images() -> np.ndarray:
    """Returns uint8 [IMAGES, SIZE, SIZE, CHANNELS]: bytes that look random and are the same everywhere."""
    numbers = np.arange(IMAGES * SIZE * SIZE * CHANNELS, dtype=np.uint64)
    mixed = (numbers + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(29)
    return (mixed >> np.uint64(32)).astype(np.uint8).reshape(IMAGES, SIZE, SIZE, CHANNELS)


def one_pass(batch: np.ndarray) -> int:
    rows = np.maximum(np.maximum(batch[:, :-2], batch[:, 1:-1]), batch[:, 2:])
    largest = np.maximum(np.maximum(rows[:, :, :-2], rows[:, :, 1:-1]), rows[:, :, 2:])
    wide = largest.astype(np.uint16)
    blurred = (wide[:, :, :-2] + 2 * wide[:, :, 1:-1] + wide[:, :, 2:]) >> np.uint16(2)
    table = np.arange(256, dtype=np.uint8)[::-1] ^ np.uint8(0x55)
    looked_up = table[blurred]
    turned = np.ascontiguousarray(looked_up[:, ::-1].transpose(0, 3, 1, 2))
    return int(turned.sum(dtype=np.uint64))


def answer(batch: np.ndarray, request: dict[str, Any], clock: Clock = SYSTEM) -> dict[str, Any]:
    """Does the passes of a request and returns the time that they took."""
    begun_s, cpu_s = clock.monotonic(), clock.cpu()
    checksum = 0
    for _ in range(request["passes"]):
        checksum = one_pass(batch)
    return {"cpu_s": clock.cpu() - cpu_s, "wall_s": clock.monotonic() - begun_s, "checksum": checksum}


if __name__ == "__main__":
    made = images()
    answer_requests(lambda request: answer(made, request))
