"""`benchmarks.chaos`: jobs to which faults are done at random, one schedule for each seed.

Of every job: whether it ended within the promise for what was done to it, in a way that this allows, with launchers
that agree; whether every example was seen exactly once, by `benchmarks.judge`, which shares no code with the job's own
audit, and whether the audit says the same; and what it left behind. A job that was told to stop is taken up by another
one, which has to account for the examples of both.

The record is written after each schedule. `--more` adds to it: further seeds, the same ones in containers or beside a
process that keeps the CPUs busy, what is left of a run that was broken off, or what broke a promise, after a mend.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.chaos.expectation import GOES_ON, STOP
from benchmarks.chaos.outcome import ChaosOutcome, strikes
from benchmarks.chaos.regressions import REGRESSIONS, WITH_RAY
from benchmarks.chaos.schedule import Aim, schedule
from benchmarks.cluster_runs import second_jobs
from benchmarks.cluster_runs.busy_cpus import busy_cpus
from benchmarks.cluster_runs.clusters import CLUSTERS, cluster_named
from benchmarks.cluster_runs.leftovers import PATIENCE_S, Before, taken_away
from benchmarks.cluster_runs.observed_job import ObservedJob, new_place
from benchmarks.faults.case import EPOCHS, LEASE_S, READY_S, WITNESS
from benchmarks.judge.judge import Verdict
from benchmarks.judge.runs_of_a_job import verdict, verdict_together
from tfhet.bench.harness import report
from tfhet.bench.suite import Suite
from tfhet.errors import UsageError
from tfhet.events import Observer
from tfhet.launch.settings import LaunchSettings
from tfhet.record import Figure, Record, RunFolder, RunSummary
from tfhet.simulate import ClusterFile, Fault

READER_WITNESS = "benchmarks/chaos/reader_witness.py"
LENGTH_S = 5.0
"""Faults come within so long: about as long as a job trains."""
MAX_RUN_S = 100.0
GLOBAL_BATCH = 32
RAY_READY_S, RAY_LENGTH_S, RAY_MAX_RUN_S = 60.0, 15.0, 300.0
"""The same of jobs with Ray, whose nodes and workers take longer to start, and to find that a host without a word is
gone."""
RAY_PATIENCE_S = 30.0
"""Seconds that the agents of a killed node may take to be gone: they notice its end once they have started."""
AS_OTHERS = {"RAY_worker_niceness": "0"}
"""Ray's workers give way to all other processes by default: on a machine with others they would get next to nothing."""
PASSES = 2 * EPOCHS
"""Epochs of a script that reads a declared pipeline, in batches twice as large: an epoch is known to be over once the
next but one has begun."""
_KEPT = {**REGRESSIONS, **WITH_RAY}
NONE_WHOLE = re.compile(r"none of the \d+ checkpoints in \S+ is whole")
"""The message of a job that has lost its only checkpoint."""


def arguments(ranks: int, plane: str, reader: bool = False, strategy: str = "torch") -> list[str]:
    """The job: about 5 s of training, where nothing disturbs it."""
    ready_s = RAY_READY_S if plane == "ray" else READY_S
    batch, words = GLOBAL_BATCH // ranks, f"--lease_s {LEASE_S:g} --ready_timeout_s {ready_s:g} --step_ms 50"
    if plane == "feed":
        words += f" --data_plane feed --data_host_processes 2 --batch_size {batch} --epochs {EPOCHS}"
        words += f" --train_script {READER_WITNESS} --reads feed"
    elif plane == "ray":
        words += f" --strategy {strategy} --data_plane ray --data_host_cpus 1 --batch_size {batch} --epochs {EPOCHS}"
        words += f" --train_script {READER_WITNESS} --reads {'cluster' if strategy == 'ray' else 'ray'}"
    elif reader:
        words += f" --data_plane tf_service --batch_size {2 * batch} --epochs {PASSES}"
        words += f" --train_script {READER_WITNESS} --reads pipeline"
    else:
        words += f" --model emulated --batch_size {batch} --epochs {EPOCHS} --shuffle 0 --chain none --validation none"
        words += f" --export false --log_every 5 --train_script {WITNESS}"
    return words.split()


def variables(faults: Sequence[Fault], plane: str) -> dict[str, str]:
    """Variables of the environment of all launchers of a job to which `faults` are done."""
    return (AS_OTHERS if plane == "ray" else {}) | second_jobs.variables(faults)


@dataclass(frozen=True)
class Planned:
    """One schedule that is to be run."""

    name: int | str
    """Its seed, or its name in REGRESSIONS or WITH_RAY."""
    hosts: str = "process"
    """Kind of hosts."""
    busy: bool = False
    """Whether another process keeps the CPUs busy."""
    plane: str = "tf_service"
    """Data plane of the job."""
    reader: bool = False
    """Whether tf.data service is read by `tfhet.batches` in a script that is no TensorFlow training."""

    strategy: str = ""
    """`ray`: the job is a script for Ray."""

    @property
    def condition(self) -> tuple[Any, ...]:
        """The values that distinguish a schedule from the others of a record."""
        return self.name, self.hosts, self.busy, self.plane, self.reader, self.strategy

    @property
    def cluster(self) -> ClusterFile:
        """The seeds take turns with CLUSTERS."""
        if isinstance(self.name, int):
            return CLUSTERS[self.name % len(CLUSTERS)]
        return cluster_named(_KEPT[self.name][0])

    def faults(self, aim: Aim) -> tuple[Fault, ...]:
        """The faults of a job with this aim."""
        if isinstance(self.name, int):
            return schedule(self.name, aim, RAY_LENGTH_S if self.plane == "ray" else LENGTH_S)
        return tuple(map(Fault.parse, _KEPT[self.name][1]))

    def run(self, launcher: Path, place: Path) -> ChaosOutcome:
        """Runs it in `place`, which must be new."""
        cluster, networks = self.cluster, self.hosts == "namespace"
        ranks = 1 if self.strategy == "ray" else Aim.of(cluster, LaunchSettings()).ranks
        command = [str(launcher), *arguments(ranks, self.plane, self.reader, self.strategy or "torch")]
        settings, _ = LaunchSettings.parse([*cluster.arguments(), *command[1:]])
        # The script with the witness is the built-in one; that of the feed can do without a data host, too.
        aim = Aim.of(cluster, settings, networks=networks)
        aim = replace(aim, built_in=not self.reader, plane=self.plane, data_workers=1, strategy=self.strategy)
        aim = replace(aim, ranks=ranks)
        faults, before = self.faults(aim), Before.now()
        how: dict[str, Any] = {"hosts": self.hosts, "start": "alone" if networks else "ranks", "max_run_s": MAX_RUN_S}
        how["variables"] = variables(faults, self.plane)
        if self.plane == "ray":
            how |= {"start": "alone", "max_run_s": RAY_MAX_RUN_S}
        job = ObservedJob(cluster, command, place, faults=faults, **how)
        outcome = _outcome(self, job, job.run(), faults, aim)
        gone = set().union(*(taken_away(strike.fault, job) for strike in outcome.strikes))
        patience_s = RAY_PATIENCE_S if self.plane == "ray" else PATIENCE_S
        outcome = replace(outcome, left=before.left_by(job, gone, patience_s=patience_s))
        if outcome.kind == GOES_ON:
            return replace(outcome, verdict=self._verdict(job.folder.path, outcome.epochs))
        if outcome.kind != STOP or self.plane in ("feed", "ray") or self.reader:
            return outcome
        (place / "resumed").mkdir()
        (place / "resumed" / "checkpoints").symlink_to(job.checkpoints)
        again = ObservedJob(cluster, command, place / "resumed", **how)
        summary, left = again.run(), (*outcome.left, *before.left_by(again))
        if NONE_WHOLE.search(summary.cause or "") and any(fault.kind == "half-checkpoint" for fault in faults):
            return replace(outcome, left=left)  # it had only one, and says so: nothing is repeated in silence
        judged = verdict([job.folder.path, again.folder.path], EPOCHS)
        return replace(outcome, resumed=summary, verdict=judged, left=left)

    def _verdict(self, run: Path, epochs: Sequence[Mapping[str, Any]]) -> Verdict:
        """The judge's. epochs: those that the job's own account has."""
        if not self.reader:
            return verdict([run], EPOCHS)
        return verdict_together(run, len(epochs), sum(int(epoch.get("left") or 0) for epoch in epochs))


def _outcome(
    planned: Planned, job: ObservedJob, summary: RunSummary, faults: tuple[Fault, ...], aim: Aim
) -> ChaosOutcome:
    events = list(RunFolder(job.folder.path).events())
    trained = [float(e["time_s"]) for e in events if e["event"] == "rank.ended" and not e["code"]]
    gone = [float(e["time_s"]) for e in events if e["event"] == "launchers.gone"]
    return ChaosOutcome(
        planned.name,
        job.cluster.name,
        faults,
        aim,
        summary,
        strikes(faults, events),
        trained_s=min(trained, default=None),
        gone_s=max(gone, default=None),
        hosts={place: job.named(place)[0].name for place in aim.hosts},
        odd=tuple(second_jobs.not_refused(events)),
        has_begun=any(e["event"] == "training.started" for e in events),
        conditions={
            "hosts": planned.hosts,
            "busy": planned.busy,
            "plane": planned.plane,
            "reader": planned.reader,
            "strategy": planned.strategy,
        },
    )


def _options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--seeds", type=int, metavar="N", help="how many (default 10, with --regressions 0)")
    add("--first", type=int, default=0, metavar="SEED", help="the first of them (default %(default)s)")
    add("--regressions", action="store_true", help="run the schedules that broke a promise once, too")
    add(
        "--hosts",
        choices=("process", "namespace"),
        default="process",
        help="namespace: containers, whose networks are harmed, too (needs root); default %(default)s",
    )
    add("--busy", action="store_true", help="another process keeps all CPUs busy meanwhile")
    add("--plane", choices=("tf_service", "feed", "ray"), default="tf_service", help="of the jobs; default %(default)s")
    add("--reader", action="store_true", help="tf.data service is read by a script that is no TensorFlow training")
    add("--strategy", choices=("ray",), default="", help="with --plane ray: the job is one script for Ray")
    add("--more", action="store_true", help="run what the record of --json lacks or saw broken, and add it")
    add("--launcher", type=Path, default=Path("scripts/launcher.py"), help="default %(default)s")
    add("--folder", type=Path, metavar="DIR", help="keep the runs that broke a promise here")


def _planned(options: argparse.Namespace) -> list[Planned]:
    seeds = options.seeds if options.seeds is not None else 0 if options.regressions else 10
    if seeds < 0 or not (seeds or options.regressions):
        raise UsageError(f"--seeds {seeds}: give at least 1")
    kept = () if not options.regressions else WITH_RAY if options.plane == "ray" else REGRESSIONS
    names = [*kept, *range(options.first, options.first + seeds)]
    if options.regressions and (options.plane == "feed" or options.reader or options.strategy):
        raise UsageError("--regressions are of the built-in trainer with tf_service, and of ranks that read Ray Data")
    if options.reader and options.plane != "tf_service":
        raise UsageError(f"--reader is for tf_service; jobs with {options.plane} have no other script")
    if options.strategy and options.plane != "ray":
        raise UsageError(f"--strategy {options.strategy} is for --plane ray")
    how = (options.hosts, options.busy, options.plane, options.reader, options.strategy)
    return [Planned(name, *how) for name in names]


def _run(options: argparse.Namespace, observer: Observer, command: Sequence[str]) -> Record:
    if not options.launcher.is_file():
        raise UsageError(f"--launcher {options.launcher}: no such file; run it in the checkout")
    if options.more and options.json is None:
        raise UsageError("--more adds to a record: name its file by --json")
    planned, record = _planned(options), Record.of("chaos", {}, details={"schedules": [], "commands": []})
    if options.more and options.json.exists():
        record = Record.read(options.json)
    again = {each.condition for each in planned}
    if {_condition(job)[3:] for job in record.details["schedules"]} - {each.condition[3:] for each in planned}:
        raise UsageError(
            f"{options.json} holds schedules of jobs that read otherwise: give these a record of their own"
        )
    schedules = [job for job in record.details["schedules"] if not (job["breaches"] and _condition(job) in again)]
    commands = [_anywhere(each) for each in (*record.details["commands"], command)]
    done = set(map(_condition, schedules))
    left = [each for each in planned if each.condition not in done]
    with new_place("chaos") as place, busy_cpus() if options.busy else contextlib.nullcontext():
        for index, each in enumerate(left):
            outcome = each.run(options.launcher, place / str(each.name))
            schedules.append(outcome.to_json())
            _tell(observer, outcome, index + 1, len(left))
            if outcome.breaches and options.folder is not None:
                _keep(place / str(each.name), options.folder / f"seed-{each.name}")
            shutil.rmtree(place / str(each.name), ignore_errors=True)
            record = _record(schedules, commands, commands[-1])
            if options.json is not None:
                record.write(options.json)
    return record


def _condition(job: Mapping[str, Any]) -> tuple[Any, ...]:
    """Which schedule of a record it is, and under what it ran."""
    return (
        job["seed"],
        job["hosts"],
        job["busy"],
        job.get("plane", "tf_service"),
        job.get("reader", False),
        job.get("strategy", ""),
    )


def _anywhere(command: Sequence[str]) -> list[str]:
    """The command without the folder where this machine keeps runs that broke a promise."""
    words = list(command)
    if "--folder" in words:
        at = words.index("--folder")
        del words[at : at + 2]
    return words


def _record(schedules: Sequence[Mapping[str, Any]], commands: Sequence[Any], command: Sequence[str]) -> Record:
    details = {"schedules": list(schedules), "commands": list(commands)}
    return Record.of("chaos", figures_of(schedules), details=details, command=command)


def _tell(observer: Observer, outcome: ChaosOutcome, number: int, seeds: int) -> None:
    name = f"seed {outcome.seed} ({outcome.cluster}): {' '.join(map(str, outcome.faults))}: {outcome.kind}"
    report(observer, name, number, seeds, outcome.breaches, outcome.summary.duration_s)


def _keep(run: Path, folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(folder)
    # Links stay links: the channels' files are not part of the run. Sockets cannot be copied.
    shutil.copytree(run, folder, symlinks=True, ignore=_sockets)


def _sockets(folder: str, names: Sequence[str]) -> list[str]:
    return [name for name in names if Path(folder, name).is_socket()]


def figures_of(schedules: Sequence[Mapping[str, Any]]) -> Mapping[str, Figure]:
    """The flat table, of schedules as `ChaosOutcome.to_json` writes them."""
    failures = [job["exit_s"] for job in schedules if job["kind"] == "failure" and job["exit_s"] is not None]
    counts = {
        "schedules": (len(schedules), "schedules"),
        "schedules_in_containers": (sum(job["hosts"] == "namespace" for job in schedules), "schedules"),
        "schedules_on_busy_cpus": (sum(job["busy"] for job in schedules), "schedules"),
        "hangs": (sum(job["hangs"] for job in schedules), "schedules"),
        "leaks": (sum(len(job["left"]) for job in schedules), "things"),
        "uncounted_examples": (sum(job["uncounted"] for job in schedules), "examples"),
        "missing_examples": (sum(job["missing"] for job in schedules), "examples"),
        "repeated_examples": (sum(job["repeated"] for job in schedules), "examples"),
        "broken": (sum(bool(job["breaches"]) for job in schedules), "schedules"),
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
