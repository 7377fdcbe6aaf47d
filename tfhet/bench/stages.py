"""`tfhet bench stages`: CPU microseconds per image from TFRecord to batch.

Cases, interleaved, all on the same records: the example as written, tfhet's chain, reading and batching alone (the
floor), and each stage alone on a batch in memory. The cheap ones go over the records PASSES times in one run, so that
starting an iterator does not weigh in them more than in the example; every number is per image.
"""

from __future__ import annotations

import argparse
import contextlib
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfhet.bench import example, harness, records
from tfhet.bench.case import Case
from tfhet.bench.measurement import Measurement
from tfhet.bench.suite import Suite
from tfhet.errors import TfhetError, UsageError
from tfhet.events import Observer
from tfhet.record import Figure, Record

if TYPE_CHECKING:
    import tensorflow as tf

    from tfhet.placement import Pipeline

EXAMPLE, TFHET, DECODE = "example", "tfhet", "decode"
PASSES = 4
"""How often the cheap cases go over the records in one run."""
STAGE_IMAGES = 16384
"""Least images that a stage alone does in one run."""


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--chain", default="aws-cifar", metavar="NAME", help="a named chain (default %(default)s)")
    parser.add_argument(
        "--examples", type=int, default=4096, metavar="N", help="records in the files (default %(default)s)"
    )
    parser.add_argument(
        "--batch_size",
        "--batch-size",
        type=int,
        default=256,
        metavar="N",
        help="images in a batch (default %(default)s)",
    )
    parser.add_argument(
        "--threads", type=int, metavar="N", help="threads of every pipeline (default: as tf.data chooses)"
    )
    parser.add_argument("--cache", type=Path, metavar="DIR", help="where the digits are kept (default ~/.cache)")


def _run(options: argparse.Namespace, observer: Observer, command: Sequence[str]) -> Record:
    for name in ("examples", "batch_size", "threads"):
        value = getattr(options, name)
        if value is not None and value < 1:
            raise UsageError(f"--{name} {value}: give at least 1")
    from tfhet import stages as stage_room
    from tfhet.placement import Pipeline

    _without_gpu()
    chain = stage_room.chain(options.chain)
    with tempfile.TemporaryDirectory(prefix="tfhet-bench-") as folder:
        source = records.repeated_digits(Path(folder), options.examples, options.cache)
        pipeline = Pipeline(source, chain, options.batch_size)
        alone = _stage_cases(pipeline, options.threads)
        cases = [*_pipeline_cases(pipeline, options.examples, options.threads), *alone.values()]
        taken = harness.measure(cases, repeats=options.repeats, warmup=options.warmup, observer=observer)
    figures = figures_of(options.chain, taken, {stage: case.name for stage, case in alone.items()})
    details = {
        "chain": stage_room.text(chain),
        "runs_as": [stage_room.text((placed.stage,)) for placed in pipeline.placed()],
        "image": "scikit-learn digits, 32x32x3 uint8, raw in TFRecord",
        "examples": options.examples,
        "batch_size": options.batch_size,
        "threads": options.threads,
        "order": "rounds of all cases in turn; the i-th samples of two cases are a pair",
        "cases": {name: measurement.to_json() for name, measurement in taken.items()},
    }
    return Record.of(f"stages.{options.chain}", figures, details=details, command=command)


def figures_of(chain: str, taken: Mapping[str, Measurement], alone: Mapping[str, str]) -> dict[str, Figure]:
    """The flat table of one chain. `alone`: stage name to the case that measured it by itself."""
    table = {
        f"stages.{chain}.vs_example": taken[TFHET].cheaper_than(taken[EXAMPLE], example.AGAINST),
        f"stages.{chain}.us_per_image": taken[TFHET].figure(),
        f"stages.{chain}.example_us_per_image": taken[EXAMPLE].figure(),
        f"stages.{chain}.decode_us": taken[DECODE].figure(),
    }
    return {**table, **{f"stages.{chain}.{stage}_us": taken[case].figure() for stage, case in alone.items()}}


def _pipeline_cases(pipeline: Pipeline, examples: int, threads: int | None) -> list[Case]:
    files, shape = pipeline.source.files, pipeline.source.spec["image"].shape[1:]  # type: ignore[attr-defined]

    def written() -> tf.data.Dataset:
        return example.dataset(files, shape, pipeline.stages, pipeline.batch_size)  # type: ignore[arg-type]

    def case(name: str, passes: int, build: Callable[[], tf.data.Dataset], images: Callable[[Any], Any]) -> Case:
        count = examples * passes
        return Case(name, _reader(name, count, images), count, "image", lambda: _threaded(build(), threads))

    return [
        case(EXAMPLE, 1, written, lambda element: element[0]),
        case(TFHET, PASSES, lambda: pipeline.dataset().repeat(PASSES), lambda element: element["image"]),
        case(
            DECODE,
            PASSES,
            lambda: pipeline.with_stages(()).dataset().repeat(PASSES),
            lambda element: element["image"],
        ),
    ]


def _stage_cases(pipeline: Pipeline, threads: int | None) -> dict[str, Case]:
    """Each stage, in running order, on one batch that the stages before it made: stage name to case."""
    from tfhet.stages import randomness

    element = next(iter(pipeline.with_stages(()).dataset().take(1)))
    images, spec = element["image"], pipeline.input
    cases: dict[str, Case] = {}
    for placed in pipeline.placed():
        stage, before, position = placed.stage, spec, placed.declared

        def work(
            images: tf.Tensor, ids: tf.Tensor, stage: Any = stage, before: Any = before, position: int = position
        ) -> tf.Tensor:
            drawn = {}
            if stage.random:
                drawn = stage.parameters(randomness.keys(pipeline.seed, stage.name, position, 0, ids), before)
            return stage.apply(images, drawn)

        name, count = stage.name, 2
        while name in cases:
            name, count = f"{stage.name}_{count}", count + 1
        cases[name] = _stage_case(f"{name} alone", work, images, element["id"], threads)
        images, spec = work(images, element["id"]), placed.output
    return cases


def _stage_case(name: str, work: Callable[..., Any], images: tf.Tensor, ids: tf.Tensor, threads: int | None) -> Case:
    import tensorflow as tf

    size = int(images.shape[0])
    batches = -(-STAGE_IMAGES // size)

    def build() -> tf.data.Dataset:
        same = tf.data.Dataset.from_tensors((images, ids)).repeat(batches)
        return _threaded(same.map(work, num_parallel_calls=tf.data.AUTOTUNE), threads)

    return Case(name, _reader(name, batches * size, lambda element: element), batches * size, "image", build)


def _reader(name: str, count: int, images: Callable[[Any], Any]) -> Callable[[Iterable[Any]], None]:
    def read(dataset: Iterable[Any]) -> None:
        seen = sum(int(images(element).shape[0]) for element in dataset)
        if seen != count:
            raise TfhetError(f"bench case {name!r} gave {seen} images instead of {count}: its time means nothing")

    return read


def _threaded(dataset: tf.data.Dataset, threads: int | None) -> tf.data.Dataset:
    if threads is None:
        return dataset
    import tensorflow as tf

    options = tf.data.Options()
    options.threading.private_threadpool_size = threads
    options.threading.max_intra_op_parallelism = threads
    return dataset.with_options(options)


def _without_gpu() -> None:
    """Input pipelines run on the CPU; a GPU's runtime would only add threads of its own."""
    import tensorflow as tf

    with contextlib.suppress(RuntimeError):  # TensorFlow is already running: then it stays as it is
        tf.config.set_visible_devices([], "GPU")


def _bars(record: Record) -> tuple[str, Mapping[str, Figure]]:
    prefix = f"{record.name}."
    times = {name.removeprefix(prefix): figure for name, figure in record.figures.items() if figure.unit == "us"}
    wholes = {"example_us_per_image": example.AGAINST, "us_per_image": "tfhet, the whole chain"}
    bars = {word: times[name] for name, word in wholes.items()}
    alone = {name.removesuffix("_us"): figure for name, figure in times.items() if name not in wholes}
    bars |= {f"{'read and batch' if name == DECODE else name} alone": figure for name, figure in alone.items()}
    return f"{record.name}: CPU microseconds per image", bars


SUITE = Suite(
    name="stages",
    does="CPU per image of a chain of stages, against the example as written, and of each stage alone",
    options=_options,
    run=_run,
    bars=_bars,
)
