"""What an input pipeline costs, part by part: measured together and alone, with what would help most."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tfhet.profile.advice import Advice, advise, feeding
from tfhet.profile.anatomy import Anatomy
from tfhet.profile.part import Part
from tfhet.profile.result import Cost, Profile

if TYPE_CHECKING:
    from tfhet.profile.declared import parts_of_pipeline
    from tfhet.profile.dissection import anatomy_of
    from tfhet.profile.plain import parts_of_dataset
    from tfhet.profile.rounds import Effort, measure
    from tfhet.profile.target import load

__all__ = [
    "Advice",
    "Anatomy",
    "Cost",
    "Effort",
    "Part",
    "Profile",
    "advise",
    "anatomy_of",
    "feeding",
    "load",
    "measure",
    "parts_of_dataset",
    "parts_of_pipeline",
]

_HOME = {
    "anatomy_of": "dissection",
    "Effort": "rounds",
    "load": "target",
    "measure": "rounds",
    "parts_of_dataset": "plain",
    "parts_of_pipeline": "declared",
}


def __getattr__(name: str) -> Any:
    # A plan reads profiles that were measured: it must start in a moment, without TensorFlow.
    if name not in _HOME:
        raise AttributeError(name)
    import importlib

    found = getattr(importlib.import_module(f"tfhet.profile.{_HOME[name]}"), name)
    globals()[name] = found  # in place of a module of the same name
    return found
