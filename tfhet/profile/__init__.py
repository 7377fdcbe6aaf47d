"""What an input pipeline costs, part by part: measured together and alone, and whether the parts explain the whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfhet import lazy

if TYPE_CHECKING:
    from tfhet.profile.anatomy import Anatomy
    from tfhet.profile.declared import parts_of_pipeline
    from tfhet.profile.dissection import anatomy_of
    from tfhet.profile.part import PipelinePart
    from tfhet.profile.plain import parts_of_dataset
    from tfhet.profile.result import Cost, Profile
    from tfhet.profile.rounds import Effort, measure
    from tfhet.profile.target import load

__all__ = [
    "Anatomy",
    "Cost",
    "Effort",
    "PipelinePart",
    "Profile",
    "anatomy_of",
    "load",
    "measure",
    "parts_of_dataset",
    "parts_of_pipeline",
]

lazy.names_on_demand(__name__)
