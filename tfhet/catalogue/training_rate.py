"""How many images a second published training runs read: what an accelerator asks of an input pipeline."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tfhet.catalogue.instance_type import Day, Positive, Words
from tfhet.schema import whole
from tfhet.yaml_file import YamlFile, read_text

_RATES = Path(__file__).with_name("training_rates.yaml")


@dataclass(frozen=True)
class TrainingRate:
    """One published training, by others."""

    model: Words
    gpu_kind: Words
    """Model of its GPUs (`A100`), as instance types name it."""
    gpus: Annotated[int, whole(1, 1024)]
    images_per_s: Positive
    """Throughput of all GPUs together."""
    side: Annotated[int, whole(1, 100_000)]
    """Rows and columns of an image that the network is given."""
    precision: Words
    source: Words
    date: Day
    """Day of its publication, or on which it was read where it gives none."""

    def on(self, gpus: int) -> float:
        """Images a second of this number of GPUs, if each of them is as fast as one was: an assumption where the number
        differs."""
        return self.images_per_s * gpus / self.gpus


@dataclass(frozen=True)
class _RatesFile:
    rates: tuple[TrainingRate, ...] = ()


@functools.cache
def training_rates() -> tuple[TrainingRate, ...]:
    """Returns the published training runs that come with the package. Raises UsageError for a file with mistakes."""
    return YamlFile(read_text(_RATES, "file of training rates"), _RATES.name).read(_RatesFile).rates
