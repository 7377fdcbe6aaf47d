"""Changes that make an input pipeline cheaper, found in its profile: one function per rule."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from tfhet.advice.finding import Finding, counted
from tfhet.profile import NATIVE, PYTHON, RAY, Profile

MOST_FINDINGS = 3
LARGE_SHARE = 0.1
"""Share of a pipeline's CPU, 0 to 1, from which a part gets advice."""
DOMINANT_SHARE = 0.5
"""Share of a pipeline's CPU, 0 to 1, from which a part dominates it."""
TRAINER_SHARE = 0.5
"""Maximum share of a pipeline's CPU, 0 to 1, that may move to the trainer to send fewer bytes."""
FEWER_BYTES = 2.0
"""Minimum factor by which a recommended cut reduces the bytes between hosts."""
STORED = "stored_images"
"""Kind of the finding that has a cost: more bytes on disk."""
CALL_US = 10.0
"""Minimum CPU microseconds of a call of a mapped function without its work (TensorFlow 2.15: 9 to 20 us)."""
STAGES = {
    "Dilation2D": "dilate",
    "DepthwiseConv2dNative": "gaussian_blur",
    "ImageProjectiveTransformV3": "random_rotation, random_zoom or random_affine, which run as one sampling",
    "ImageProjectiveTransformV2": "random_rotation, random_zoom or random_affine, which run as one sampling",
    "CropAndResize": "random_resized_crop",
    "ResizeBilinear": "resize or random_resized_crop",
    "AdjustContrastv2": "random_contrast",
    "AdjustHue": "random_hue",
    "AdjustSaturation": "random_saturation",
    "ReverseV2": "random_flip",
    "DecodeJpeg": "decode",
    "DecodePng": "decode",
    "DecodeImage": "decode",
}
"""Graph operation of a transformation -> tfhet stages that do it on whole batches."""
_PYTHON = {"PyFunc", "PyFuncStateless", "EagerPyFunc"}
_DECODES = ("DecodeJpeg", "DecodePng", "DecodeImage")
_CROPS = ("CropAndResize", "ResizeBilinear")


def of_pipeline(profile: Profile) -> list[Finding]:
    """Returns the changes that save most CPU, at most MOST_FINDINGS."""
    found = [finding for rule in RULES for finding in rule(profile)]
    return sorted(found, key=lambda finding: -finding.saves_us)[:MOST_FINDINGS]


def python_inside(profile: Profile) -> Iterator[Finding]:
    """Parts that call Python for every element, on one thread."""
    for index, cost in enumerate(profile.costs):
        if not _PYTHON.isdisjoint(cost.ops):
            calls = f"{cost.name!r} calls Python for every element {_of_whole(profile, index)}"
            slow = "one core at most, and never on a data host. Write it with TensorFlow operations"
            yield Finding("python_inside", f"{calls}: {slow} (the estimate is all of it)", max(0.0, profile.us(index)))


def single_images(profile: Profile) -> Iterator[Finding]:
    """Maps over single elements before a batch."""
    batch = max(cost.examples for cost in profile.costs)
    single = [i for i in range(1, len(profile.costs)) if profile.costs[i - 1].examples == 1]
    maps = [i for i in single if profile.costs[i].kind in ("Map", "ParallelMap")]
    together = sum(max(0.0, profile.us(i)) for i in maps)
    if batch == 1 or not maps or together < LARGE_SHARE * profile.whole_us:
        return
    stages = _stages(op for i in maps for op in profile.costs[i].ops)
    yield Finding(
        "single_images",
        f"{counted(len(maps), 'map')} on single elements ({together:.1f} us of {profile.whole_us:.1f}): batch first and"
        f" map over {batch} at once{f'; tfhet has {stages} for whole batches' if stages else ''} (the estimate is the"
        f" function calls alone, {CALL_US:g} us each)",
        min(together, CALL_US * len(maps) * (1 - 1 / batch)),
    )


def wide_wire(profile: Profile) -> Iterator[Finding]:
    """More bytes at the end than earlier: mostly float32 instead of uint8."""
    end = profile.costs[-1].bytes_per_example
    # the work of the data group must not move to the GPU's host for fewer bytes
    cheap = [i for i in range(len(profile.costs)) if _rest_us(profile, i) <= TRAINER_SHARE * profile.whole_us]
    places = [i for i in cheap if profile.costs[i].bytes_per_example <= end / FEWER_BYTES]
    is_native = profile.costs[0].kind == NATIVE
    if is_native:  # batches are of images, not of files
        places = [i for i in places if profile.costs[i].dtype != "string"]
    if not places:
        return
    best = min(places, key=lambda i: (profile.costs[i].bytes_per_example, -i))
    cut = profile.costs[best]
    fewer = f"{end / max(1, cut.bytes_per_example):.1f} times fewer bytes between hosts"
    rest = ", ".join(repr(cost.name) for cost in profile.costs[best + 1 :])
    if is_native:
        ends = f"end the pipeline after {cut.name!r}, {cut.bytes_per_example} B an example instead of {end} B, and do"
        yield Finding("wide_wire", f"{ends} {rest} on the accelerator: {fewer} and to the accelerator")
        return
    yield Finding(
        "wide_wire",
        f"send examples after {cut.name!r}, {cut.bytes_per_example} B each, not at the end ({end} B): {fewer}, with"
        f" {rest} on the trainer ({_rest_us(profile, best):.1f} us per example)",
    )


def whole_then_crop(profile: Profile) -> Iterator[Finding]:
    """Whole images that are decoded and cropped."""
    for index, cost in enumerate(profile.costs):
        decodes = set(cost.ops) & set(_DECODES) or cost.name.startswith("decode(")
        crops = any(set(other.ops) & set(_CROPS) or "crop(" in other.name for other in profile.costs[index:])
        if decodes and crops and profile.share(index) >= LARGE_SHARE and "; " not in cost.name:
            yield Finding(
                "whole_then_crop",
                f"{cost.name!r} decodes whole images {_of_whole(profile, index)} and keeps a part: decode()"
                " followed by random_resized_crop() decodes only the window (half the pixels on average at the usual"
                " scale of 0.08 to 1: the estimate is a third of it, as entropy decoding stays)",
                profile.us(index) / 3,
            )
            return


def stored_images(profile: Profile) -> Iterator[Finding]:
    """Images that are decoded in every epoch; a sample was stored decoded and measured."""
    one = profile.stored
    if one is None or (saves_us := one.file_us - one.stored_us) < LARGE_SHARE * profile.whole_us:
        return
    yield Finding(
        STORED,
        f"decode once for all epochs: after tfhet convert --store yuv420 an image takes {one.stored_us:.1f} us to"
        f" decode and crop instead of {one.file_us:.1f}, and {one.stored_bytes:,} B on disk instead of"
        f" {one.file_bytes:,} B, {one.stored_bytes / max(1, one.file_bytes):.1f} times as much (measured with"
        f" {one.images} images, without reading)",
        saves_us,
    )


def sequential_maps(profile: Profile) -> Iterator[Finding]:
    """The most expensive map on one thread."""
    slow = [i for i, cost in enumerate(profile.costs) if cost.parallel is False and profile.share(i) >= LARGE_SHARE]
    if slow:
        worst = max(slow, key=profile.us)
        thread = f"{profile.costs[worst].name!r} runs on one thread {_of_whole(profile, worst)}"
        most = f"so at most {1e6 / profile.us(worst):.0f} examples per second"
        parallel = "give it num_parallel_calls=tf.data.AUTOTUNE (saves time, no CPU)"
        yield Finding("sequential_map", f"{thread}, {most}: {parallel}")


def dominant_part(profile: Profile) -> Iterator[Finding]:
    """A part that is most of the cost: the source, or another one."""
    worst = 0 if profile.share(0) >= DOMINANT_SHARE else max(range(len(profile.costs)), key=profile.us)
    if profile.share(worst) < DOMINANT_SHARE or len(profile.costs) == 1:
        return
    part = profile.costs[worst]
    share, saves_us = f"{part.name!r} is {profile.share(worst):.0%} of the cost", profile.us(worst) / 2
    if part.kind in (PYTHON, RAY):
        better = "a library that works in C on whole arrays (OpenCV, Albumentations), or the device, may do it cheaper"
        clause = f"{share} {_of_whole(profile, worst)}: {better} (the estimate is half of it)"
        yield Finding("dominant_python", clause, saves_us)
        return
    if worst == 0:
        better = "store images as raw bytes, or smaller"
        if part.kind == NATIVE:
            better = "store smaller images"
        elif part.kind != "Source":  # not one of tfhet's sources
            better = "parse whole batches (tf.io.parse_example), store images as raw bytes, or read with TFRecordSource"
        clause = f"{share} {_of_whole(profile, 0)}: {better} (the estimate is half of it)"
        yield Finding("dominant_source", clause, saves_us)
        return
    stages = _stages(part.ops)
    better = f"tfhet's {stages} does its work on whole batches" if stages else "look here first"
    if part.name.startswith("decode(") and "reduced" not in part.name:
        better += "; decode(reduced=True) takes less for large JPEGs"
    clause = f"{share} {_of_whole(profile, worst)}: {better} (the estimate is half of it)"
    yield Finding("dominant_part", clause, saves_us)


RULES: Sequence[Callable[[Profile], Iterator[Finding]]] = (
    python_inside,
    single_images,
    wide_wire,
    whole_then_crop,
    stored_images,
    sequential_maps,
    dominant_part,
)


def _of_whole(profile: Profile, index: int) -> str:
    return f"({profile.us(index):.1f} us of {profile.whole_us:.1f})"


def _stages(ops: Iterable[str]) -> str:
    return ", ".join(sorted({STAGES[op] for op in ops if op in STAGES}))


def _rest_us(profile: Profile, index: int) -> float:
    return sum(max(0.0, profile.us(i)) for i in range(index + 1, len(profile.costs)))
