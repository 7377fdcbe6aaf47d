"""`benchmarks.timeline`: what the notes of where the time goes (`--timeline`) cost a job, in CPU seconds.

The same job with `--timeline off` and `steps`, in turns, on a simulated cluster whose hosts are containers, so that all
that a host uses is counted. A run differs from the next by more than notes cost; so what one note costs is measured
by itself too, and multiplied by how many a run made.
"""

from __future__ import annotations

import argparse
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.cluster_runs.observed_job import new_place
from tfhet.bench.harness import report
from tfhet.bench.suite import JOB, Suite
from tfhet.clock import SYSTEM
from tfhet.errors import JobFailed, UsageError
from tfhet.events import Observer
from tfhet.record import Figure, Record, RunFolder
from tfhet.simulate import load, simulate
from tfhet.units import MICROSECOND_S

COST, COUNTED, STEP = "timeline.cost_pct", "timeline.counted_pct", "timeline.step_pct"
LIMIT_PCT = 1.0
MODES = ("off", "steps")
NOTES = 500
"""Number of notes that are made to measure the cost of one."""
STEPS_A_WRITE = 20
"""A rank writes once a second."""
RUN_LIMIT_S = 600.0


@dataclass(frozen=True)
class NotedRun:
    """One run."""

    mode: str
    """Value of `--timeline`."""
    cpu_s: float
    """CPU seconds of all hosts, from the start of the launchers to their end."""
    step_ms: float
    """Median, of rank 0."""
    steps: int
    """Steps that were noted, of all ranks."""
    samples: int
    """Notes of what processes and hosts used."""


@dataclass(frozen=True)
class NoteCost:
    """The cost of one note, measured by itself."""

    sample_us: float
    """CPU microseconds of a sample of a host with four processes."""
    step_us: float
    """CPU microseconds of the note of a rank's step."""

    def of(self, run: NotedRun) -> float:
        """CPU seconds of a run's notes."""
        return MICROSECOND_S * (self.sample_us * run.samples + self.step_us * run.steps)


def _options(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(repeats=7, warmup=0)
    parser.add_argument("--step_ms", type=float, default=20.0, metavar="X", help="of a step (default %(default)s)")
    parser.add_argument("--examples", type=int, default=60_000, metavar="N", help="of a run (default %(default)s)")
    parser.add_argument("--launcher", type=Path, default=Path("scripts/launcher.py"), help="default %(default)s")


def _run(options: argparse.Namespace, observer: Observer, command: Sequence[str]) -> Record:
    if options.examples < 1 or not options.step_ms > 0:
        raise UsageError("--examples and --step_ms: give more than 0")
    if not options.launcher.is_file():
        raise UsageError(f"--launcher {options.launcher}: no such file; run it in the checkout")
    pairs: list[tuple[NotedRun, NotedRun]] = []
    rounds = options.warmup + options.repeats
    with new_place("timeline") as place:
        costs = [note_cost(place / "notes") for _ in range(options.repeats)]
        for index in range(rounds):
            runs = {
                mode: _noted_run(mode, options, place / f"{index}-{mode}") for mode in MODES[:: -1 if index % 2 else 1]
            }
            if index >= options.warmup:
                pairs.append((runs["off"], runs["steps"]))
            said = [f"{mode} {run.cpu_s:.2f} CPU s, {run.step_ms:.2f} ms a step" for mode, run in runs.items()]
            report(observer, "pair", index + 1, rounds, ["; ".join(said)])
    details = {
        "cluster": "demo",
        "step_ms": options.step_ms,
        "examples": options.examples,
        "runs_measured": [[asdict(run) for run in pair] for pair in pairs],
        "note_costs": [asdict(cost) for cost in costs],
        "rows": [row(index, pair) for index, pair in enumerate(pairs)],
    }
    return Record.of("timeline", figures_of(pairs, costs), details=details, command=command)


def _noted_run(mode: str, options: argparse.Namespace, folder: Path) -> NotedRun:
    words = f"--timeline {mode} --model emulated --step_ms {options.step_ms} --data synthetic:{options.examples}:16"
    command = [str(options.launcher), *words.split(), "--epochs", "1", "--export", "False"]
    summary = simulate(load("demo"), command, folder, hosts="namespace", max_run_s=RUN_LIMIT_S, on_line=lambda _: None)
    if summary.exit_code or summary.step_ms is None or not summary.host_cpu_s:
        raise JobFailed(f"a run with --timeline {mode} failed: {summary.cause or 'it left no times'}")
    noted = RunFolder(folder).timeline()
    shutil.rmtree(folder, ignore_errors=True)
    cpu_s = sum(summary.host_cpu_s.values())
    return NotedRun(mode, cpu_s, summary.step_ms.median, len(noted.steps), len(noted.usage))


def note_cost(folder: Path, notes: int = NOTES) -> NoteCost:
    """Makes so many notes of both kinds in files of `folder`, one behind the other."""
    # Here: the command lists its suites without what a trainer needs.
    from tfhet.record import StepTime, TimelineFile
    from tfhet.steps import Journal, Meter
    from tfhet.strategies import JobContext
    from tfhet.telemetry.host_counters import host_counters
    from tfhet.telemetry.sampler import BATCH, Sampler

    folder.mkdir(parents=True, exist_ok=True)
    processes = dict.fromkeys(("launcher", "dispatcher", "worker-0", "rank-0"), os.getpid())
    sampler = Sampler("host", "host", TimelineFile(folder / "use.jsonl"), lambda: processes, counters=host_counters())
    began_s = SYSTEM.cpu()
    for number in range(notes):
        sampler.sample()
        if number % BATCH == 0:
            sampler.file.append(sampler._taken())
    sampled_s = SYSTEM.cpu()
    meter = Meter()
    journal = Journal(JobContext("job", "homogeneous", host="host", timeline_dir=str(folder)), meter)
    for number in range(notes):
        meter.add(StepTime(0.02, 0.01, 128, 0.001, 0.002, SYSTEM.monotonic(), number, 0))
        if number % STEPS_A_WRITE == 0:
            journal.write()
    journal.write(is_last=True)  # waits for the thread that writes
    ended_s = SYSTEM.cpu()
    each = MICROSECOND_S * notes
    return NoteCost((sampled_s - began_s) / each, (ended_s - sampled_s) / each)


def figures_of(pairs: Sequence[tuple[NotedRun, NotedRun]], costs: Sequence[NoteCost]) -> Mapping[str, Figure]:
    """The flat table. The i-th pair goes with the i-th cost."""
    off, on = zip(*pairs, strict=True)
    counted = [100.0 * cost.of(run) / run.cpu_s for run, cost in zip(on, costs, strict=True)]
    against = "the same job with --timeline off"
    return {
        COST: _more([run.cpu_s for run in on], [run.cpu_s for run in off], f"{against}, CPU of all hosts"),
        COUNTED: Figure.of(counted, unit="%", against="all CPU of the job; each note as measured by itself"),
        STEP: _more([run.step_ms for run in on], [run.step_ms for run in off], f"{against}, median step"),
        "timeline.sample_us": Figure.of([cost.sample_us for cost in costs], unit="us"),
        "timeline.step_us": Figure.of([cost.step_us for cost in costs], unit="us"),
    }


def _more(with_notes: Sequence[float], without: Sequence[float], against: str) -> Figure:
    """By how many per cent the one is more than the other."""
    ratio = Figure.ratio(with_notes, without)
    low, value, high = (100.0 * (each - 1.0) for each in (ratio.low, ratio.value, ratio.high))
    samples = tuple(100.0 * (each - 1.0) for each in ratio.samples)
    return Figure(value, low, high, "%", ratio.n, against, samples, ratio.level)


def row(index: int, pair: tuple[NotedRun, NotedRun]) -> dict[str, Any]:
    """A line of the table."""
    off, on = pair
    return {
        "pair": index + 1,
        "off CPU s": off.cpu_s,
        "steps CPU s": on.cpu_s,
        "off step ms": off.step_ms,
        "steps step ms": on.step_ms,
        "steps noted": on.steps,
        "samples noted": on.samples,
    }


def is_kept(record: Record) -> bool:
    """Whether notes cost less than LIMIT_PCT: counted one by one, and as far as the runs can tell."""
    return record.figures[COUNTED].high < LIMIT_PCT and record.figures[COST].low < LIMIT_PCT


def _notes(record: Record) -> list[str]:
    cost = record.figures[COST]
    told = f"the runs say between {cost.low:.2f} and {cost.high:.2f} %"
    return [f"notes are to cost less than {LIMIT_PCT:g} %: {'so it is' if is_kept(record) else 'it is not so'}; {told}"]


SUITE = Suite(
    name="timeline",
    does="CPU that a job spends on noting where its time goes; containers, so it needs root",
    measures=(*JOB, "tfhet/telemetry", "benchmarks/timeline"),
    options=_options,
    run=_run,
    notes=_notes,
    is_kept=is_kept,
)
