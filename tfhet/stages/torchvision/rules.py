"""The rules of `from_torchvision`: for each transform, by the name of its class, the stages that equal it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from tfhet.stages.colour import ColorJitter, Grayscale
from tfhet.stages.conversion import Cast, Normalize
from tfhet.stages.filters import GaussianBlur, Sharpen
from tfhet.stages.painting import RandomErasing
from tfhet.stages.policy import BINS, RandAugment, TrivialAugment
from tfhet.stages.stage import Stage
from tfhet.stages.tone import Autocontrast, Equalize, GaussianNoise, Invert, Posterize, Solarize
from tfhet.stages.torchvision.geometry import GEOMETRY
from tfhet.stages.torchvision.images import Images, Rule, Untranslatable, applied, constant, pair, sampled, symmetric

CONTAINERS = ("RandomApply", "RandomChoice")
KEEPS_PENDING: Mapping[str, tuple[bool, bool]] = {
    "CenterCrop": (True, True),
    "RandomHorizontalFlip": (False, True),
    "RandomVerticalFlip": (False, True),
    "Normalize": (False, True),
    **dict.fromkeys(("Identity", "RGB", "PILToTensor", "ToImage", "ToPureTensor", "ToPILImage"), (True, True)),
    **dict.fromkeys(("ToTensor", "ConvertImageDtype", "ToDtype"), (True, True)),
}
"""Transforms before which a Resize without CenterCrop, and a conversion to 0..1, may stay without a stage."""
_REASONS = {
    "Lambda": "it is a Python function: write a stage of your own",
    "MixUp": "it needs a batch and labels: add one_hot(classes) and mixup(alpha), and run the chain in collate_fn",
    "CutMix": "it needs a batch and labels: add one_hot(classes) and cutmix(alpha), and run the chain in collate_fn",
    "RandomOrder": "stages have a fixed order",
    "FiveCrop": "it makes five images of one",
    "TenCrop": "it makes ten images of one",
}


def why_not(transform: Any) -> str:
    """Returns why a transform without a rule is not translated."""
    kind = type(transform)
    if not kind.__module__.startswith("torchvision.transforms."):
        return f"{kind.__module__}.{kind.__qualname__} is no transform of torchvision: write a stage of your own"
    return _REASONS.get(kind.__name__, "there is no stage for it")


def _color_jitter(transform: Any, images: Images) -> Sequence[Stage]:
    reach = {}
    for name in ("brightness", "contrast", "saturation"):
        bounds = getattr(transform, name)
        reach[name] = 0.0 if bounds is None else symmetric(bounds, name, 1.0, 0.0)
    reach["hue"] = 0.0 if transform.hue is None else symmetric(transform.hue, "hue")
    drawn = [name for name, value in reach.items() if value > 0.0]
    if len(drawn) > 1:
        images.notes.append(
            f"the order is {', '.join(drawn)}, with one rounding; torchvision draws the order for each image"
        )
    if "hue" in drawn and not images.is_float:
        images.notes.append("the hue is a real number; Pillow rounds hue, saturation and value to 256 levels")
    return [ColorJitter(**reach)] if drawn else []


def _grayscale(transform: Any, images: Images) -> Sequence[Stage]:
    return [Grayscale(transform.num_output_channels)]


def _gaussian_blur(transform: Any, images: Images) -> Sequence[Stage]:
    height, width = pair(transform.kernel_size)
    low, high = (float(n) for n in transform.sigma)
    if height != width:
        raise Untranslatable(f"the kernel is {height} x {width}, and the stage has a square one")
    if low != high:
        raise Untranslatable(f"sigma is drawn from {low:g} to {high:g}, and the stage has a fixed one")
    if not images.is_float:
        images.notes.append("uint8 results are truncated, torchvision rounds them: half a level darker on average")
    return [GaussianBlur(height, low, padding="REFLECT")]


def _solarize(transform: Any, images: Images) -> Stage:
    threshold = float(transform.threshold) * (255.0 if images.is_float else 1.0)
    if images.is_float and threshold != round(threshold):
        raise Untranslatable(f"the threshold {transform.threshold:g} is not a 255th, as the stage has it")
    return Solarize(math.ceil(threshold))


def _policy(transform: Any, images: Images) -> Sequence[Stage]:
    if transform.num_magnitude_bins != BINS:
        raise Untranslatable(f"num_magnitude_bins is {transform.num_magnitude_bins}, and the stage has {BINS}")
    fill = constant(transform.fill)
    sampled(transform, images)
    if type(transform).__name__ == "TrivialAugmentWide":
        return [TrivialAugment(fill_value=fill)]
    return [RandAugment(transform.num_ops, transform.magnitude, fill)] if transform.num_ops else []


def _random_erasing(transform: Any, images: Images) -> Sequence[Stage]:
    if transform.value is None or transform.value == "random":
        raise Untranslatable("the rectangle is filled with noise, and the stage fills it with one value")
    scale, ratio = (tuple(float(n) for n in pair) for pair in (transform.scale, transform.ratio))
    height, width = images.size or (1, 1)
    longest = max(ratio[1] * width / height, height / width / ratio[0])
    if images.size is None or scale[1] * longest >= 1.0:
        images.notes.append("a rectangle that is longer than the image is cut, torchvision draws again")
    if transform.p <= 0.0:
        return []
    return [RandomErasing(float(transform.p), scale, ratio, constant(transform.value))]  # type: ignore[arg-type]


def _gaussian_noise(transform: Any, images: Images) -> Sequence[Stage]:
    if transform.mean != 0.0 or not transform.clip:
        raise Untranslatable("the stage has mean 0 and clips")
    return [GaussianNoise(float(transform.sigma))]


def _to_tensor(transform: Any, images: Images) -> Sequence[Stage]:
    images.is_due = images.is_due or not images.is_float
    images.is_float = images.is_tensor = True
    return []


def _to_dtype(transform: Any, images: Images) -> Sequence[Stage]:
    dtype = transform.dtype
    if isinstance(dtype, Mapping):
        by_name = {getattr(key, "__name__", key): value for key, value in dtype.items()}
        dtype = by_name.get("Image", by_name.get("Tensor", by_name.get("others")))
    wanted = str(dtype).removeprefix("torch.")
    if dtype is None or wanted == ("float32" if images.is_float else "uint8"):
        return []
    if wanted != "float32":
        raise Untranslatable(f"images become {wanted}: the stages make float32 of uint8")
    if getattr(transform, "scale", True):
        return _to_tensor(transform, images)
    images.is_float = True
    return [Cast("float32")]


def _to_pil(transform: Any, images: Images) -> Sequence[Stage]:
    if images.is_float:
        raise Untranslatable("float images become uint8, which no stage does by truncation")
    images.is_tensor = False
    return []


def _normalize(transform: Any, images: Images) -> Sequence[Stage]:
    if not images.is_float:
        raise Untranslatable("the images are uint8 here, which torchvision does not normalize: put ToTensor before")
    images.is_due = False
    mean, std = (tuple(float(n) for n in values) for values in (transform.mean, transform.std))
    return [Normalize(mean, std)]


def _nothing(transform: Any, images: Images) -> Sequence[Stage]:
    return []


def _rgb(transform: Any, images: Images) -> Sequence[Stage]:
    images.notes.append("the images must have three channels already, as after decode(channels=3)")
    return []


def _tensor(transform: Any, images: Images) -> Sequence[Stage]:
    images.is_tensor = True
    return []


RULES: Mapping[str, Rule] = {
    **GEOMETRY,
    "ColorJitter": _color_jitter,
    "ConvertImageDtype": _to_dtype,
    "GaussianBlur": _gaussian_blur,
    "GaussianNoise": _gaussian_noise,
    "Grayscale": _grayscale,
    "Identity": _nothing,
    "Normalize": _normalize,
    "PILToTensor": _tensor,
    "RGB": _rgb,
    "RandAugment": _policy,
    "RandomAdjustSharpness": applied(lambda transform, images: Sharpen(float(transform.sharpness_factor))),
    "RandomAutocontrast": applied(lambda transform, images: Autocontrast()),
    "RandomEqualize": applied(lambda transform, images: Equalize()),
    "RandomErasing": _random_erasing,
    "RandomGrayscale": applied(lambda transform, images: Grayscale(3)),
    "RandomInvert": applied(lambda transform, images: Invert()),
    "RandomPosterize": applied(lambda transform, images: Posterize(transform.bits)),
    "RandomSolarize": applied(_solarize),
    "ToDtype": _to_dtype,
    "ToImage": _tensor,
    "ToPILImage": _to_pil,
    "ToPureTensor": _nothing,
    "ToTensor": _to_tensor,
    "TrivialAugmentWide": _policy,
}
"""By the name of a transform's class, which is the same in versions 1 and 2."""
