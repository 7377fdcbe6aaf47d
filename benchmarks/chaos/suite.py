"""`benchmarks.chaos`: jobs to which faults are done at random, one schedule for each seed.

Two schedules count from the start of the ranks' scripts, the next two from their first batches.
Of every job: whether it ended within the promise for what was done to it, in a way that this allows, with launchers
that agree; whether every example is accounted for, by the job's own audit and by `benchmarks.judge`, which shares no
code with it; and what it left behind. A job that was told to stop is taken up by another one, which has to account for
the examples of both.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.chaos.expectation import GOES_ON, STOP
from benchmarks.chaos.outcome import ChaosOutcome, strikes
from benchmarks.chaos.schedule import Aim, schedule
from benchmarks.cluster_runs.leftovers import Before, taken_away
from benchmarks.cluster_runs.observed_job import ObservedJob, new_place
from benchmarks.faults.case import EPOCHS, LEASE_S, READY_S
from benchmarks.judge.judge import Run, content_of, judge
from tfhet.bench.harness import report
from tfhet.bench.suite import Suite
from tfhet.errors import UsageError
from tfhet.events import Observer
from tfhet.launch.settings import LaunchSettings
from tfhet.record import Figure, Record, RunFolder, RunSummary
from tfhet.simulate import ClusterFile, Fault, GroupFile
from tfhet.simulate.fault import ONCE
from tfhet.source.digits import digits

CHANNELS = {"training": "digits/train"}
CLUSTERS = (
    ClusterFile("one-and-one", {"data_group": GroupFile(1), "dnn_group": GroupFile(1, ranks=2)}, CHANNELS),
    ClusterFile("two-and-two", {"data_group": GroupFile(2), "dnn_group": GroupFile(2, ranks=1)}, CHANNELS),
)
"""The seeds take turns with them: two ranks on one host, and on two."""
LENGTH_S = 5.0
"""Faults come within so long: about as long as a job trains."""
MAX_RUN_S = 100.0
GLOBAL_BATCH = 32


def arguments(ranks: int) -> list[str]:
    """The job: about 5 s of training, where nothing disturbs it."""
    return [
        *f"--model emulated --step_ms 50 --batch_size {GLOBAL_BATCH // ranks} --epochs {EPOCHS} --shuffle 0".split(),
        *f"--chain none --validation none --export false --lease_s {LEASE_S:g}".split(),
        *f"--ready_timeout_s {READY_S:g} --log_every 5 --train_script benchmarks/job_scripts/witness_train.py".split(),
    ]


def run_seed(seed: int, launcher: Path, place: Path, hosts: str = "process") -> ChaosOutcome:
    """Runs one schedule in `place`, which must be new."""
    cluster = CLUSTERS[seed % len(CLUSTERS)]
    command = [str(launcher), *arguments(Aim.of(cluster, LaunchSettings()).ranks)]
    settings, _ = LaunchSettings.parse([*cluster.arguments(), *command[1:]])
    networks = hosts == "namespace"
    # The script with the witness is the built-in one.
    aim = replace(Aim.of(cluster, settings, networks=networks), built_in=True)
    how: dict[str, Any] = {"hosts": hosts, "start": "alone" if networks else "ranks", "max_run_s": MAX_RUN_S}
    faults = schedule(seed, aim, LENGTH_S)
    if seed // len(CLUSTERS) % 2 == 0:  # also while data sets are registered and graphs are built, which takes longer
        faults = tuple(fault if fault.kind in ONCE else replace(fault, since="scripts") for fault in faults)
    before = Before.now()
    job = ObservedJob(cluster, command, place, faults=faults, **how)
    outcome = _outcome(seed, job, job.run(), faults, aim)
    gone = set().union(*(taken_away(strike.fault, job) for strike in outcome.strikes))
    outcome = replace(outcome, left=before.left_by(job, gone))
    if outcome.kind == GOES_ON:
        return replace(outcome, judged=_judged(job))
    if outcome.kind != STOP:
        return outcome
    (place / "resumed").mkdir()
    (place / "resumed" / "checkpoints").symlink_to(job.checkpoints)
    again = ObservedJob(cluster, command, place / "resumed", **how)
    return replace(outcome, resumed=again.run(), judged=_judged(job, again))


def _judged(*jobs: ObservedJob) -> tuple[str, ...]:
    expected = content_of(digits() / "train")
    return tuple(judge([Run.read(job.folder.path) for job in jobs], expected, EPOCHS))


def _outcome(seed: int, job: ObservedJob, summary: RunSummary, faults: tuple[Fault, ...], aim: Aim) -> ChaosOutcome:
    events = list(RunFolder(job.folder.path).events())
    trained = [float(e["time_s"]) for e in events if e["event"] == "rank.ended" and not e["code"]]
    gone = [float(e["time_s"]) for e in events if e["event"] == "launchers.gone"]
    return ChaosOutcome(
        seed,
        job.cluster.name,
        faults,
        aim,
        summary,
        strikes(faults, events),
        trained_s=min(trained, default=None),
        gone_s=max(gone, default=None),
        hosts={place: job.named(place)[0].name for place in aim.hosts},
    )


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seeds", type=int, default=10, metavar="N", help="how many (default %(default)s)")
    parser.add_argument("--first", type=int, default=0, metavar="SEED", help="the first of them (default %(default)s)")
    parser.add_argument(
        "--hosts",
        choices=("process", "namespace"),
        default="process",
        help="namespace: containers, whose networks are harmed, too (needs root); default %(default)s",
    )
    parser.add_argument("--launcher", type=Path, default=Path("scripts/launcher.py"), help="default %(default)s")
    parser.add_argument("--folder", type=Path, metavar="DIR", help="keep the runs that broke a promise here")


def _run(options: argparse.Namespace, observer: Observer, command: Sequence[str]) -> Record:
    if options.seeds < 1:
        raise UsageError(f"--seeds {options.seeds}: give at least 1")
    if not options.launcher.is_file():
        raise UsageError(f"--launcher {options.launcher}: no such file; run it in the checkout")
    outcomes = []
    with new_place("chaos") as place:
        for index in range(options.seeds):
            seed = options.first + index
            outcome = run_seed(seed, options.launcher, place / str(seed), options.hosts)
            outcomes.append(outcome)
            _tell(observer, outcome, index + 1, options.seeds)
            if outcome.breaches and options.folder is not None:
                _keep(place / str(seed), options.folder / f"seed-{seed}")
            shutil.rmtree(place / str(seed), ignore_errors=True)
    details = {"hosts": options.hosts, "schedules": [outcome.to_json() for outcome in outcomes]}
    return Record.of("chaos", figures_of(outcomes), details=details, command=command)


def _tell(observer: Observer, outcome: ChaosOutcome, number: int, seeds: int) -> None:
    name = f"seed {outcome.seed} ({outcome.cluster}): {' '.join(map(str, outcome.faults))}: {outcome.kind}"
    report(observer, name, number, seeds, outcome.breaches, outcome.summary.duration_s)


def _keep(run: Path, folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(folder)
    # Links stay links: the channels' files are not part of the run.
    shutil.copytree(run, folder, symlinks=True)


def figures_of(outcomes: Sequence[ChaosOutcome]) -> Mapping[str, Figure]:
    """The flat table."""
    failures = [o.exit_s for o in outcomes if o.kind == "failure" and o.exit_s is not None]
    counts = {
        "schedules": (len(outcomes), "schedules"),
        "hangs": (sum(o.hangs for o in outcomes), "schedules"),
        "leaks": (sum(len(o.left) for o in outcomes), "things"),
        "uncounted_examples": (sum(o.uncounted for o in outcomes), "examples"),
        "missing_examples": (sum(o.sum("missing") for o in outcomes), "examples"),
        "broken": (sum(bool(o.breaches) for o in outcomes), "schedules"),
    }
    figures = {f"chaos.{name}": Figure.of([float(count)], unit=unit) for name, (count, unit) in counts.items()}
    return figures | ({"chaos.worst_exit_s": Figure.of([max(failures)], unit="s")} if failures else {})


def _notes(record: Record) -> list[str]:
    """How many ended how, and every breach of a promise."""
    jobs = record.details["schedules"]
    kinds = [job["kind"] for job in jobs]
    lines = [", ".join(f"{kind}: {kinds.count(kind)}" for kind in sorted(set(kinds)))]
    for job in jobs:
        lines += [f"not kept: seed {job['seed']}: {breach}" for breach in job["breaches"]]
    return lines


def _is_kept(record: Record) -> bool:
    return not record.figures["chaos.broken"].value


SUITE = Suite(
    name="chaos",
    does="jobs to which faults are done at random: whether each ended as it should, and lost nothing in silence",
    options=_options,
    run=_run,
    notes=_notes,
    is_kept=_is_kept,
)
