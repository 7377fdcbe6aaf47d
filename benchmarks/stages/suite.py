"""CPU per image of a chain: tfhet in every form, the chain as AWS's example writes it, and other libraries.

With `--each`, every stage against its counterpart in TensorFlow, Keras or Addons.
"""

from __future__ import annotations

import argparse
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from benchmarks.job_scripts import plain
from benchmarks.peers.peer import Job
from benchmarks.stages import each, forms, peer_cases
from benchmarks.stages.forms import Form
from benchmarks.stages.peer_cases import INSTALL, Entry
from tfhet.bench import Case, Measurement, Suite, chain, harness, stages
from tfhet.bench.chain import Course
from tfhet.events import Observer
from tfhet.record import Figure, Record


def _options(parser: argparse.ArgumentParser) -> None:
    stages.options_of_a_chain(parser)
    words = "instead of a chain: every stage, or those named, against its counterpart in TensorFlow, Keras or Addons"
    parser.add_argument("--each", nargs="?", const="", metavar="NAMES", help=words)
    words = "peers to measure; none; or install: all, with missing ones from the package index (default: all)"
    parser.add_argument("--peers", default="", metavar="NAMES", help=words)


def _run(options: argparse.Namespace, observer: Observer, command: Sequence[str]) -> Record:
    peers = peer_cases.wanted(options.peers)
    if options.each is not None:
        stages.without_gpu()
        return each.run(options, observer, command)
    with stages.prepared(options) as made:
        course = made.course
        files = as_files(course, made.folder)
        job = Job(course.name, "", "float32", files, course.pipeline.batch_size, course.cores)
        where = {"can_install": options.peers == INSTALL, "cache": options.cache and options.cache / "tfhet"}
        with peer_cases.started(peers, job, course.examples, observer, **where) as found:
            parts = [case for case in made.cases if case.name != chain.TFHET]
            cases = [*forms.whole_cases(course), *parts, *(entry.case for entry in found.entries)]
            peer_names = {entry.case.name for entry in found.entries}
            taken = harness.measure(cases, repeats=options.repeats, warmup=options.warmup, observer=observer)
    for name in peer_names - {entry.case.name for entry in found.entries}:
        del taken[name]  # its peer failed in one of the rounds
    figures = figures_of(course, forms.forms(course.pipeline), taken, found.entries, made.steps)
    missing = dict(found.missing)
    if forms.PLAIN not in taken and plain.knows(course.pipeline.stages):
        missing[forms.PLAIN] = plain.missing(course.pipeline.stages)
    details = {**made.details(taken), "peers": found.versions, "peers_missing": missing}
    details |= {"peers_other_image": found.other_images}
    return Record.of(f"stages.{course.name}", figures, details=details, command=command)


def as_files(course: Course, directory: Path) -> tuple[str, ...]:
    """Returns the images of the chain's source as files for peers, in order: JPEG files in `directory`, or one .npy
    file of all decoded images."""
    import numpy as np
    import tensorflow as tf

    from tfhet.source import TFRecordSource

    source = course.pipeline.source
    assert isinstance(source, TFRecordSource)
    records = tf.data.TFRecordDataset(list(source.files)).batch(256)
    images = [image for batch in records for image in source.parse(batch)["image"].numpy()]
    if not isinstance(images[0], bytes):
        np.save(directory / "images.npy", np.stack(images))
        return (str(directory / "images.npy"),)
    files = [directory / f"{index:06d}.jpg" for index in range(len(images))]
    for file, content in zip(files, images, strict=True):
        file.write_bytes(content)
    return tuple(map(str, files))


def figures_of(
    course: Course,
    shapes: Sequence[Form],
    taken: Mapping[str, Measurement],
    entries: Sequence[Entry],
    steps: Mapping[str, Case],
) -> dict[str, Figure]:
    """Returns the figures of a chain, ratios first. `entries` are the peers that completed all rounds."""
    prefix, ratios, times = f"stages.{course.name}", dict[str, Figure](), dict[str, Figure]()
    if forms.PLAIN in taken:
        ours = taken[forms.plain_form(shapes).case]
        ratios[f"{prefix}.vs_example"] = ours.cheaper_than(taken[forms.PLAIN], plain.AGAINST)
        times[f"{prefix}.example_us_per_image"] = taken[forms.PLAIN].figure()
    if forms.IN_MEMORY in taken:
        times[f"{prefix}.in_memory_us_per_image"] = taken[forms.IN_MEMORY].figure()
    for form in shapes:
        times[".".join(filter(None, (prefix, form.key, "us_per_image")))] = taken[form.case].figure()
    for entry in entries:
        times[f"{prefix}.{entry.key}.us_per_image"] = taken[entry.case.name].figure()
    peers = [entry for entry in entries if not entry.peer.is_tfhet]
    # Peers get small images decoded and in memory.
    own = {form: taken[forms.IN_MEMORY if forms.IN_MEMORY in taken else form.case] for form in shapes}
    rivals = {entry.peer.name for entry in peers if not entry.peer.other_image}
    ratios |= against(f"{prefix}.", own, peers, taken, rivals)
    rivals -= {entry.peer.name for entry in peers if entry.peer.uses_tensorflow}
    for lane in dict.fromkeys(entry.peer.name for entry in entries if entry.peer.is_tfhet):
        own = {entry.form: taken[entry.case.name] for entry in entries if entry.peer.name == lane}
        ratios |= against(f"{prefix}.{lane}_", own, peers, taken, rivals)
    return {**ratios, **times, **chain.part_figures(course, taken, steps)}


def against(
    prefix: str,
    ours: Mapping[Form, Measurement],
    peers: Sequence[Entry],
    taken: Mapping[str, Measurement],
    rivals: Collection[str],
) -> dict[str, Figure]:
    """Returns how many times less CPU tfhet takes than each peer, in the form in which the two are closest.

    Args:
        prefix: Of the names of the figures.
        ours: tfhet's measurement in each form.
        peers: The peers that completed all rounds.
        taken: All measurements by case.
        rivals: Names of the peers of which the best one is looked for.
    """
    closest = dict[str, Figure]()
    for entry in peers:
        ratio = ours[entry.form].cheaper_than(taken[entry.case.name], entry.words)
        for name in (entry.peer.name, *(("best_peer",) if entry.peer.name in rivals else ())):
            key = f"{prefix}vs_{name}"
            closest[key] = min(closest.get(key, ratio), ratio, key=lambda figure: figure.value)
    return closest


def _notes(record: Record) -> list[str]:
    missing = record.details.get("peers_missing") or {}
    others = record.details.get("peers_other_image") or {}
    notes = [f"another image: peer {name}: {why}; it is not counted in best_peer" for name, why in others.items()]
    notes += [f"missing: {'' if name == forms.PLAIN else 'peer '}{name}: {why}" for name, why in missing.items()]
    return [*notes, "--peers install installs packages of peers"] if missing.keys() - {forms.PLAIN} else notes


SUITE = Suite(
    name="stages",
    does="CPU per image of a chain of stages, against AWS's example and other libraries",
    options=_options,
    run=_run,
    notes=_notes,
)
