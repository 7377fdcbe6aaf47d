"""`benchmarks.files`: what the start of a job costs with many and with large files, and what stands between epochs.

Files are written into a temporary folder, opened and checked, and read again from where a worker was lost. The gap is
that between the last step of an epoch and the first of the next, in a simulated job whose ranks share half a CPU.
"""

from __future__ import annotations

import argparse
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.cluster_runs.observed_job import new_place
from tfhet.bench.harness import report
from tfhet.bench.suite import JOB, Suite
from tfhet.clock import SYSTEM
from tfhet.errors import JobFailed, UsageError
from tfhet.events import Observer
from tfhet.record import Figure, Record, RunFolder, StepTime
from tfhet.simulate import ClusterFile, GroupFile, simulate
from tfhet.units import MICROSECOND_S

GAP = "files.gap_s"
LIMIT_S = 0.1
MANY, LARGE = 10**6, 33_000_000
"""Files, and records of 3 kB in 100 GB, for which the time is computed."""
IMAGE = (32, 32, 3)
LOST_AT = 0.9
"""Share of a file that had been read when its worker was lost."""
RUN_LIMIT_S = 300.0


def _options(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(repeats=5, warmup=0)
    parser.add_argument("--files", type=int, default=5_000, metavar="N", help="small files (default %(default)s)")
    parser.add_argument("--records", type=int, default=300_000, metavar="N", help="in the large file (%(default)s)")
    parser.add_argument("--epochs", type=int, default=6, metavar="N", help="of the job; 0 for none (%(default)s)")
    parser.add_argument("--cpus", type=float, default=0.5, metavar="X", help="of the dnn host (default %(default)s)")
    parser.add_argument("--launcher", type=Path, default=Path("scripts/launcher.py"), help="default %(default)s")


def _run(options: argparse.Namespace, observer: Observer, command: Sequence[str]) -> Record:
    if options.files < 1 or options.records < 100 or options.epochs == 1 or options.epochs < 0:
        raise UsageError("--files: at least 1; --records: at least 100; --epochs: 0 or at least 2")
    if not options.launcher.is_file():
        raise UsageError(f"--launcher {options.launcher}: no such file; run it in the checkout")
    samples: dict[str, list[float]] = {}
    with new_place("files") as place:
        for name, value in (*_many(place / "many", options), *_large(place / "large", options)):
            samples.setdefault(name, []).append(value)
            report(observer, name, len(samples[name]), options.repeats, [f"{value:.3g}"])
        runs = options.repeats if options.epochs else 0
        for number in range(runs):
            found = _gaps(place / f"job-{number}", options)
            samples.setdefault(GAP, []).extend(found)
            report(observer, "job", number + 1, runs, [", ".join(f"{gap:.3f} s" for gap in found)])
    details = {"files": options.files, "records": options.records, "cpus": options.cpus, "epochs": options.epochs}
    return Record.of("files", figures_of(samples), details=details, command=command)


def _many(place: Path, options: argparse.Namespace) -> Iterator[tuple[str, float]]:
    """Microseconds for each small file."""
    from tfhet.source import TFRecordSource

    first, *others = _written(place, options.files, 1)
    for file in others:
        os.link(first, file)
    for _ in range(options.repeats):
        begin_s = SYSTEM.monotonic()
        source = TFRecordSource.from_directory(place)
        opened_s = SYSTEM.monotonic()
        source.fingerprint()
        read_s = SYSTEM.monotonic()
        source.check()
        ended_s = SYSTEM.monotonic()
        times = {"list": opened_s - begin_s, "fingerprint": read_s - opened_s, "check": ended_s - read_s}
        yield from ((f"files.{name}_us", took_s / options.files / MICROSECOND_S) for name, took_s in times.items())
    shutil.rmtree(place)


def _large(place: Path, options: argparse.Namespace) -> Iterator[tuple[str, float]]:
    """Microseconds for each record that is walked; seconds until all of the rest of the file is there."""
    import numpy as np

    from tfhet.placement import Pipeline, Rest, one_epoch
    from tfhet.source import IdSet, SeekingSource, TFRecordSource
    from tfhet.source.framing import reach, walk

    (file,) = _written(place, 1, options.records)
    seen = np.arange(int(LOST_AT * options.records), dtype=np.int64)
    rest = Rest(np.ones(1, bool), IdSet.of(seen))
    for _ in range(options.repeats):
        for name, walked in (("compiled", lambda: reach([file])), ("python", lambda: sum(1 for _ in walk(file)))):
            begin_s = SYSTEM.monotonic()
            walked()
            took_s = SYSTEM.monotonic() - begin_s
            yield f"files.walk_{name}_us", took_s / options.records / MICROSECOND_S
        for name, kind in (("seek", TFRecordSource), ("filter", _without_seeking(TFRecordSource))):
            source = kind.from_directory(place)
            assert isinstance(source, SeekingSource) is (name == "seek")
            pipeline = Pipeline(source, batch_size=64)
            begin_s = SYSTEM.monotonic()
            left = sum(len(batch["id"]) for batch in one_epoch(pipeline, rest=rest))
            took_s = SYSTEM.monotonic() - begin_s
            if left != options.records - len(seen):
                raise JobFailed(f"the rest by {name} has {left} records, not {options.records - len(seen)}")
            yield f"files.rest_{name}_s", took_s
    shutil.rmtree(place)


def _without_seeking(kind: Any) -> Any:
    """The same source, read from the first byte of a file, as sources without `read_from` are."""
    return type("FilteredSource", (kind,), {"read_from": None, "starts": None})


def _written(place: Path, files: int, records: int) -> list[str]:
    """Writes a directory that lists so many files, and the first of them, with `records` images of 3 kB."""
    import numpy as np

    from tfhet.source import Raw, Scalar, Sidecar, write_tfrecords

    image = np.zeros(IMAGE, np.uint8)
    features = {"image": Raw(IMAGE), "label": Scalar()}
    write_tfrecords(place, ({"image": image, "label": 0} for _ in range(records)), 1, features)
    (only,) = place.glob("*.tfrecord*")
    first = place / "00000000.tfrecord"
    only.rename(first)
    (place / Sidecar.NAME).unlink()
    names = [str(place / f"{number:08}.tfrecord") for number in range(files)]
    Sidecar(features, {Path(name).name: records for name in names}).write(place)
    return names


def _gaps(place: Path, options: argparse.Namespace) -> list[float]:
    """Seconds of each gap of a job, the longest of its ranks."""
    groups = {
        "data_group": GroupFile(instance_type="ml.c5.xlarge", cpus=1.0),
        "dnn_group": GroupFile(ranks=2, instance_type="ml.p3.8xlarge", cpus=options.cpus),
    }
    words = "--timeline steps --model emulated --step_ms 60 --data synthetic:4096:16 --shuffle 0 --export False"
    job = ["--chain", "random_flip(); rescale()", "--epochs", str(options.epochs), "--checkpoint_every_epochs", "0"]
    summary = simulate(
        ClusterFile("gap", groups),
        [str(options.launcher), *words.split(), *job],
        place,
        hosts="namespace",
        limits_from="reading",
        max_run_s=RUN_LIMIT_S,
        on_line=lambda _: None,
    )
    if summary.exit_code:
        raise JobFailed(f"the job failed: {summary.cause}")
    steps = RunFolder(place).timeline().steps
    shutil.rmtree(place, ignore_errors=True)
    return gaps(steps)


def gaps(steps: Sequence[StepTime]) -> list[float]:
    """Seconds from the end of the last step of each epoch to the first batch of the next, the longest of all ranks."""
    found: dict[int, float] = {}
    for number in {step.rank for step in steps}:
        mine = [step for step in steps if step.rank == number]
        for last, first in zip(mine, mine[1:], strict=False):
            if last.epoch != first.epoch:
                gap_s = first.at_s + first.wait_s - last.at_s - last.dur_s
                found[first.epoch] = max(gap_s, found.get(first.epoch, 0.0))
    return [found[epoch] for epoch in sorted(found)]


def figures_of(samples: Mapping[str, Sequence[float]]) -> Mapping[str, Figure]:
    """The flat table, with what follows for a million files and for a file of 100 GB."""
    figures = {name: Figure.of(values, unit=name.rpartition("_")[2]) for name, values in samples.items()}
    for name in ("fingerprint", "check"):
        each = samples[f"files.{name}_us"]
        words = f"files.{name}_us x {MANY:,} files"
        figures[f"files.million_{name}_s"] = Figure.of(
            [MICROSECOND_S * MANY * us for us in each], unit="s", against=words
        )
    for name in ("compiled", "python"):
        each = samples[f"files.walk_{name}_us"]
        words = f"files.walk_{name}_us x {LARGE:,} records of 3 kB"
        figures[f"files.large_{name}_s"] = Figure.of(
            [MICROSECOND_S * LARGE * us for us in each], unit="s", against=words
        )
    filtered, sought = samples["files.rest_filter_s"], samples["files.rest_seek_s"]
    figures["files.rest_x"] = Figure.ratio(filtered, sought, against="the rest of a file read through a filter")
    return figures


def _notes(record: Record) -> list[str]:
    gap = record.figures.get(GAP)
    return [] if gap is None else [f"longest gap between two epochs: {max(gap.samples):.3f} s"]


def _is_kept(record: Record) -> bool:
    return GAP not in record.figures or record.figures[GAP].value <= LIMIT_S


SUITE = Suite(
    name="files",
    does="what many and large files cost at the start and after a loss, and the gap between epochs",
    measures=(*JOB, "benchmarks/files"),
    options=_options,
    run=_run,
    notes=_notes,
    is_kept=_is_kept,
)
