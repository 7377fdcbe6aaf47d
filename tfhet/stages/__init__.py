"""Stages: operations on batches of images, with their protocol, their registry and their fusion.

    from tfhet import stages

    chain = stages.parse("random_crop(padding=4); random_flip(); rescale()")
    stages.names()      # all stages, also from installed plug-ins
    stages.text(chain)  # the same chain as text

`docs/stages.md` shows what each stage does.
"""

from tfhet.stages import alone, randomness, tensor_chain
from tfhet.stages.call_syntax import CHAINS, chain, parse, text
from tfhet.stages.choice import Choice, OneOf, Probability
from tfhet.stages.colour import ColorJitter, Grayscale, RandomHue, RandomSaturation
from tfhet.stages.compiled import CompiledChain, compile
from tfhet.stages.conversion import Cast, Normalize, Rescale
from tfhet.stages.crop import CenterCrop, Pad, RandomCrop
from tfhet.stages.decoding import Decode
from tfhet.stages.filters import Dilate, Erode, GaussianBlur, Sharpen
from tfhet.stages.fusion import PlacedStage, Step, fuse, placed
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
from tfhet.stages.program import Program, Segment
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
from tfhet.stages.torchvision import Translation, from_torchvision

# fmt: off
__all__ = [
    "Affine", "Autocontrast", "Batch", "Cache", "Cast", "CenterCrop", "CHAINS", "Choice", "ColorJitter",
    "CompiledChain", "Cutmix", "Cutout", "Decode", "Dilate", "Equalize", "Erode", "Gamma", "GaussianBlur",
    "GaussianNoise", "Grayscale", "ImageSpec", "Interleave", "Invert", "Mixup", "Normalize", "OneHot", "OneOf",
    "Pad", "PlacedStage", "Policy", "Posterize", "Prefetch", "Probability", "Program", "RandAugment",
    "RandomAffine", "RandomBrightness", "RandomContrast", "RandomCrop", "RandomErasing", "RandomFlip", "RandomHue",
    "RandomResizedCrop", "RandomRotation", "RandomSaturation", "RandomShear", "RandomTranslation", "RandomZoom",
    "Repeat", "Rescale", "Resize", "ResizedCenterCrop", "Segment", "Sharpen", "Shuffle", "Solarize", "Stage",
    "Step", "Stream", "Translation", "TrivialAugment", "Within", "WithPartner", "chain", "compile", "from_torchvision",
    "fuse", "get", "names", "parse", "placed", "randomness", "register", "tensor_chain", "text",
]
