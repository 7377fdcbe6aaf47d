"""What each implementation of an operation costs, so that the cheapest one is taken for the images at hand.

The table is small: operation, backend, dtype, pixels of an image and channels, with microseconds of CPU for an image.
One is part of the package; `tfhet bench stages --calibrate` measures one on this machine into the user's cache, and
what that one knows of an operation is taken instead. All backends of an operation give the same images (up to the
rounding that the operation's tests allow), so hosts with different tables still work on one data set.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import tensorflow as tf

from tfhet import native
from tfhet.cluster import cache_dir, environment
from tfhet.errors import DataError, TfhetError, UsageError
from tfhet.record import document, machine

NATIVE, PLAIN = "native", "plain"
COMMITTED = Path(__file__).with_suffix(".json")
KIND = "cost table"
SCHEMA = 1

BACKENDS: Mapping[str, tuple[str, ...]] = {
    "project": (NATIVE, PLAIN),
    "blur": (NATIVE, "matrix"),
    "morphology": (NATIVE, PLAIN),
    "sharpen": (NATIVE, PLAIN),
    "line": (NATIVE, PLAIN),
    "lookup": (NATIVE, PLAIN),
    "equalize": (NATIVE, PLAIN),
    "statistics": (NATIVE, PLAIN),
    "colour": (NATIVE, PLAIN),
    "saturation": (NATIVE, PLAIN),
    "grey": (NATIVE, PLAIN),
    "noise": (NATIVE, PLAIN),
    "paint": (NATIVE, PLAIN),
    "resize": (NATIVE, PLAIN),
}
"""Operation to its implementations, the one to be taken without a measurement first."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Cost:
    """One line of the table."""

    operation: str
    """One of BACKENDS."""
    backend: str
    """One of the operation's."""
    dtype: str
    """Of the images."""
    pixels: int
    """Rows times columns of an image."""
    channels: int
    """Values per pixel."""
    us: float
    """Microseconds of CPU for one image."""


def cheapest(operation: str, images: tf.Tensor, candidates: Sequence[str], library: str | None = None) -> str:
    """The candidate that costs least for such images: measured with their dtype, at the size nearest to theirs.

    images: [batch, height, width, channels], possibly symbolic. The first candidate where the sizes are not known, or
    the table does not know it. `native` is left out unless the compiled ops of `library` can be had; without `library`
    the caller has seen to that.
    """
    if library is not None and not native.available(library):
        candidates = [candidate for candidate in candidates if candidate != NATIVE]
    if not candidates:
        raise UsageError(f"operation {operation!r}: no candidate to choose from")
    chosen = _chosen(operation, images, candidates)
    _choices[operation] = chosen
    return chosen


def _chosen(operation: str, images: tf.Tensor, candidates: Sequence[str]) -> str:
    if _forced.get(operation) in candidates:
        return _forced[operation]
    height, width, channels = images.shape[1:] if images.shape.rank == 4 else (None, None, None)
    if len(candidates) == 1 or height is None or width is None:
        return candidates[0]
    costs = {name: _cost(operation, name, images.dtype.name, height * width, channels) for name in candidates}
    if costs[candidates[0]] is None:
        return candidates[0]
    return min((name for name in candidates if costs[name] is not None), key=lambda name: costs[name] or 0.0)


def compiled(operation: str, library: str, images: tf.Tensor) -> Any | None:
    """`native.ops(library)`, or None where plain TensorFlow is cheaper for such images, or all that there is."""
    ops = native.ops(library)
    if ops is None:
        return None
    return ops if cheapest(operation, images, (NATIVE, PLAIN)) == NATIVE else None


def _cost(operation: str, backend: str, dtype: str, pixels: int, channels: int | None) -> float | None:
    known = [cost for cost in table() if (cost.operation, cost.backend, cost.dtype) == (operation, backend, dtype)]
    known = [cost for cost in known if cost.channels == channels] or known
    if not known:
        return None
    return min(known, key=lambda cost: abs(math.log(max(1, pixels) / cost.pixels))).us


# --- measuring ---

_forced: dict[str, str] = {}
_choices: dict[str, str] = {}


@contextlib.contextmanager
def forced(operation: str, backend: str) -> Iterator[Mapping[str, str]]:
    """`cheapest` gives this backend of the operation, if it is a candidate, in graphs that are traced inside; -> what
    each operation that asked was given."""
    before = dict(_forced)
    _forced[operation] = backend
    _choices.clear()
    try:
        yield _choices
    finally:
        _forced.clear()
        _forced.update(before)


# --- the table ---


def user_path() -> Path:
    """Where this machine's own table lies."""
    return cache_dir(environment()) / "costs.json"


@functools.cache
def table() -> tuple[Cost, ...]:
    """The lines of the package, replaced by those of this machine where it has measured an operation itself."""
    committed = read(COMMITTED)
    own: tuple[Cost, ...] = ()
    try:
        path = user_path()
        if path.exists() and document.read(path, KIND).get("cpu") == machine()["cpu"]:
            own = read(path)
    except (TfhetError, OSError, RuntimeError) as error:  # a broken table, or no home is no reason not to work
        log.warning("this machine's cost table is left out: %s", error)
    measured = {cost.operation for cost in own}
    return (*own, *(cost for cost in committed if cost.operation not in measured))


def read(path: Path) -> tuple[Cost, ...]:
    """Raises UsageError when there is no such table or its schema is another, DataError when it cannot be read."""
    found = document.read(path, KIND)
    document.check_schema(found, KIND, SCHEMA, str(path))
    try:
        return tuple(Cost(**line) for line in found["costs"])
    except (KeyError, TypeError) as error:
        raise DataError(f"{path} is not a {KIND}: {error!r}", str(path)) from None


def write(costs: Iterable[Cost], path: Path | None = None) -> Path:
    """The table as this machine's own (or under `path`), whole or not at all; this process takes it from now on."""
    lines = sorted(costs, key=lambda cost: (cost.operation, cost.dtype, cost.pixels, cost.channels, cost.backend))
    content = {"schema": SCHEMA, "cpu": machine()["cpu"], "costs": [asdict(cost) for cost in lines]}
    written = document.write(path or user_path(), content)
    table.cache_clear()
    return written
