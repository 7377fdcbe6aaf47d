"""`tfhet bench stages`: CPU microseconds per image of a chain of stages, and of each stage.

Cases, interleaved, all on the same records: the example as written, peers, tfhet's chain, reading and batching alone
(the floor), and each step alone on a batch in memory. The cheap ones go over the records several times in one run, so
that starting an iterator does not weigh in them more than in the others; every number is per image.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.stages import each
from benchmarks.stages import peer_cases as rivals
from tfhet.bench import calibration, chain, forms, harness, records
from tfhet.bench import plain as example
from tfhet.bench.suite import Suite
from tfhet.errors import UsageError
from tfhet.events import Observer
from tfhet.record import Figure, Record

if TYPE_CHECKING:
    from tfhet.placement import Pipeline
    from tfhet.source import TFRecordSource
    from tfhet.stages import Stage

PHOTO_EXAMPLES, SMALL_EXAMPLES = 512, 4096
PHOTO_BATCH, SMALL_BATCH = 64, 256


def _options(parser: argparse.ArgumentParser) -> None:
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--chain", default="aws-cifar", metavar="NAME", help="a named chain (default %(default)s)")
    what.add_argument(
        "--each",
        nargs="?",
        const="",
        metavar="NAMES",
        help="instead of a chain: every stage, or those named, against its counterpart in TensorFlow, Keras or Addons",
    )
    what.add_argument(
        "--calibrate",
        action="store_true",
        help="instead: measure the implementations of each operation, and let this machine's tfhet choose by that",
    )
    parser.add_argument(
        "--peers",
        default="",
        metavar="NAMES",
        help="peers to measure; none; or install: those that are missing too, from the package index into the user's"
        " cache (default: all that are there)",
    )
    parser.add_argument(
        "--examples",
        type=int,
        metavar="N",
        help=f"records in the files (default {SMALL_EXAMPLES}, photos {PHOTO_EXAMPLES})",
    )
    parser.add_argument(
        "--batch_size",
        "--batch-size",
        type=int,
        metavar="N",
        help=f"images in a batch (default {SMALL_BATCH}, photos {PHOTO_BATCH})",
    )
    parser.add_argument("--threads", type=int, metavar="N", help="threads of every pipeline (default: one a core)")
    parser.add_argument("--cache", type=Path, metavar="DIR", help="where data and peers are kept (default ~/.cache)")


def _run(options: argparse.Namespace, observer: Observer, command: Sequence[str]) -> Record:
    for name in ("examples", "batch_size", "threads"):
        value = getattr(options, name)
        if value is not None and value < 1:
            raise UsageError(f"--{name} {value}: give at least 1")
    rivals.wanted(options.peers)
    _without_gpu()
    if options.calibrate:
        return calibration.run(options, observer, command)
    if options.each is not None:
        return each.run(options, observer, command)
    return _chain(options, observer, command)


def _chain(options: argparse.Namespace, observer: Observer, command: Sequence[str]) -> Record:
    from tfhet import stages as stage_room

    stages = stage_room.chain(options.chain)
    with tempfile.TemporaryDirectory(prefix="tfhet-bench-") as folder:
        pipeline, examples = _pipeline(stages, options, Path(folder))
        source: TFRecordSource = pipeline.source  # type: ignore[assignment]
        cores = options.threads or os.cpu_count() or 1
        files = records.as_files(source, Path(folder)) if rivals.wanted(options.peers) else ()
        task = rivals.Task(
            options.chain, files, examples, pipeline.batch_size, cores, options.peers, rivals.cache_of(options.cache)
        )
        with rivals.started(task, observer) as found:
            course = chain.Course(pipeline, forms.forms(pipeline), examples, options.threads)
            alone = chain.step_cases(course)
            cases = [*chain.whole_cases(course), *(entry.case for entry in found.entries), *alone.values()]
            taken = harness.measure(cases, repeats=options.repeats, warmup=options.warmup, observer=observer)
    figures = chain.figures_of(
        options.chain,
        taken,
        forms=course.forms,
        entries=found.entries,
        alone={step: case.name for step, case in alone.items()},
        cores=cores,
    )
    details = {
        "chain": stage_room.text(stages),
        "explained": pipeline.explain().splitlines(),
        "image": "scikit-learn photos, JPEG in TFRecord"
        if not course.small
        else "scikit-learn digits, 32x32x3 uint8, raw in TFRecord",
        "examples": examples,
        "batch_size": pipeline.batch_size,
        "threads": options.threads,
        "cores": cores,
        "peers": found.versions,
        "peers_missing": found.missing,
        "order": "rounds of all cases in turn; the i-th samples of two cases are a pair",
        "cases": {name: measurement.to_json() for name, measurement in taken.items()},
    }
    return Record.of(f"stages.{options.chain}", figures, details=details, command=command)


def _pipeline(stages: Sequence[Stage], options: argparse.Namespace, folder: Path) -> tuple[Pipeline, int]:
    from tfhet.placement import Pipeline

    photos = any(stage.name == "decode" for stage in stages)
    examples = options.examples or (PHOTO_EXAMPLES if photos else SMALL_EXAMPLES)
    if photos:
        source = records.photos(examples, cache=options.cache)
    else:
        source = records.repeated_digits(folder, examples, options.cache)
    return Pipeline(source, tuple(stages), options.batch_size or (PHOTO_BATCH if photos else SMALL_BATCH)), examples


def _without_gpu() -> None:
    """Input pipelines run on the CPU; a GPU's runtime would only add threads of its own."""
    import tensorflow as tf

    with contextlib.suppress(RuntimeError):  # TensorFlow is already running: then it stays as it is
        tf.config.set_visible_devices([], "GPU")


def _bars(record: Record) -> tuple[str, Mapping[str, Figure]]:
    prefix = f"{record.name}."
    if record.name == each.NAME:
        return "stages: times less CPU than the counterpart", each.bars(record)
    times = {name.removeprefix(prefix): figure for name, figure in record.figures.items() if figure.unit == "us"}
    bars: dict[str, Figure] = {}
    for name, figure in times.items():
        if name == "us_per_image":
            bars["tfhet, the whole chain"] = figure
        elif name == "example_us_per_image":
            bars[example.AGAINST] = figure
        elif name.endswith(".us_per_image"):
            words = name.removesuffix(".us_per_image").replace(".", " ")
            bars[words if words.split()[0] not in forms.WAYS else f"tfhet {words}"] = figure
        else:
            step = name.removesuffix("_us")
            bars["read and batch alone" if step == chain.DECODE else f"{step.replace('_decode', ' decode')} alone"] = (
                figure
            )
    return f"{record.name}: CPU microseconds per image", bars


def _notes(record: Record) -> list[str]:
    """Peers that were not measured."""
    missing = record.details.get("peers_missing") or {}
    how = "tfhet bench stages --peers install"
    notes = [f"missing: peer {name}: {why}" for name, why in missing.items()]
    return [*notes, f"{how} installs what a package index has"] if notes else []


SUITE = Suite(
    name="stages",
    does="CPU per image of a chain of stages, against other libraries, and of each stage",
    options=_options,
    run=_run,
    bars=_bars,
    notes=_notes,
)
