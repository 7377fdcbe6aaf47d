"""What would make an input pipeline cheaper, found in its profile. One function for each rule."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from tfhet.advice.finding import Fact, Finding, advice, fact
from tfhet.advice.thresholds import DOMINANT_SHARE, FEWER_BYTES, LARGE_SHARE, TRAINER_SHARE
from tfhet.profile import Profile

MOST_FINDINGS = 3
"""Maximum number of findings about one pipeline."""
CALL_US = 10.0
"""Least CPU microseconds of one call of a mapped function, without its work (TensorFlow 2.15: 9 to 20 us for a function
that does next to nothing, without and with num_parallel_calls)."""
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
"""Graph operation that reveals a transformation -> tfhet stages that do its work on whole batches."""
_DECODES = ("DecodeJpeg", "DecodePng", "DecodeImage")
_CROPS = ("CropAndResize", "ResizeBilinear")


def of_pipeline(profile: Profile) -> list[Finding]:
    """The changes that would save most CPU, the best first, at most MOST_FINDINGS."""
    found = [finding for rule in RULES for finding in rule(profile)]
    return sorted(found, key=lambda finding: -finding.saves_us)[:MOST_FINDINGS]


def python_inside(profile: Profile) -> list[Finding]:
    """Parts that call Python for every element, which is slow and runs on one thread."""
    return [
        advice("python_inside", **_part(profile, index)).saving(max(0.0, profile.us(index)))
        for index, cost in enumerate(profile.costs)
        if cost.runs_python
    ]


def single_images(profile: Profile) -> list[Finding]:
    """Maps over single elements ahead of a batch."""
    batch = max(cost.examples for cost in profile.costs)
    maps = [i for i, cost in enumerate(profile.costs) if cost.kind in ("Map", "ParallelMap") and _on_single(profile, i)]
    if batch == 1 or not maps:
        return []
    together = sum(max(0.0, profile.us(i)) for i in maps)
    if together < LARGE_SHARE * profile.whole_us:
        return []
    return [
        advice(
            "single_images",
            maps=len(maps),
            us=together,
            whole_us=profile.whole_us,
            batch=batch,
            stages=tuple(sorted({STAGES[op] for i in maps for op in profile.costs[i].ops if op in STAGES})),
            call_us=CALL_US,
        ).saving(min(together, CALL_US * len(maps) * (1 - 1 / batch)))
    ]


def wide_wire(profile: Profile) -> list[Finding]:
    """More bytes at the end than somewhere before it: mostly float32 where uint8 would do."""
    end = profile.costs[-1].bytes_per_example
    places = [i for i in _cheap_cuts(profile) if profile.costs[i].bytes_per_example <= end / FEWER_BYTES]
    if not places:
        return []
    best = min(places, key=lambda i: (profile.costs[i].bytes_per_example, -i))
    cut = profile.costs[best]
    return [
        advice(
            "wide_wire",
            part=cut.name,
            bytes=cut.bytes_per_example,
            end_bytes=end,
            times=end / max(1, cut.bytes_per_example),
            rest=tuple(cost.name for cost in profile.costs[best + 1 :]),
            rest_us=_rest_us(profile, best),
        )
    ]


def whole_then_crop(profile: Profile) -> list[Finding]:
    """Whole images that are decoded and then cropped."""
    for index, cost in enumerate(profile.costs):
        decodes = set(cost.ops) & set(_DECODES) or cost.name.startswith("decode(")
        crops = any(set(other.ops) & set(_CROPS) or "crop(" in other.name for other in profile.costs[index:])
        if decodes and crops and profile.share(index) >= LARGE_SHARE and "; " not in cost.name:
            return [advice("whole_then_crop", **_part(profile, index)).saving(profile.us(index) / 3)]
    return []


def sequential_maps(profile: Profile) -> list[Finding]:
    """The dearest map that runs on one thread."""
    slow = [i for i, cost in enumerate(profile.costs) if cost.parallel is False and profile.share(i) >= LARGE_SHARE]
    if not slow:
        return []
    worst = max(slow, key=profile.us)
    return [advice("sequential_map", examples_per_s=1e6 / profile.us(worst), **_part(profile, worst))]


def dominant_source(profile: Profile) -> list[Finding]:
    """Reading and parsing that cost more than all else."""
    if profile.share(0) < DOMINANT_SHARE or len(profile.costs) == 1:
        return []
    return [advice("dominant_source", share=profile.share(0), **_part(profile, 0)).saving(profile.us(0) / 2)]


def dominant_part(profile: Profile) -> list[Finding]:
    """A part, other than the source, that is most of the cost."""
    worst = max(range(len(profile.costs)), key=profile.us)
    if worst == 0 or profile.share(worst) < DOMINANT_SHARE:
        return []
    stages = tuple(sorted({STAGES[op] for op in profile.costs[worst].ops if op in STAGES}))
    kind = "dominant_part_with_stage" if stages else "dominant_part"
    found = advice(kind, share=profile.share(worst), stages=stages, **_part(profile, worst))
    return [found.saving(profile.us(worst) / 2)]


RULES: Sequence[Callable[[Profile], list[Finding]]] = (
    python_inside,
    single_images,
    wide_wire,
    whole_then_crop,
    sequential_maps,
    dominant_source,
    dominant_part,
)


def best_cut(profile: Profile) -> int:
    """Index of the part after which examples should travel: the last one with the fewest bytes, among those that give
    batches and leave little work to the trainer."""
    places = [i for i in _cheap_cuts(profile) if profile.costs[i].examples == profile.costs[-1].examples]
    return min(places, key=lambda i: (profile.costs[i].bytes_per_example, -i))


def feeding(profile: Profile, examples_per_s: float) -> Finding:
    """How many CPU cores and which network keep an accelerator fed that takes `examples_per_s`."""
    cut = best_cut(profile)
    before_us = sum(max(0.0, profile.us(i)) for i in range(cut + 1))
    workers, trainers = (examples_per_s * us / 1e6 for us in (before_us, _rest_us(profile, cut)))
    return fact(
        "feeding",
        examples_per_s=examples_per_s,
        part=profile.costs[cut].name,
        data_cores=workers,
        whole_cores=math.ceil(workers),
        trainer_cores=trainers,
        mb_per_s=examples_per_s * profile.costs[cut].bytes_per_example / 1e6,
    )


def _part(profile: Profile, index: int) -> dict[str, Fact]:
    return {"part": profile.costs[index].name, "us": profile.us(index), "whole_us": profile.whole_us}


def _on_single(profile: Profile, index: int) -> bool:
    return index > 0 and profile.costs[index - 1].examples == 1


def _cheap_cuts(profile: Profile) -> list[int]:
    """Indexes of the parts after which so little work is left that the trainer may do it: fewer bytes are not worth
    giving the GPU's host the work that the data group is there for."""
    return [i for i in range(len(profile.costs)) if _rest_us(profile, i) <= TRAINER_SHARE * profile.whole_us]


def _rest_us(profile: Profile, index: int) -> float:
    return sum(max(0.0, profile.us(i)) for i in range(index + 1, len(profile.costs)))
