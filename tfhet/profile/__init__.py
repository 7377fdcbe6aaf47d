"""What an input pipeline costs, part by part: measured together and alone, with what would help most."""

from __future__ import annotations

from tfhet.profile.advice import Advice, advise, feeding
from tfhet.profile.declared import parts_of_pipeline
from tfhet.profile.part import Part
from tfhet.profile.plain import parts_of_dataset
from tfhet.profile.result import Cost, Profile
from tfhet.profile.rounds import Effort, measure
from tfhet.profile.target import load

__all__ = [
    "Advice",
    "Cost",
    "Effort",
    "Part",
    "Profile",
    "advise",
    "feeding",
    "load",
    "measure",
    "parts_of_dataset",
    "parts_of_pipeline",
]
