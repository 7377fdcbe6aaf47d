"""`tfhet bench stages`: CPU microseconds per image of a chain of stages, whole and stage by stage.

The chain, reading and batching alone (the floor), and each step alone on a batch in memory take turns.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfhet.arguments import check_positive
from tfhet.bench import chain
from tfhet.bench.case import Case, Measurement
from tfhet.bench.harness import measure
from tfhet.bench.suite import Suite
from tfhet.events import Observer
from tfhet.record import Record

if TYPE_CHECKING:
    from tfhet.stages import Stage

PHOTO_EXAMPLES, SMALL_EXAMPLES = 1024, 32768
PHOTO_BATCH, SMALL_BATCH = 64, 256
OWN_CHAIN = "chain"


@dataclass(frozen=True)
class Prepared:
    course: chain.Course
    steps: Mapping[str, Case]
    folder: Path

    @property
    def cases(self) -> list[Case]:
        return [*chain.whole_cases(self.course), *self.steps.values()]

    def details(self, taken: Mapping[str, Measurement]) -> dict[str, Any]:
        from tfhet import stages as stage_room

        course, pipeline = self.course, self.course.pipeline
        return {
            "chain": stage_room.text(pipeline.stages),  # type: ignore[arg-type]
            "explained": pipeline.explain().splitlines(),
            "image": f"scikit-learn {'digits, 32x32x3 uint8, raw' if course.small else 'photos, JPEG'} in TFRecord",
            "examples": course.examples,
            "batch_size": pipeline.batch_size,
            "threads": course.threads,
            "cores": course.cores,
            "order": "rounds of all cases in turn; the i-th samples of two cases are a pair",
            "cases": {name: measurement.to_json() for name, measurement in taken.items()},
        }


def options_of_a_chain(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--chain", default="aws-cifar", metavar="NAME", help="a chain by name, or written out (default %(default)s)")
    add("--examples", type=int, metavar="N", help=f"records (default {SMALL_EXAMPLES}, photos {PHOTO_EXAMPLES})")
    add("--batch_size", type=int, metavar="N", help=f"images (default {SMALL_BATCH}, photos {PHOTO_BATCH})")
    add("--threads", type=int, metavar="N", help="threads of every pipeline (default: one a core)")
    add("--cache", type=Path, metavar="DIR", help="folder where data are kept (default ~/.cache)")


@contextlib.contextmanager
def prepared(options: argparse.Namespace) -> Iterator[Prepared]:
    """Yields the chain that the options name, on records in a folder that goes with the context. Raises UsageError."""
    check_positive(options, "examples", "batch_size", "threads")
    from tfhet import source as source_room, stages as stage_room
    from tfhet.pipeline import Pipeline

    without_gpu()
    is_written_out = "(" in options.chain
    stages: Sequence[Stage] = (stage_room.parse if is_written_out else stage_room.chain)(options.chain)
    is_photos = any(stage.name == "decode" for stage in stages)
    examples = options.examples or (PHOTO_EXAMPLES if is_photos else SMALL_EXAMPLES)
    with tempfile.TemporaryDirectory(prefix="tfhet-bench-") as name:
        folder = Path(name)
        if is_photos:
            files = source_room.photos.photos(count=examples, cache=options.cache)
            source = source_room.TFRecordSource.from_directory(files)
        else:
            source = source_room.digits.repeated(folder, examples, options.cache)
        pipeline = Pipeline(source, tuple(stages), options.batch_size or (PHOTO_BATCH if is_photos else SMALL_BATCH))
        cores = options.threads or os.cpu_count() or 1
        name = OWN_CHAIN if is_written_out else options.chain
        course = chain.Course(name, pipeline, examples, options.threads, cores)
        yield Prepared(course, chain.step_cases(course), folder)


def without_gpu() -> None:
    """Hides GPUs from TensorFlow: input pipelines run on the CPU, and a GPU's runtime adds threads of its own."""
    import tensorflow as tf

    with contextlib.suppress(RuntimeError):  # TensorFlow is already running: then it stays as it is
        tf.config.set_visible_devices([], "GPU")


def _run(options: argparse.Namespace, observer: Observer, command: Sequence[str]) -> Record:
    with prepared(options) as made:
        taken = measure(made.cases, repeats=options.repeats, warmup=options.warmup, observer=observer)
    figures = chain.figures_of(made.course, taken, made.steps)
    return Record.of(f"stages.{made.course.name}", figures, details=made.details(taken), command=command)


SUITE = Suite("stages", "CPU per image of a chain of stages, and of each stage", options_of_a_chain, _run)
