"""Every stage against its counterpart in TensorFlow, Keras or Addons, on one batch (`--each`)."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
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

    from tfhet.stages import Stage

NAME = "stages.each"
SLOWEST = "stages.slowest_ratio"
SIZES = {32: 256, 224: 32}
"""Edge of the images, and how many are in a batch."""
RUN_S = 0.1
"""CPU seconds that one run should take, about."""


@dataclass(frozen=True)
class Pair:
    """A stage and its counterpart on one kind of images."""

    stage: Stage
    """The stage that is compared with the reference."""
    counterpart: Counterpart
    """The reference."""
    dtype: str
    """Dtype of the images."""
    size: int
    """Their edge, in pixels."""

    @property
    def key(self) -> str:
        """Name of its figure: `NAME.DTYPE.SIZE`; a stage that is there twice has its method in the name."""
        method = getattr(self.stage, "method", "bilinear")
        name = self.stage.name if method == "bilinear" else f"{self.stage.name}-{method}"
        return f"{name}.{self.dtype}.{self.size}"


def run(options: argparse.Namespace, observer: Observer, command: Sequence[str]) -> Record:
    """Measures them pair by pair, each pair interleaved."""
    wanted = tuple(name.strip() for name in options.each.split(",") if name.strip())
    taken: dict[str, tuple[Measurement, Measurement, str]] = {}
    left_out: dict[str, str] = {}
    for pair in pairs(wanted):
        try:
            ours, theirs = _cases(pair, options.threads)
        except ImportError as error:
            left_out[pair.key] = f"{pair.counterpart.words}: {error}"
            continue
        measured = harness.measure([theirs, ours], repeats=options.repeats, warmup=options.warmup, observer=observer)
        taken[pair.key] = measured[ours.name], measured[theirs.name], pair.counterpart.words
    if not taken:
        raise UsageError(f"--each: no counterpart is there: {'; '.join(left_out.values())}")
    details = {
        "sizes": {str(size): batch for size, batch in SIZES.items()},
        "threads": options.threads,
        "slower": [
            name.removeprefix(f"{NAME}.") for name, f in figures_of(taken).items() if f.unit == "x" and f.value < 1
        ],
        "left_out": left_out,
        "cases": {
            key: {"tfhet": ours.to_json(), words: theirs.to_json()} for key, (ours, theirs, words) in taken.items()
        },
    }
    return Record.of(NAME, figures_of(taken), details=details, command=command)


def figures_of(taken: Mapping[str, tuple[Measurement, Measurement, str]]) -> dict[str, Figure]:
    """The slowest ratio, then all ratios, then microseconds."""
    ratios = {f"{NAME}.{key}": ours.cheaper_than(theirs, words) for key, (ours, theirs, words) in taken.items()}
    slowest = min(ratios, key=lambda name: ratios[name].value)
    times = {f"{NAME}.{key}.us_per_image": ours.figure() for key, (ours, _, _) in taken.items()}
    return {SLOWEST: ratios[slowest], **ratios, **times}


def bars(record: Record) -> dict[str, Figure]:
    """The ratios, by stage."""
    ratios = {name: figure for name, figure in record.figures.items() if figure.unit == "x" and name != SLOWEST}
    return {name.removeprefix(f"{NAME}.").replace(".", " "): figure for name, figure in ratios.items()}


def pairs(wanted: Iterable[str] = ()) -> list[Pair]:
    """All that can be compared, or those of the stages named. Raises UsageError for a stage without counterpart."""
    from tfhet import stages as stage_room

    known = {re.split(r"\W", counterpart.stage)[0]: counterpart for counterpart in COUNTERPARTS}
    for name in wanted:
        if name not in known:
            unknown("stage with a counterpart", name, sorted(known))
    found = []
    for counterpart in COUNTERPARTS:
        for size in SIZES:
            text = counterpart.stage.format(height=size, width=size, half_height=size // 2, half_width=size // 2)
            (stage,) = stage_room.parse(text)
            if wanted and stage.name not in wanted:
                continue
            found += [Pair(stage, counterpart, dtype, size) for dtype in counterpart.dtypes]
    return found


def _cases(pair: Pair, threads: int | None) -> tuple[Case, Case]:
    import tensorflow as tf

    from tfhet.stages import ImageSpec

    batch = SIZES[pair.size]
    given_images = images(pair.dtype, batch, pair.size)
    spec = ImageSpec(pair.size, pair.size, 3, pair.dtype, 0.0, 255.0 if pair.dtype == "uint8" else 1.0)
    given = pair.stage.spec(spec).dtype
    theirs = pair.counterpart.make(pair.size, pair.size)
    ours = staged(pair.stage, spec)
    ids = tf.range(batch, dtype=tf.int64)

    def reference(images: tf.Tensor) -> tf.Tensor:
        return as_stage(theirs(images), given)

    def repeated(batches: int) -> tf.data.Dataset:
        return tf.data.Dataset.from_tensors((given_images, ids)).repeat(batches)

    side_by_side = tf.data.AUTOTUNE if threads is None else threads

    def stage_data(batches: int) -> tf.data.Dataset:
        return repeated(batches).map(ours, num_parallel_calls=side_by_side)

    def reference_data(batches: int) -> tf.data.Dataset:
        if pair.counterpart.batched:
            return repeated(batches).map(lambda images, _: reference(images), num_parallel_calls=side_by_side)
        single = tf.data.Dataset.from_tensor_slices(given_images).repeat(batches)
        return single.map(reference, num_parallel_calls=side_by_side).batch(batch)

    name = pair.key.replace(".", " ")
    return (
        _sized(f"{name} tfhet", stage_data, batch, threads),
        _sized(f"{name} {pair.counterpart.words}", reference_data, batch, threads),
    )


def staged(stage: Stage, spec: Any) -> Callable[[Any, Any], Any]:
    """(images, ids) -> images, as a pipeline runs the stage."""
    import tensorflow as tf

    from tfhet.stages import randomness

    def work(images: tf.Tensor, ids: tf.Tensor) -> tf.Tensor:
        keys = randomness.keys(0, stage.name, 0, 0, ids)
        return stage.apply(images, stage.parameters(keys, spec) if stage.random else {})

    return tf.autograph.experimental.do_not_convert(work)


def _sized(name: str, build: Callable[[int], tf.data.Dataset], batch: int, threads: int | None) -> Case:
    """A case with as many batches in a run as take about RUN_S, at least one."""
    trial = threaded(build(2), threads)

    def twice() -> None:
        for _ in trial:
            pass

    twice()  # traced, and memory touched
    batches = 2 * runs(twice)
    count = batches * batch
    return reading(name, count, lambda: threaded(build(batches), threads))


def runs(work: Callable[[], object]) -> int:
    """How often `work` goes into RUN_S of CPU, at least once."""
    meter = ProcessMeter(children=lambda: 0.0)
    start = meter.start()
    work()
    return max(1, min(1000, round(RUN_S / max(1e-6, meter.stop(start).cpu_s))))


def images(dtype: str, batch: int, size: int) -> tf.Tensor:
    """Smooth random images: photos' values, without a photo."""
    import tensorflow as tf

    grid = tf.random.stateless_uniform([batch, max(2, size // 8), max(2, size // 8), 3], [0, size])
    values = tf.clip_by_value(tf.image.resize(grid, [size, size], "bicubic"), 0.0, 1.0)
    return values if dtype == "float32" else tf.cast(tf.round(values * 255.0), tf.uint8)
