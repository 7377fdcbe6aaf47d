"""Stages: operations on batches of images, with their protocol, their registry and their fusion.

    from tfhet import stages

    chain = stages.parse("random_crop(padding=4); random_flip(); rescale()")
    stages.names()      # all stages, also from installed plug-ins
    stages.text(chain)  # the same chain as text

`docs/stages.md` shows what each stage does.
"""

from tfhet.extras import needed

with needed(__name__):
    import tensorflow  # first, for its error

from tfhet.stages import randomness
from tfhet.stages.call_syntax import CHAINS, chain, parse, text
from tfhet.stages.choice import Choice, OneOf, Probability
from tfhet.stages.colour import ColorJitter, Grayscale, RandomHue, RandomSaturation
from tfhet.stages.conversion import Cast, Normalize, Rescale
from tfhet.stages.crop import CenterCrop, Pad, RandomCrop
from tfhet.stages.decoding import Decode
from tfhet.stages.filters import Dilate, Erode, GaussianBlur, Sharpen
from tfhet.stages.fusion import PlacedStage, Step, fuse
from tfhet.stages.mixup import Cutmix, Mixup, OneHot, WithPartner
from tfhet.stages.motion import (
    Affine,
    RandomAffine,
    RandomFlip,
    RandomRotation,
    RandomShear,
    RandomTranslation,
    RandomZoom,
)
from tfhet.stages.painting import Cutout, RandomErasing
from tfhet.stages.policy import Policy, RandAugment, TrivialAugment
from tfhet.stages.registry import get, names, register
from tfhet.stages.resize import RandomResizedCrop, Resize, ResizedCenterCrop
from tfhet.stages.spec import ImageSpec
from tfhet.stages.stage import Stage, Within
from tfhet.stages.stream import Batch, Cache, Interleave, Prefetch, Repeat, Shuffle, Stream
from tfhet.stages.tone import (
    Autocontrast,
    Equalize,
    Gamma,
    GaussianNoise,
    Invert,
    Posterize,
    RandomBrightness,
    RandomContrast,
    Solarize,
)

# fmt: off
__all__ = [
    "CHAINS", "Affine", "Autocontrast", "Batch", "Cache", "Cast", "CenterCrop", "Choice", "ColorJitter", "Cutmix",
    "Cutout", "Decode", "Dilate", "Equalize", "Erode", "Gamma", "GaussianBlur", "GaussianNoise", "Grayscale",
    "ImageSpec", "Interleave", "Invert", "Within", "Mixup", "Normalize", "OneHot", "OneOf", "Pad", "PlacedStage",
    "Policy", "Posterize", "Prefetch", "Probability", "RandAugment", "RandomAffine", "RandomBrightness",
    "RandomContrast", "RandomCrop", "RandomErasing", "RandomFlip", "RandomHue", "RandomResizedCrop", "RandomRotation",
    "RandomSaturation", "RandomShear", "RandomTranslation", "RandomZoom", "Repeat", "Rescale", "Resize",
    "ResizedCenterCrop", "Sharpen", "Shuffle", "Solarize", "Stage", "Step", "Stream", "TrivialAugment", "WithPartner",
    "chain", "fuse", "get", "names", "parse", "randomness", "register", "text",
]
