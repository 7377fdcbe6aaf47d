"""Stages: operations on batches of images, with their protocol, their registry and their fusion.

    from tfhet import stages

    chain = stages.parse("random_crop(padding=4); random_flip(); rescale()")
    stages.names()      # all stages, those of installed plug-ins included
    stages.text(chain)  # the same chain as text

`docs/stages.md` shows what each stage does.
"""

from __future__ import annotations

from tfhet.stages import randomness
from tfhet.stages.affine import Affine, RandomAffine
from tfhet.stages.call_syntax import chain, parse, text
from tfhet.stages.center_crop import CenterCrop, ResizedCenterCrop
from tfhet.stages.chains import CHAINS
from tfhet.stages.choice import Choice
from tfhet.stages.color_jitter import ColorJitter
from tfhet.stages.colour import RandomHue
from tfhet.stages.contrast import Autocontrast, Equalize, RandomContrast
from tfhet.stages.conversion import Cast, Rescale
from tfhet.stages.decoding import Decode
from tfhet.stages.fusion import PlacedStage, Step, fuse
from tfhet.stages.gaussian_blur import GaussianBlur
from tfhet.stages.gaussian_noise import GaussianNoise
from tfhet.stages.mixup import Cutmix, Mixup
from tfhet.stages.morphology import Dilate, Erode
from tfhet.stages.motion import RandomRotation, RandomShear, RandomTranslation, RandomZoom
from tfhet.stages.normalize import Normalize
from tfhet.stages.one_hot import OneHot
from tfhet.stages.one_of import OneOf, Probability
from tfhet.stages.pad import Pad
from tfhet.stages.painting import Cutout, RandomErasing
from tfhet.stages.partner import WithPartner
from tfhet.stages.policy import Policy, RandAugment, TrivialAugment
from tfhet.stages.random_crop import RandomCrop
from tfhet.stages.random_flip import RandomFlip
from tfhet.stages.random_resized_crop import RandomResizedCrop
from tfhet.stages.registry import get, load_plugins, names, register
from tfhet.stages.resize import Resize
from tfhet.stages.saturation import Grayscale, RandomSaturation
from tfhet.stages.sharpen import Sharpen
from tfhet.stages.spec import ImageSpec
from tfhet.stages.stage import Stage, Within
from tfhet.stages.stream import Batch, Cache, Interleave, Prefetch, Repeat, Shuffle, Stream
from tfhet.stages.tone import Gamma, Invert, Posterize, RandomBrightness, Solarize

# fmt: off
__all__ = [
    "CHAINS", "Affine", "Autocontrast", "Batch", "Cache", "Cast", "CenterCrop", "Choice", "ColorJitter", "Cutmix",
    "Cutout", "Decode", "Dilate", "Equalize", "Erode", "Gamma", "GaussianBlur", "GaussianNoise", "Grayscale",
    "ImageSpec", "Interleave", "Invert", "Within", "Mixup", "Normalize", "OneHot", "OneOf", "Pad", "PlacedStage",
    "Policy", "Posterize", "Prefetch", "Probability", "RandAugment", "RandomAffine", "RandomBrightness",
    "RandomContrast", "RandomCrop", "RandomErasing", "RandomFlip", "RandomHue", "RandomResizedCrop", "RandomRotation",
    "RandomSaturation", "RandomShear", "RandomTranslation", "RandomZoom", "Repeat", "Rescale", "Resize",
    "ResizedCenterCrop", "Sharpen", "Shuffle", "Solarize", "Stage", "Step", "Stream", "TrivialAugment", "WithPartner",
    "chain", "fuse", "get", "load_plugins", "names", "parse", "randomness", "register", "text",
]
