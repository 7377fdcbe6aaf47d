"""The built-in training script with a witness, which notes the examples that each rank trains on, for `faults.judge`.

`RANK.jsonl` in the folder `$TFHET_WITNESS`, or else in `$SAGEMAKER_BASE_DIR/output/data/witness`, has a line for each
call of the accelerator: the epoch, and a digest of the pixels and label of each example.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tfhet.cluster import environment
from tfhet.strategies import JobContext


class Witness:
    """Passes everything between the training loop and its reader and accelerator, and notes it."""

    def __init__(self, path: Path, reader: Any, accelerator: Any):
        path.parent.mkdir(parents=True, exist_ok=True)
        self._log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._epoch, self._pending = 0, list[str]()
        self.reader: Any = _Proxy(reader, epoch=self._reading(reader.epoch), singly=self._reading(reader.singly))
        self.accelerator: Any = _Proxy(accelerator, accumulate=self._accumulate, step=self._step)
        self._inner = accelerator

    def _reading(self, read: Any) -> Any:
        def deliveries(epoch: int, *rest: Any) -> Iterator[Any]:
            for delivery in read(epoch, *rest):
                self._epoch = epoch
                yield delivery

        return deliveries

    def _accumulate(self, batch: Any) -> None:
        self._pending += digests(*batch)
        self._inner.accumulate(batch)

    def _step(self, batch: Any, stop: bool = False) -> Any:
        content = self._pending + (digests(*batch) if batch else [])
        self._pending = []
        os.write(self._log, (json.dumps({"epoch": self._epoch, "content": content}) + "\n").encode())
        return self._inner.step(batch, stop)


class _Proxy:
    """An object with some attributes replaced; setting an attribute sets it on the object."""

    def __init__(self, inner: Any, **replaced: Any):
        vars(self).update(_inner=inner, _replaced=replaced)

    def __getattr__(self, name: str) -> Any:
        return self._replaced[name] if name in self._replaced else getattr(self._inner, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._inner, name, value)


def digests(images: Any, labels: Any) -> list[str]:
    """A digest of each example. images: [n, ...], uint8, or float in [0, 1] by the chain `none`; labels: [n] int64."""
    pixels = np.asarray(images)
    if pixels.dtype != np.uint8:
        pixels = np.rint(pixels * 255).astype(np.uint8)
    pairs = zip(pixels, np.asarray(labels), strict=True)
    return [hashlib.sha256(image.tobytes() + label.tobytes()).hexdigest()[:16] for image, label in pairs]


def main(argv: Sequence[str]) -> int:
    """Runs the built-in script with a witness; returns the exit code."""
    from tfhet.trainer import __main__ as script

    build = script.build

    def witnessed(settings: Any, job: JobContext, paths: Any) -> Any:
        training = build(settings, job, paths)
        folder = Path(environment().get("TFHET_WITNESS") or paths.output_data / "witness")
        witness = Witness(folder / f"{job.rank}.jsonl", training.reader, training.accelerator)
        training.reader, training.accelerator = witness.reader, witness.accelerator
        return training

    script.build = witnessed
    return script.main(argv, environment())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
