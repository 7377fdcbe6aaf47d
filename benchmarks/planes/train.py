"""A script whose batches come over any data plane, and an accelerator that takes time and no CPU.

It stamps its first batch, and the two ends of a window of steps after it.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import psutil

import tfhet
from benchmarks.job_scripts.stamp import stamp
from benchmarks.planes.pictures import CHAINS, check, dataset, make_batches, make_blocks

BLOCKS, RAY_BLOCKS = 10_000, {"blurs": 300, "small": 300, "large": 600}
"""Blocks of an epoch, Ray's by chain: it plans all tasks of an epoch before the first one runs, and 10,000 took it a
minute. No epoch ends within a window."""
WARM_S, SETTLE_S = 5.0, 4.0
"""Seconds from the first batch until the hosts are limited, and from then to the window: processes of the plane still
start at the first batches."""


def loader(plane: str, name: str) -> Iterable[Any]:
    """The batches of this rank."""
    given: dict[str, Any] = {"name": name, "blocks": RAY_BLOCKS[name] if plane == "ray" else BLOCKS}
    if plane == "ray":
        return tfhet.batches(make_blocks, arguments=given, batch_size=CHAINS[name].batch_size)
    return tfhet.batches(make_batches, arguments=given) if plane == "feed" else tfhet.batches(dataset(**given))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--plane", choices=("tf_service", "feed", "ray"), required=True)
    parser.add_argument("--chain", choices=tuple(CHAINS), required=True)
    parser.add_argument("--step_ms", type=float, default=0.0)
    parser.add_argument("--seconds", type=float, default=10.0)
    args = parser.parse_args()
    endless, begun = loader(args.plane, args.chain), itertools.count()
    batches = itertools.chain.from_iterable(iter(endless) for _ in begun)
    first = next(batches)
    stamp("first_batch")
    check(first, args.chain)
    del first  # its memory is used again
    steps(batches, WARM_S, args.step_ms)
    stamp("warm")
    steps(batches, SETTLE_S, args.step_ms)
    stamp("window_begins")
    times = steps(batches, args.seconds, args.step_ms)
    if next(begun) > 1:
        raise SystemExit("an epoch ended before the window did: give train.py more blocks")
    # Batches come in bursts, a block after the other, so the two ends of the window say less than all of them.
    step_s = float(np.polyfit(np.arange(len(times)), times, 1)[0])
    rss = psutil.Process().memory_info().rss
    stamp("window_ends", step_s=f"{step_s:.9f}", steps=len(times), rss=rss)


def steps(batches: Iterator[Any], seconds: float, step_ms: float) -> list[float]:
    """Takes steps for so many seconds, and returns when each batch came."""
    times, end_s = [], time.monotonic() + seconds
    while time.monotonic() < end_s:
        batch = next(batches)
        times.append(time.monotonic())
        int(batch["image"][0, 0, 0, 0])
        if step_ms:
            time.sleep(1e-3 * step_ms)
    return times


if __name__ == "__main__":
    main()
