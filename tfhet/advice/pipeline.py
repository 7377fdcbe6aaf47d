"""What would help most, in words with the numbers that it rests on. One function for each rule."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tfhet.profile.part import PYTHON_OPS
from tfhet.profile.result import Cost, Profile

MOST = 3
"""Pieces of advice that are given."""
LARGE = 0.1
"""Share of the whole from which a part is worth a word."""
MOST_ON_TRAINER = 0.5
"""Share of the whole that the trainer may do, to save bytes on the wire."""
DOMINANT = 0.5
"""Share of the whole from which a part is most of it."""
CALL_US = 10.0
"""What one call of a mapped function costs at least, beside its work (TensorFlow 2.15: 9 to 20 us for a function that
does next to nothing, without and with num_parallel_calls)."""
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
"""The operation that gives a transformation away, and the tfhet stages that do its work on whole batches."""
_DECODES = ("DecodeJpeg", "DecodePng", "DecodeImage")
_CROPS = ("CropAndResize", "ResizeBilinear", "StridedSlice", "Slice", "StatelessRandomUniformIntV2", "RandomUniformInt")


@dataclass(frozen=True)
class Advice:
    """One change, and how much it may save."""

    text: str
    """What to do, why, and what the estimate rests on."""
    saves_us: float
    """CPU microseconds per example that it may save, at most; 0 when it saves something else."""


def advise(profile: Profile) -> list[Advice]:
    """The changes that would help most, the best first, at most MOST."""
    found = [advice for rule in RULES for advice in rule(profile)]
    return sorted(found, key=lambda advice: -advice.saves_us)[:MOST]


def python_inside(profile: Profile) -> list[Advice]:
    """Python called for every element: one thread at a time, and slow."""
    return [
        Advice(
            f"{cost.name!r} calls Python for every element ({_us(profile, index)}): one core at most, and never on"
            " a data worker. Write it with TensorFlow operations (the estimate is all of it)",
            max(0.0, profile.us(index)),
        )
        for index, cost in enumerate(profile.costs)
        if set(cost.ops) & set(PYTHON_OPS)
    ]


def single_images(profile: Profile) -> list[Advice]:
    """Maps over single elements in front of a batch."""
    batch = max(cost.examples for cost in profile.costs)
    maps = [i for i, cost in enumerate(profile.costs) if cost.kind in ("Map", "ParallelMap") and _on_single(profile, i)]
    if batch == 1 or not maps:
        return []
    together = sum(max(0.0, profile.us(i)) for i in maps)
    if together < LARGE * profile.whole_us:
        return []
    calls = min(together, CALL_US * len(maps) * (1 - 1 / batch))
    known = sorted({STAGES[op] for i in maps for op in profile.costs[i].ops if op in STAGES})
    stages = f"; tfhet has {', '.join(known)} for whole batches" if known else ""
    return [
        Advice(
            f"{_count(len(maps), 'map')} on single elements ({together:.1f} us of {profile.whole_us:.1f}): batch first"
            f" and map over {batch} at once{stages} (the estimate is the function calls alone, {CALL_US:g} us each)",
            calls,
        )
    ]


def wide_wire(profile: Profile) -> list[Advice]:
    """More bytes at the end than somewhere before it: float32 where uint8 would do, mostly."""
    last = profile.costs[-1]
    places = [i for i in _cheap_cuts(profile) if profile.costs[i].bytes_per_example <= last.bytes_per_example / 2]
    if not places:
        return []
    best = min(places, key=lambda i: (profile.costs[i].bytes_per_example, -i))
    cut = profile.costs[best]
    behind = ", ".join(repr(cost.name) for cost in profile.costs[best + 1 :])
    return [
        Advice(
            f"send examples behind {cut.name!r}, {cut.bytes_per_example} B each, not at the end"
            f" ({last.bytes_per_example} B): {last.bytes_per_example / max(1, cut.bytes_per_example):.1f} times fewer"
            f" bytes between hosts, with {behind} on the trainer ({_rest_us(profile, best):.1f} us per example)",
            0.0,
        )
    ]


def whole_then_crop(profile: Profile) -> list[Advice]:
    """Whole images decoded, of which a crop is kept."""
    for index, cost in enumerate(profile.costs):
        decodes = set(cost.ops) & set(_DECODES) or cost.name.startswith("decode(")
        later = profile.costs[index:]
        crops = any(set(other.ops) & set(_CROPS[:2]) or "crop(" in other.name for other in later)
        if decodes and crops and profile.share(index) >= LARGE and "; " not in cost.name:
            return [
                Advice(
                    f"{cost.name!r} decodes whole images ({_us(profile, index)}) of which a part is kept: decode()"
                    " followed by random_resized_crop() decodes only the window (half the pixels on average at the"
                    " usual scale of 0.08 to 1: the estimate is a third of it, as entropy decoding stays)",
                    profile.us(index) / 3,
                )
            ]
    return []


def sequential_maps(profile: Profile) -> list[Advice]:
    """Maps that one thread does."""
    slow = [i for i, cost in enumerate(profile.costs) if cost.parallel is False and profile.share(i) >= LARGE]
    if not slow:
        return []
    worst = max(slow, key=profile.us)
    return [
        Advice(
            f"{profile.costs[worst].name!r} runs on one thread ({_us(profile, worst)}), so at most"
            f" {1e6 / profile.us(worst):.0f} examples per second: give it num_parallel_calls=tf.data.AUTOTUNE"
            " (saves time, no CPU)",
            0.0,
        )
    ]


def dominant_source(profile: Profile) -> list[Advice]:
    """Reading and parsing cost more than all else."""
    if profile.share(0) < DOMINANT or len(profile.costs) == 1:
        return []
    return [
        Advice(
            f"{profile.costs[0].name!r} is {profile.share(0):.0%} of the cost ({profile.us(0):.1f} of"
            f" {profile.whole_us:.1f} us per example): parse whole batches (tf.io.parse_example), store images"
            " as raw bytes, or read with TFRecordSource, which reads blocks of records (about 1 us for 3 kB); the"
            " estimate is half of it",
            profile.us(0) / 2,
        )
    ]


def dominant_part(profile: Profile) -> list[Advice]:
    """One part is most of the cost."""
    worst = max(range(len(profile.costs)), key=profile.us)
    if worst == 0 or profile.share(worst) < DOMINANT:
        return []
    cost = profile.costs[worst]
    known = sorted({STAGES[op] for op in cost.ops if op in STAGES})
    instead = f"tfhet's {', '.join(known)} does its work on whole batches" if known else "look here first"
    return [
        Advice(
            f"{cost.name!r} is {profile.share(worst):.0%} of the cost ({_us(profile, worst)}): {instead} (the estimate"
            " is half of it)",
            profile.us(worst) / 2,
        )
    ]


RULES: Sequence[Callable[[Profile], list[Advice]]] = (
    python_inside,
    single_images,
    wide_wire,
    whole_then_crop,
    sequential_maps,
    dominant_source,
    dominant_part,
)


def best_cut(profile: Profile) -> int:
    """The part behind which examples should travel: the last with the fewest bytes, among those that give batches and
    leave little work to the trainer."""
    places = [i for i in _cheap_cuts(profile) if profile.costs[i].examples == profile.costs[-1].examples]
    return min(places, key=lambda i: (profile.costs[i].bytes_per_example, -i))


def feeding(profile: Profile, examples_per_s: float) -> str:
    """How many cores keep an accelerator fed that takes `examples_per_s`, in a sentence."""
    cut = best_cut(profile)
    cost: Cost = profile.costs[cut]
    before = sum(max(0.0, profile.us(i)) for i in range(cut + 1))
    after = _rest_us(profile, cut)
    workers, trainers = (examples_per_s * us / 1e6 for us in (before, after))
    megabytes = examples_per_s * cost.bytes_per_example / 1e6
    return (
        f"{examples_per_s:g} examples per second, cut behind {cost.name!r}: {workers:.2f} data worker cores"
        f" ({math.ceil(workers)} whole ones), {trainers:.2f} on the trainer, {megabytes:.1f} MB/s between them"
    )


def _on_single(profile: Profile, index: int) -> bool:
    return index > 0 and profile.costs[index - 1].examples == 1


def _cheap_cuts(profile: Profile) -> list[int]:
    """The parts behind which so little work is left that the trainer may do it: fewer bytes are not worth giving the
    GPU's host the work that the data group is there for."""
    return [i for i in range(len(profile.costs)) if _rest_us(profile, i) <= MOST_ON_TRAINER * profile.whole_us]


def _rest_us(profile: Profile, index: int) -> float:
    return sum(max(0.0, profile.us(i)) for i in range(index + 1, len(profile.costs)))


def _us(profile: Profile, index: int) -> str:
    return f"{profile.us(index):.1f} us of {profile.whole_us:.1f}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("s" if number != 1 else "")
