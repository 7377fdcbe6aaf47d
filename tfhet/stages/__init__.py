"""Stages: operations on batches of images, one per file, with their protocol and their registry.

    from tfhet import stages

    chain = stages.parse("random_crop(padding=4); random_flip(); rescale()")
    stages.names()      # all stages, those of installed plug-ins included
    stages.text(chain)  # the same chain as text

`docs/stages.md` shows what each stage does.
"""

from __future__ import annotations

from tfhet.stages.affine import Affine
from tfhet.stages.autocontrast import Autocontrast
from tfhet.stages.batch import Batch
from tfhet.stages.cache import Cache
from tfhet.stages.cast import Cast
from tfhet.stages.center_crop import CenterCrop
from tfhet.stages.chains import CHAINS
from tfhet.stages.choice import Choice
from tfhet.stages.color_jitter import ColorJitter
from tfhet.stages.cutmix import Cutmix
from tfhet.stages.cutout import Cutout
from tfhet.stages.decode import Decode
from tfhet.stages.dilate import Dilate
from tfhet.stages.equalize import Equalize
from tfhet.stages.erode import Erode
from tfhet.stages.gamma import Gamma
from tfhet.stages.gaussian_blur import GaussianBlur
from tfhet.stages.gaussian_noise import GaussianNoise
from tfhet.stages.grayscale import Grayscale
from tfhet.stages.interleave import Interleave
from tfhet.stages.invert import Invert
from tfhet.stages.mixup import Mixup
from tfhet.stages.normalize import Normalize
from tfhet.stages.one_hot import OneHot
from tfhet.stages.one_of import OneOf
from tfhet.stages.pad import Pad
from tfhet.stages.partner import WithPartner
from tfhet.stages.policy import Policy
from tfhet.stages.posterize import Posterize
from tfhet.stages.prefetch import Prefetch
from tfhet.stages.probability import Probability
from tfhet.stages.randaugment import RandAugment
from tfhet.stages.random_affine import RandomAffine
from tfhet.stages.random_brightness import RandomBrightness
from tfhet.stages.random_contrast import RandomContrast
from tfhet.stages.random_crop import RandomCrop
from tfhet.stages.random_erasing import RandomErasing
from tfhet.stages.random_flip import RandomFlip
from tfhet.stages.random_hue import RandomHue
from tfhet.stages.random_resized_crop import RandomResizedCrop
from tfhet.stages.random_rotation import RandomRotation
from tfhet.stages.random_saturation import RandomSaturation
from tfhet.stages.random_shear import RandomShear
from tfhet.stages.random_translation import RandomTranslation
from tfhet.stages.random_zoom import RandomZoom
from tfhet.stages.registry import chain, get, load_plugins, names, parse, register, text
from tfhet.stages.repeat import Repeat
from tfhet.stages.rescale import Rescale
from tfhet.stages.resize import Resize
from tfhet.stages.resized_center_crop import ResizedCenterCrop
from tfhet.stages.sharpen import Sharpen
from tfhet.stages.shuffle import Shuffle
from tfhet.stages.solarize import Solarize
from tfhet.stages.spec import ImageSpec
from tfhet.stages.stage import Stage
from tfhet.stages.stream import Stream
from tfhet.stages.trivialaugment import TrivialAugment

__all__ = [
    "CHAINS",
    "Affine",
    "Autocontrast",
    "Batch",
    "Cache",
    "Cast",
    "CenterCrop",
    "Choice",
    "ColorJitter",
    "Cutmix",
    "Cutout",
    "Decode",
    "Dilate",
    "Equalize",
    "Erode",
    "Gamma",
    "GaussianBlur",
    "GaussianNoise",
    "Grayscale",
    "ImageSpec",
    "Interleave",
    "Invert",
    "Mixup",
    "Normalize",
    "OneHot",
    "OneOf",
    "Pad",
    "Policy",
    "Posterize",
    "Prefetch",
    "Probability",
    "RandAugment",
    "RandomAffine",
    "RandomBrightness",
    "RandomContrast",
    "RandomCrop",
    "RandomErasing",
    "RandomFlip",
    "RandomHue",
    "RandomResizedCrop",
    "RandomRotation",
    "RandomSaturation",
    "RandomShear",
    "RandomTranslation",
    "RandomZoom",
    "Repeat",
    "Rescale",
    "Resize",
    "ResizedCenterCrop",
    "Sharpen",
    "Shuffle",
    "Solarize",
    "Stage",
    "Stream",
    "TrivialAugment",
    "WithPartner",
    "chain",
    "get",
    "load_plugins",
    "names",
    "parse",
    "register",
    "text",
]
