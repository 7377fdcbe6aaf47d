"""A script with the chain of AWS's PyTorch example, in NumPy and SciPy, and an accelerator that takes time and no CPU.

Digits in MNIST's shape become float32, are normalised and blurred by a kernel of 11 x 11, `--blurs` times.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from scipy.ndimage import gaussian_filter  # type: ignore[import-untyped]

import tfhet

EXAMPLES = 60_000


class Digits:
    """A map-style dataset of EXAMPLES pictures."""

    def __init__(self, blurs: int):
        self.images = np.random.default_rng(0).integers(0, 255, (256, 28, 28), np.uint8)
        self.blurs = blurs

    def __len__(self) -> int:
        return EXAMPLES

    def __getitem__(self, index: int) -> tuple[np.ndarray, int]:
        image = (self.images[index % 256].astype(np.float32) / 255 - 0.1307) / 0.3081
        for _ in range(self.blurs):
            image = gaussian_filter(image, np.random.uniform(0.1, 2.0), radius=5)
        return image, index % 10


def make_digits(shard: Any, blurs: int) -> Digits:
    """The examples that the feed serves."""
    return Digits(blurs)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--blurs", type=int, default=20)
    parser.add_argument("--step_ms", type=float, default=2.0)
    parser.add_argument("--seconds", type=float, default=10.0)
    args = parser.parse_args()
    loader = tfhet.batches(make_digits, arguments={"blurs": args.blurs}, batch_size=args.batch_size, shuffle=True)
    end_s = None
    for _ in loader:
        time.sleep(1e-3 * args.step_ms)
        end_s = end_s or time.monotonic() + args.seconds
        if time.monotonic() > end_s:
            break


if __name__ == "__main__":
    main()
