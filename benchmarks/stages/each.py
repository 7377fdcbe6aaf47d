"""Every stage against its counterpart in TensorFlow, Keras or Addons, on one batch in memory (`--each`)."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchmarks.stages.counterparts import COUNTERPARTS, Counterpart, as_stage
from tfhet.bench import Case, Measurement, ProcessMeter, harness
from tfhet.bench.chain import reading, threaded
from tfhet.errors import UsageError, unknown
from tfhet.events import Observer
from tfhet.record import Figure, Record

if TYPE_CHECKING:
    import tensorflow as tf

    from tfhet.stages import ImageSpec, Stage

NAME = "stages.each"
SLOWEST = "stages.slowest_ratio"
SIZES = {32: 256, 224: 32}
"""Edge of the images, and images in a batch."""
RUN_S = 0.1
"""Approximate CPU seconds of one run."""


@dataclass(frozen=True)
class Pair:
    """A stage and its counterpart on one kind of images."""

    stage: Stage
    counterpart: Counterpart
    dtype: str
    size: int
    """Edge of the images, in pixels."""

    @property
    def key(self) -> str:
        """Name of its figure: `NAME.DTYPE.SIZE`."""
        method = getattr(self.stage, "method", "bilinear")
        name = self.stage.name if method == "bilinear" else f"{self.stage.name}-{method}"
        return f"{name}.{self.dtype}.{self.size}"

    @property
    def spec(self) -> ImageSpec:
        from tfhet.stages import ImageSpec

        return ImageSpec(self.size, self.size, 3, self.dtype, 0.0, 255.0 if self.dtype == "uint8" else 1.0)


def run(options: argparse.Namespace, observer: Observer, command: Sequence[str]) -> Record:
    """Measures pair by pair; the two of a pair take turns."""
    wanted = tuple(name.strip() for name in options.each.split(",") if name.strip())
    taken: dict[str, tuple[Measurement, Measurement, str]] = {}
    missing: dict[str, str] = {}
    for pair in pairs(wanted):
        words = pair.counterpart.words
        try:
            ours, theirs = _cases(pair, options.threads)
        except ImportError as error:
            missing[pair.key] = f"{words}: {error}"
            continue
        measured = harness.measure([theirs, ours], repeats=options.repeats, warmup=options.warmup, observer=observer)
        taken[pair.key] = measured[ours.name], measured[theirs.name], words
    if not taken:
        raise UsageError(f"--each: no counterpart is installed: {'; '.join(missing.values())}")
    samples = {key: {"tfhet": ours.to_json(), words: theirs.to_json()} for key, (ours, theirs, words) in taken.items()}
    details = {"threads": options.threads, "missing": missing, "cases": samples}
    return Record.of(NAME, figures_of(taken), details=details, command=command)


def figures_of(taken: Mapping[str, tuple[Measurement, Measurement, str]]) -> dict[str, Figure]:
    """Returns the slowest ratio, then all ratios, then microseconds."""
    ratios = {f"{NAME}.{key}": ours.cheaper_than(theirs, words) for key, (ours, theirs, words) in taken.items()}
    times = {f"{NAME}.{key}.us_per_image": ours.figure() for key, (ours, _, _) in taken.items()}
    return {SLOWEST: min(ratios.values(), key=lambda ratio: ratio.value), **ratios, **times}


def pairs(wanted: Sequence[str] = ()) -> list[Pair]:
    """Returns all pairs, or the pairs of the named stages. Raises UsageError for a stage without counterpart."""
    from tfhet import stages as stage_room

    known = sorted({re.split(r"\W", counterpart.stage)[0] for counterpart in COUNTERPARTS})
    for name in wanted:
        if name not in known:
            unknown("stage with a counterpart", name, known)
    found = []
    for counterpart in COUNTERPARTS:
        for size in SIZES:
            (stage,) = stage_room.parse(counterpart.stage.format(h=size, w=size, h2=size // 2, w2=size // 2))
            if not wanted or stage.name in wanted:
                found += [Pair(stage, counterpart, dtype, size) for dtype in counterpart.dtypes]
    return found


def _cases(pair: Pair, threads: int | None) -> tuple[Case, Case]:
    import tensorflow as tf

    batch = SIZES[pair.size]
    given, ids = images(pair.dtype, batch, pair.size), tf.range(batch, dtype=tf.int64)
    ours, theirs = staged(pair.stage, pair.spec), pair.counterpart.make(pair.size, pair.size)
    dtype = pair.stage.spec(pair.spec).dtype
    parallel = {"num_parallel_calls": tf.data.AUTOTUNE if threads is None else threads}

    def stage_data(batches: int) -> tf.data.Dataset:
        return tf.data.Dataset.from_tensors((given, ids)).repeat(batches).map(ours, **parallel)

    def counterpart_data(batches: int) -> tf.data.Dataset:
        made = tf.data.Dataset.from_tensors if pair.counterpart.is_batched else tf.data.Dataset.from_tensor_slices
        data = made(given).repeat(batches).map(lambda images: as_stage(theirs(images), dtype), **parallel)
        return data if pair.counterpart.is_batched else data.batch(batch)

    name = pair.key.replace(".", " ")
    return (
        _sized(f"{name} tfhet", stage_data, batch, threads),
        _sized(f"{name} {pair.counterpart.words}", counterpart_data, batch, threads),
    )


def staged(stage: Stage, spec: ImageSpec) -> Callable[[Any, Any], Any]:
    """Returns (images, ids) -> images, as a pipeline runs the stage."""
    import tensorflow as tf

    from tfhet.stages import Program, placed, tensor_chain

    (segment,) = Program.of(placed((stage,), spec), spec).segments

    def work(images: tf.Tensor, ids: tf.Tensor) -> tf.Tensor:
        return tensor_chain.run(segment, images, ids, tf.zeros_like(ids), 0)[0]

    return tf.autograph.experimental.do_not_convert(work)


def _sized(name: str, build: Callable[[int], tf.data.Dataset], batch: int, threads: int | None) -> Case:
    """A case whose run has as many batches as need about RUN_S of CPU, at least two."""
    trial, meter = threaded(build(2), threads), ProcessMeter(children=lambda: 0.0)
    for _ in range(2):  # the first pass traces, and touches memory
        start = meter.start()
        for _ in trial:
            pass
        passes = max(1, min(1000, round(RUN_S / max(1e-6, meter.stop(start).cpu_s))))
    return reading(name, 2 * passes * batch, lambda: threaded(build(2 * passes), threads))


def images(dtype: str, batch: int, size: int) -> tf.Tensor:
    """Returns smooth random images with the values of photos."""
    import tensorflow as tf

    grid = tf.random.stateless_uniform([batch, max(2, size // 8), max(2, size // 8), 3], [0, size])
    values = tf.clip_by_value(tf.image.resize(grid, [size, size], "bicubic"), 0.0, 1.0)
    return values if dtype == "float32" else tf.cast(tf.round(values * 255.0), tf.uint8)
