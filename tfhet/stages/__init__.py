"""What happens to an element: the stage, the registry of stages, one operation per file."""

from __future__ import annotations

from tfhet.stages.chains import CHAINS
from tfhet.stages.dilate import Dilate
from tfhet.stages.gaussian_blur import GaussianBlur
from tfhet.stages.random_flip import RandomFlip
from tfhet.stages.random_rotation import RandomRotation
from tfhet.stages.random_zoom import RandomZoom
from tfhet.stages.registry import chain, get, load_plugins, names, parse, register, text
from tfhet.stages.rescale import Rescale
from tfhet.stages.spec import ImageSpec
from tfhet.stages.stage import Stage

__all__ = [
    "CHAINS",
    "Dilate",
    "GaussianBlur",
    "ImageSpec",
    "RandomFlip",
    "RandomRotation",
    "RandomZoom",
    "Rescale",
    "Stage",
    "chain",
    "get",
    "load_plugins",
    "names",
    "parse",
    "register",
    "text",
]
