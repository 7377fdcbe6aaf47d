"""A peer: another library that does a chain, run in a process of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from benchmarks.peers.job import Job


@dataclass(frozen=True)
class Peer:
    """One library. What it is made of is imported only in its process."""

    name: str
    """The word on the command line and in the figures."""
    words: str
    """Its name in tables."""
    imports: tuple[str, ...]
    """Modules that have to be there."""
    requires: tuple[str, ...]
    """Packages that `--peers install` installs, as pip takes them."""
    does: Mapping[str, tuple[str, ...]]
    """Chain to the ways in which this library does it."""
    build: Callable[[Job], Callable[[], Iterator[np.ndarray]]]
    """Prepares a job; each call of the result gives batches of all images, and does nothing before one is asked for."""
    dependencies: bool = True
    """Whether pip adds what the packages ask for; False where that would bring a second TensorFlow."""
    dtypes: tuple[str, ...] = ("uint8", "float32")
    """Dtypes of the batches that it can make."""
    on_one_thread: tuple[str, ...] = ()
    """Chains that it does on one thread, however many a job has: its throughput is that of one core."""
    differs: str = ""
    """Where its result is knowingly not that of tfhet; empty when only rounding and resampling differ."""
