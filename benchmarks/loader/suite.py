"""Images/s, memory and first batch of data loaders: tfhet and other libraries on JPEG photos of two classes."""

from __future__ import annotations

import argparse
import functools
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.loader.loaders import BOTH, LOADERS, TORCH, Loader
from benchmarks.loader.runs import Run, ask, loader_named, run
from benchmarks.peers import packages
from benchmarks.peers.peer import LINEAR, Job
from benchmarks.stages.peer_cases import INSTALL, NONE
from tfhet.arguments import check_positive
from tfhet.bench import Suite, harness
from tfhet.clock import SYSTEM
from tfhet.errors import TfhetError, UsageError
from tfhet.events import Event, Observer
from tfhet.record import Figure, Record
from tfhet.report import number, table, text

ROUNDS, TRIALS, TRIAL_S = 5, 2, 2.0
"""Measured rounds; trials of each number of workers, and the steady state of one. The best trial counts."""
DATALOADERS = ("dataloader", "dataloader-pillow")
TIMES_DATALOADER, TIMES_BEST, MEMORY_SHARE, AFTER_IMPORT_S = 2.0, 1.4, 1 / 3, 0.5
"""The targets: tfhet's rate over the DataLoader's and over the best peer's, its share of the DataLoader's memory, and
its time from the end of the import to the first batch."""


@dataclass
class Runs:
    """The runs of all loaders."""

    job: Job
    seconds: float
    cache: Path | None
    observer: Observer
    jobs: dict[str, Job] = field(default_factory=dict)
    """Jobs of the loaders that can run, by name."""
    missing: dict[str, str] = field(default_factory=dict)
    """Reasons by loader."""
    trials: dict[str, dict[int, float]] = field(default_factory=dict)
    """Images/s by loader and number of workers."""

    def start(self, loader: Loader, can_install: bool) -> None:
        """Installs and prepares a loader, and finds its best number of workers."""
        try:
            if can_install and loader.requires and not packages.folder_of(loader, self.cache).is_dir():
                packages.install(loader, self.cache)
            if loader.prepare is not None:
                ask(loader, self.job, {"prepare": True}, self.cache)
            workers = self._best_workers(loader) if loader.workers else self.job.threads
            self.jobs[loader.name] = replace(self.job, threads=workers)
        except TfhetError as error:
            self._drop(loader, error)

    def once(self, loader: Loader, index: int, warmup: int) -> Run | None:
        """Runs a loader in one round; None if it is missing. Memory is read in the warm-up rounds."""
        if loader.name in self.missing:
            return None
        try:
            return run(loader, self.jobs[loader.name], self.seconds, self.cache, is_sampled=index < warmup)
        except TfhetError as error:
            self._drop(loader, error)
            return None

    def _best_workers(self, loader: Loader) -> int:
        rates = dict.fromkeys(loader.workers, 0.0)
        for index, workers in enumerate(loader.workers * TRIALS):
            taken = run(loader, replace(self.job, threads=workers), TRIAL_S, self.cache, is_sampled=False)
            rates[workers] = max(rates[workers], taken.images_per_s)
            said = f"{workers} workers: {describe(loader.name, taken)}"
            harness.report(self.observer, f"{loader.name} trial", index + 1, len(rates) * TRIALS, [said])
        self.trials[loader.name] = rates
        return max(rates, key=rates.__getitem__)

    def _drop(self, loader: Loader, error: TfhetError) -> None:
        self.missing[loader.name] = str(error)
        self.observer(Event("case.missing", SYSTEM.wall(), {"case": loader.name, "reason": str(error)}))


def _options(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(repeats=ROUNDS, warmup=1)
    add = parser.add_argument
    words = "peers to measure next to tfhet; none; or install: all, with missing ones from the package index"
    add("--peers", default="", metavar="NAMES", help=f"{words} (default: all that are installed)")
    add("--way", default=LINEAR, choices=BOTH, help="way of resizing (default %(default)s)")
    add("--photos", type=int, default=1024, metavar="N", help="number of photos (default %(default)s)")
    add("--batch_size", type=int, default=64, metavar="N", help="images of a batch (default %(default)s)")
    add("--seconds", type=float, default=4.0, metavar="X", help="least steady state of a run (default %(default)s)")
    add("--threads", type=int, default=os.cpu_count() or 1, metavar="N", help="threads of a loader (default: cores)")
    add("--cache", type=Path, metavar="DIR", help="folder where data and packages are kept (default ~/.cache)")


def _run(options: argparse.Namespace, observer: Observer, command: Sequence[str]) -> Record:
    check_positive(options, "photos", "batch_size", "seconds", "threads")
    if options.warmup < 1:
        raise UsageError("--warmup is at least 1: the warm-up rounds measure the memory")
    loaders, cache = wanted(options.peers), options.cache and options.cache / "tfhet"
    with tempfile.TemporaryDirectory(prefix="tfhet-loader-") as name:
        files = photo_files(Path(name) / "photos", options.photos, options.cache)
        job = Job("imagenet-train", options.way, "uint8", files, options.batch_size, options.threads)
        runs = Runs(job, options.seconds, cache, observer)
        for loader in loaders:
            runs.start(loader, options.peers == INSTALL)
        able = {loader.name: loader for loader in loaders if loader.name in runs.jobs}
        cases = {name: functools.partial(runs.once, loader, warmup=options.warmup) for name, loader in able.items()}
        if not cases:
            raise TfhetError(f"no loader could run: {runs.missing}")
        every = options.warmup + options.repeats
        taken = harness.in_rounds(cases, describe, warmup=0, repeats=every, observer=observer)
    whole = {name: [each for each in found if each] for name, found in taken.items() if name not in runs.missing}
    others = {name: able[name].other_image[job.way] for name in whole if job.way in able[name].other_image}
    details: dict[str, Any] = {
        "way": job.way,
        "workers": {name: runs.jobs[name].threads for name in whole},
        "trials": runs.trials,
    }
    details |= {"other_image": others, "missing": runs.missing}
    details |= {"photos": len(files), "batch_size": job.batch_size, "seconds": options.seconds}
    details["versions"] = {name: found[0].versions for name, found in whole.items()}
    details["runs"] = {name: [asdict(each) for each in found] for name, found in whole.items()}
    return Record.of("loader", figures_of(whole, job.way), details=details, command=command)


def wanted(option: str) -> list[Loader]:
    """Returns tfhet's loaders and the peers that `--peers` names. Raises UsageError for an unknown one."""
    if option in ("", INSTALL):
        return [*LOADERS.values()]
    names = set() if option == NONE else {loader_named(name.strip()).name for name in option.split(",")}
    return [loader for loader in LOADERS.values() if loader.is_tfhet or loader.name in names]


def photo_files(folder: Path, count: int, cache: Path | None) -> tuple[str, ...]:
    """Writes photos as folder/CLASS/NUMBER.jpg and returns their paths. cache: of the photos' TFRecords."""
    import tensorflow as tf

    from tfhet.source import TFRecordSource, photos as photo_data

    source = TFRecordSource.from_directory(photo_data.photos(count=count, cache=cache))
    examples = next(iter(tf.data.TFRecordDataset(list(source.files)).batch(count).map(source.parse)))
    files = []
    for index, (image, label) in enumerate(zip(*(examples[name].numpy() for name in ("image", "label")), strict=True)):
        files.append(folder / photo_data.CLASSES[label].partition(".")[0] / f"{index:06d}.jpg")
        files[-1].parent.mkdir(parents=True, exist_ok=True)
        files[-1].write_bytes(image)
    return tuple(map(str, sorted(files)))


def describe(name: str, taken: Run | None) -> str:
    """Returns a run in words."""
    if taken is None:
        return "missing"
    memory = f", {taken.peak_mib:.0f} MiB" if taken.peak_mib is not None else ""
    return f"{taken.images_per_s:.0f} images/s, first batch {taken.first_batch_s:.2f} s{memory}"


def figures_of(taken: Mapping[str, Sequence[Run]], way: str) -> dict[str, Figure]:
    """Returns the ratios of images/s first, tfhet's over each peer's, then the figures of each loader. The best peer
    makes the same image, and its ratio is to the loader of tfhet with the same kind of batches."""
    figures, best = dict[str, Figure](), dict[str, Figure]()
    rates = {name: [each.images_per_s for each in found if each.peak_mib is None] for name, found in taken.items()}
    lanes = [name for name in taken if LOADERS[name].is_tfhet]
    for lane in lanes:
        for peer in (LOADERS[name] for name in taken if name not in lanes):
            other = ", another image" if way in peer.other_image else ""
            ratio = Figure.ratio(rates[lane], rates[peer.name], against=peer.words + other)
            figures[f"loader.{lane}_vs_{peer.name}"] = ratio
            if not other and lane == ("tfhet-torch" if peer.kind == TORCH else "tfhet"):
                best["loader.vs_best_peer"] = min(
                    best.get("loader.vs_best_peer", ratio), ratio, key=lambda it: it.value
                )
    for name, found in taken.items():
        timed = [each for each in found if each.peak_mib is None]
        figures[f"loader.{name}.images_per_s"] = Figure.of(rates[name], unit="images/s")
        figures[f"loader.{name}.peak_mib"] = Figure.of([each.peak_mib for each in found if each.peak_mib], unit="MiB")
        figures[f"loader.{name}.import_mib"] = Figure.of([it.import_mib for it in found if it.import_mib], unit="MiB")
        figures[f"loader.{name}.first_batch_s"] = Figure.of([each.first_batch_s for each in timed], unit="s")
        figures[f"loader.{name}.import_s"] = Figure.of([each.import_s for each in timed], unit="s")
    return {**best, **figures}


def targets(record: Record) -> list[tuple[str, bool]]:
    """Returns the targets whose two sides were measured: in words, and whether they are met."""
    values = {name.removeprefix("loader."): figure.value for name, figure in record.figures.items()}
    checks = [(f"tfhet-torch_vs_{peer}", TIMES_DATALOADER) for peer in DATALOADERS] + [("vs_best_peer", TIMES_BEST)]
    found = [
        (f"{name} is {values[name]:.2f}, at least {least}", values[name] >= least)
        for name, least in checks
        if name in values
    ]
    if {"tfhet.peak_mib", "dataloader.peak_mib"} <= values.keys():
        share = values["tfhet.peak_mib"] / values["dataloader.peak_mib"]
        found.append((f"tfhet: memory is {share:.2f} of dataloader's, at most 1/3", share <= MEMORY_SHARE))
    for lane in ("tfhet", "tfhet-torch"):
        if f"{lane}.import_s" in values:
            after_s = values[f"{lane}.first_batch_s"] - values[f"{lane}.import_s"]
            words = f"{lane}: first batch {after_s:.2f} s after the import, at most {AFTER_IMPORT_S:g} s"
            found.append((words, after_s <= AFTER_IMPORT_S))
    return found


def rows(record: Record) -> list[dict[str, object]]:
    """Returns the rows of the table: one per loader, the fastest first."""
    figures, others = record.figures, record.details["other_image"]
    made = []
    for name in record.details["runs"]:
        loader, rate = LOADERS[name], figures[f"loader.{name}.images_per_s"]
        workers = f" ({record.details['workers'][name]} workers)" if loader.workers else ""
        row = {"loader": loader.words + workers + (" *" if name in others else ""), "images/s": rate.value}
        row["range"] = f"{number(min(rate.samples))} to {number(max(rate.samples))}"
        row |= {"peak MiB": figures[f"loader.{name}.peak_mib"].value}
        row |= {"of it import MiB": figures[f"loader.{name}.import_mib"].value}
        row |= {"first batch s": figures[f"loader.{name}.first_batch_s"].value}
        row |= {"of it import s": figures[f"loader.{name}.import_s"].value}
        for lane in (lane for lane in record.details["runs"] if LOADERS[lane].is_tfhet):
            ratio = figures.get(f"loader.{lane}_vs_{name}")
            row[f"{lane} / it"] = None if ratio is None else ratio.value
        made.append(row)
    return sorted(made, key=lambda row: -float(str(row["images/s"])))


def _notes(record: Record) -> list[str]:
    details = record.details
    notes = [text(table(rows(record)))]
    notes += [
        f"* another image: {name}: {why}; it is never the best peer" for name, why in details["other_image"].items()
    ]
    return notes + [f"met: {words}" for words, is_met in targets(record) if is_met]


def _breaches(record: Record) -> list[str]:
    found = [f"missed: {words}" for words, is_met in targets(record) if not is_met]
    return found if "tfhet" in record.details["runs"] else [*found, "missed: tfhet itself was not measured"]


SUITE = Suite(
    name="loader",
    does="images/s and memory of data loaders of JPEG photos, against other libraries",
    options=_options,
    run=_run,
    notes=_notes,
    breaches=_breaches,
)
