"""`tfhet bench stages` in every form, beside the chain as plain TensorFlow and beside other libraries, each peer in a
process of its own, in turns with tfhet's chain.

With `--each`, every stage is held against its counterpart in TensorFlow, Keras or Addons instead.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.charts.plot import drawn_bars
from benchmarks.job_scripts import plain
from benchmarks.peers.job import LINEAR
from benchmarks.stages import each, forms, fused_picture, peer_cases
from benchmarks.stages.crop_decode import CROP, crop_cases
from benchmarks.stages.forms import WAYS, Form
from benchmarks.stages.peer_cases import Entry
from tfhet.bench import Measurement, Suite, chain, harness, stages
from tfhet.bench.chain import Course
from tfhet.events import Observer
from tfhet.record import Figure, Record

CROP_DECODED = "imagenet-train"
"""The chain that is held against decoding its crops and nothing else."""


def _options(parser: argparse.ArgumentParser) -> None:
    stages.options_of_a_chain(parser)
    parser.add_argument(
        "--each",
        nargs="?",
        const="",
        metavar="NAMES",
        help="instead of a chain: every stage, or those named, against its counterpart in TensorFlow, Keras or Addons",
    )
    parser.add_argument(
        "--peers",
        default="",
        metavar="NAMES",
        help="peers to measure; none; or install: those that are missing too, from the package index into the user's"
        " cache (default: all that are there)",
    )


def _run(options: argparse.Namespace, observer: Observer, command: Sequence[str]) -> Record:
    peers = peer_cases.wanted(options.peers)
    if options.each is not None:
        stages.without_gpu()
        return each.run(options, observer, command)
    with stages.prepared(options) as made:
        course = made.course
        files = as_files(course, made.folder) if peers else ()
        cache = peer_cases.cache_of(options.cache)
        counts = (course.examples, course.pipeline.batch_size, course.cores)
        task = peer_cases.Task(course.name, files, *counts, options.peers, cache)
        with peer_cases.started(task, observer) as found:
            parts = [case for case in made.cases if case.name != chain.TFHET]
            peer = [entry.case for entry in found.entries]
            cases = [*forms.whole_cases(course), *parts, *crop_cases(course), *peer]
            taken = harness.measure(cases, repeats=options.repeats, warmup=options.warmup, observer=observer)
        apart = fused_picture.figures_of(course)
    shapes = forms.forms(course.pipeline)
    own = forms.figures_of(course, shapes, taken, made.steps)
    figures = {**figures_of(course, shapes, taken, found.entries, own), **apart}
    details = {**made.details(taken), "peers": found.versions, "peers_missing": found.missing}
    return Record.of(f"stages.{course.name}", figures, details=details, command=command)


def as_files(course: Course, directory: Path) -> tuple[str, ...]:
    """The images of the chain's source as peers read them, in its order: each encoded image a file of its own in
    `directory`, or all decoded ones as one .npy file."""
    import numpy as np
    import tensorflow as tf

    from tfhet.source import TFRecordSource

    source = course.pipeline.source
    assert isinstance(source, TFRecordSource)
    records = tf.data.TFRecordDataset(list(source.files)).batch(256)
    images = [image for batch in records for image in source.parse(batch)["image"].numpy()]
    if not isinstance(images[0], bytes):
        path = directory / "images.npy"
        np.save(path, np.stack(images))
        return (str(path),)
    files = []
    for index, content in enumerate(images):
        path = directory / f"{index:06d}.jpg"
        path.write_bytes(content)
        files.append(str(path))
    return tuple(files)


def figures_of(
    course: Course,
    shapes: Sequence[Form],
    taken: Mapping[str, Measurement],
    entries: Sequence[Entry],
    own: Mapping[str, Figure],
) -> dict[str, Figure]:
    """The figures `own` of the chain, with those of the peers and of the crops; ratios first."""
    prefix = f"stages.{course.name}"
    # Peers get small images decoded, so they are compared with the chain on such.
    ours = {form: taken[forms.IN_MEMORY if forms.IN_MEMORY in taken else form.case] for form in shapes}
    peers = [
        (entry, ours[entry.form].cheaper_than(taken[entry.case.name], entry.words))
        for entry in entries
        if entry.form in ours
    ]
    ratios = {name: figure for name, figure in own.items() if figure.unit == "x"}
    same = [(entry, ratio) for entry, ratio in peers if entry.same_picture]
    for name in dict.fromkeys(entry.peer.name for entry, _ in same):
        ratios[f"{prefix}.vs_{name}"] = _least([ratio for entry, ratio in same if entry.peer.name == name])
    if same:
        ratios[f"{prefix}.vs_best_peer"] = _least([ratio for _, ratio in same])
    for name, way in dict.fromkeys((entry.peer.name, entry.job.way) for entry, _ in peers if not entry.same_picture):
        others = [ratio for entry, ratio in peers if (entry.peer.name, entry.job.way) == (name, way)]
        ratios[f"{prefix}.vs_{name}_{way}"] = _least(others)
    plain_crops = Form(LINEAR, "uint8")
    if course.name == CROP_DECODED and CROP in taken and plain_crops in ours:
        over = Figure.ratio(ours[plain_crops].cpu_us, taken[CROP].cpu_us, against="decoding the crops alone")
        ratios[f"{prefix}.over_crop_decode"] = over
    table: dict[str, Figure] = {}
    for entry, ratio in peers:
        table[f"{prefix}.{entry.key}.us_per_image"] = taken[entry.case.name].figure()
        cores = 1 if course.name in entry.peer.on_one_thread else course.cores
        table[f"{prefix}.{entry.key}.examples_per_s_core"] = chain.rate(taken[entry.case.name], cores)
        table[f"{prefix}.{entry.key}.ratio"] = ratio
    if CROP in taken:
        table[f"{prefix}.crop_decode_us"] = taken[CROP].figure()
    return {**ratios, **own, **table}


def _least(ratios: Sequence[Figure]) -> Figure:
    """The ratio to the peer that comes closest."""
    return min(ratios, key=lambda ratio: ratio.value)


def bars(record: Record) -> tuple[str, dict[str, Figure]]:
    """The title and the bars of the picture."""
    prefix = f"{record.name}."
    if record.name == each.NAME:
        return "stages: times less CPU than the counterpart", each.bars(record)
    times = {name.removeprefix(prefix): figure for name, figure in record.figures.items() if figure.unit == "us"}
    found: dict[str, Figure] = {}
    for name, figure in times.items():
        if name == "us_per_image":
            found["tfhet, the whole chain"] = figure
        elif name == "example_us_per_image":
            found[plain.AGAINST] = figure
        elif name.endswith(".us_per_image"):
            words = name.removesuffix(".us_per_image").replace(".", " ")
            found[words if words.split()[0] not in WAYS else f"tfhet {words}"] = figure
        else:
            step = name.removesuffix("_us").replace("_decode", " decode")
            found["read and batch alone" if step == chain.DECODE else f"{step} alone"] = figure
    return f"{record.name}: CPU microseconds per image", found


def _notes(record: Record) -> list[str]:
    missing = record.details.get("peers_missing") or {}
    notes = [f"missing: peer {name}: {why}" for name, why in missing.items()]
    return [*notes, "--peers install installs what a package index has"] if notes else []


SUITE = drawn_bars(
    Suite(
        name="stages",
        does="CPU per image of a chain of stages, against other libraries, and of each stage",
        options=_options,
        run=_run,
        notes=_notes,
    ),
    bars,
)
