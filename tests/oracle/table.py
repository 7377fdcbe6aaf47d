"""The tables of stages by name, and what is chosen among stages: one_of and probability."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from oracle import randomness
from tfhet.stages import Choice, ImageSpec, Stage

Drawn: TypeAlias = Mapping[str, np.ndarray]
Images: TypeAlias = "np.ndarray | list[np.ndarray] | list[bytes]"

FULL = {"uint8": 255.0, "float32": 1.0}
"""Brightest level by dtype."""

DRAWS: dict[str, Callable[..., dict[str, np.ndarray]]] = {}
"""By stage: (stage, keys, spec) to parameters."""
APPLIES: dict[str, Callable[..., Images]] = {}
"""By stage: (stage, images, parameters) to images."""
WINDOWS: dict[str, Callable[..., np.ndarray]] = {}
"""By stage: (stage, parameters, sizes int32 [1 or batch, 2]) to windows, float32 [1 or batch, 4]."""
TRANSFORMS: dict[str, Callable[..., np.ndarray]] = {}
"""By stage: (stage, parameters, height, width) to float32 [1 or batch, 8]; see `motion`."""
LINES: dict[str, Callable[..., Any]] = {}
"""By stage: (stage, parameters and statistics, dtype) to `tone.Line`."""
MEASURES: dict[str, Callable[..., dict[str, np.ndarray]]] = {}
"""By stage: images to the statistics that its line needs."""


def entered(table: dict[str, Any], *names: str) -> Callable[[Any], Any]:
    """Decorator that enters a function for stages."""

    def enter(function: Any) -> Any:
        table.update(dict.fromkeys(names, function))
        return function

    return enter


def parameters(stage: Stage, keys: np.ndarray, spec: ImageSpec) -> dict[str, np.ndarray]:
    """Returns the random parameters by name, [batch] or [batch, k]. keys: uint64 [batch]."""
    if isinstance(stage, Choice):
        return _choices(stage, keys, spec)
    return DRAWS[stage.name](stage, keys, spec) if stage.name in DRAWS else {}


def apply(stage: Stage, images: Images, drawn: Drawn | None = None) -> Images:
    """Returns the images after a stage. drawn: its parameters; None for a stage without."""
    drawn = drawn or {}
    return _by_branch(stage, images, drawn) if isinstance(stage, Choice) else APPLIES[stage.name](stage, images, drawn)


def windows(stage: Stage, drawn: Drawn, sizes: np.ndarray) -> np.ndarray:
    """Returns first row, first column, rows and columns: float32 [1 or batch, 4]. sizes: int32 [1 or batch, 2]."""
    return np.asarray(WINDOWS[stage.name](stage, drawn, np.asarray(sizes, np.int32)), np.float32)


def _prefix(branch: Stage, at: int) -> str:
    return f"{branch.name}:{at}/"


def _choices(stage: Choice, keys: np.ndarray, spec: ImageSpec) -> dict[str, np.ndarray]:
    ends = np.float32(list(itertools.accumulate(stage.shares))[:-1])
    drawn = {"choice": np.int32((randomness.uniform(keys, 0)[:, None] >= ends).sum(axis=1))}
    for at, branch in enumerate(stage.branches):
        if branch is not None:
            digest = hashlib.blake2b(f"{branch.name}/{at}".encode(), digest_size=8).digest()
            own = parameters(branch, randomness.absorb(keys, int.from_bytes(digest, "little")), spec)
            drawn.update({f"{_prefix(branch, at)}{name}": value for name, value in own.items()})
    return drawn


def _by_branch(stage: Choice, images: np.ndarray, drawn: Drawn) -> np.ndarray:
    parts = []
    for at, branch in enumerate(stage.branches):
        places = np.flatnonzero(drawn["choice"] == at)
        if branch is None or not len(places):
            parts.append(images[places])
            continue
        before = _prefix(branch, at)
        own = {name.removeprefix(before): v[places] for name, v in drawn.items() if name.startswith(before)}
        parts.append(apply(branch, images[places], own))
    return dealt_out(drawn["choice"], [part for part in parts if len(part)] or [images])


def dealt_out(numbers: np.ndarray, parts: list[np.ndarray]) -> np.ndarray:
    """Returns the rows of the parts, of which there is one for each different number, at the places of the numbers."""
    return np.concatenate(parts)[np.argsort(np.argsort(numbers, kind="stable"), kind="stable")]
