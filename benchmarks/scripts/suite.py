"""`benchmarks.scripts`: what tfhet says of the steps of scripts that were not written for it, against a stopwatch.

Each script runs alone (one rank that prepares its own data), in a homogeneous job and in a heterogeneous one, simulated
on this machine, with a stopwatch in its loop (`stopwatch.py`). Both sides look at the same steps of the same run, so a
slow machine moves both.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import ENDS_WITH_PARENT
from benchmarks.cluster_runs.observed_job import new_place
from tfhet.bench.harness import in_rounds
from tfhet.bench.suite import Suite
from tfhet.cluster import environment
from tfhet.errors import JobFailed, UsageError
from tfhet.events import Observer
from tfhet.record import WARM_UP_STEPS, Figure, Record, RunFolder
from tfhet.report import run_table, text

HERE = Path(__file__).parent
EXAMPLE = HERE.parent / "job_scripts" / "example_train.py"
SCRIPTS: Mapping[str, Sequence[str]] = {
    "aws_example": (str(EXAMPLE), "--model=small_cnn", "--batch_size=256", "--epochs=2", "--steps_per_epoch=100"),
    "horovod_mnist": (str(HERE / "foreign" / "horovod_mnist.py"),),
    "custom_loop": (str(HERE / "foreign" / "custom_loop.py"),),
    "validation": (str(HERE / "foreign" / "validation.py"),),
    "keras3": (str(HERE / "foreign" / "keras3.py"),),
}
"""Each script, with its arguments. The example has many steps: those of two ranks differ so much that the median of a
few depends on single ones."""
SHAPES: Mapping[str, Mapping[str, Mapping[str, int]]] = {
    "alone": {"homogeneous": {"hosts": 1, "ranks": 1}},
    "homogeneous": {"homogeneous": {"hosts": 1, "ranks": 2}},
    "heterogeneous": {"data_group": {"hosts": 1}, "dnn_group": {"hosts": 1, "ranks": 2}},
}
CHANNELS = {"training": "digits/train", "validation": "digits/validation"}
ONE_RANK = "keras3"
"""The script that does not know Horovod, and runs on another TensorFlow."""
MOST_PCT, MOST_POINTS = 3.0, 2.0
"""Bounds for the differences from the stopwatch."""
RUN_LIMIT_S = 240


@dataclass(frozen=True)
class WatchedStep:
    """One step by the stopwatch."""

    dur_s: float
    wait_s: float


def watched_steps(notes: Iterable[Sequence[Any]]) -> list[WatchedStep]:
    """The training steps in a stopwatch's notes.

    A step begins where the loop asks for a batch, and ends where the script next asks for one of any data set. With
    Keras, the last one of an epoch ends with its batch: what Keras does between epochs is no part of it.
    """
    found: list[WatchedStep] = []
    training, is_test = "", False
    asked_s = got_s = batch_end_s = None
    for at_s, kind, site in notes:
        if kind == "batch_end":
            batch_end_s = at_s
        if kind in ("test_begin", "test_end"):
            is_test = kind == "test_begin"
        if kind in ("ask", "test_begin", "epoch_begin") and not (is_test and kind == "ask"):
            end_s = at_s if kind == "ask" or batch_end_s is None else batch_end_s
            if asked_s is not None and got_s is not None:
                found.append(WatchedStep(end_s - asked_s, got_s - asked_s))
            asked_s = got_s = None
        if kind == "ask" and not is_test:
            training = training or site
            asked_s = at_s if site == training else None
        if kind == "got" and site == training and not is_test and asked_s is not None:
            got_s = at_s
    if asked_s is not None and got_s is not None and batch_end_s is not None:
        found.append(WatchedStep(batch_end_s - asked_s, got_s - asked_s))
    return found


def differences(folder: RunFolder) -> dict[str, Any]:
    """The record of a run beside the stopwatches of its ranks, and how far they are apart."""
    summary, watched = folder.read_summary(), {}
    for path in sorted(folder.path.glob("hosts/*/output/data/stopwatch-*.json")):
        watched[path.stem] = watched_steps(json.loads(path.read_text()))
    if summary.step_ms is None or summary.wait_pct is None or len(watched) != summary.ranks:
        raise JobFailed(f"{folder.path}: steps {summary.steps}, stopwatches of {len(watched)} of {summary.ranks} ranks")
    measured = [steps[WARM_UP_STEPS:] for steps in watched.values()]
    shares = [100 * sum(each.wait_s for each in steps) / sum(each.dur_s for each in steps) for steps in measured]
    step_ms = 1e3 * statistics.median(each.dur_s for each in measured[0])
    empty = [line.split("│")[0].strip() for line in text(run_table(summary)).splitlines() if line.endswith(" –")]
    return {
        "steps": summary.steps,
        "watched_steps": len(watched["stopwatch-0"]),
        "step_ms": summary.step_ms.median,
        "watched_step_ms": step_ms,
        "wait_pct": summary.wait_pct,
        "watched_wait_pct": statistics.fmean(shares),
        "empty": empty,
    }


def _once(script: str, shape: str, python: str, index: int) -> dict[str, Any]:
    """Runs a script once, by the command line, in a process of that Python."""
    groups = {name: dict(group) for name, group in SHAPES[shape].items()}
    if script == ONE_RANK and "dnn_group" in groups:
        groups["dnn_group"]["ranks"] = 1
    with new_place("scripts") as place:
        cluster = place / "cluster.yaml"
        cluster.write_text(json.dumps({"name": shape, "groups": groups, "channels": CHANNELS}))  # JSON is YAML
        repository = HERE.parents[1]
        command = [*ENDS_WITH_PARENT, python, "-m", "tfhet", "simulate", str(cluster), "--run_dir", str(place / "run")]
        command += ["--max_run_s", str(RUN_LIMIT_S - 40), "--"]
        command += [str(repository / "scripts" / "launcher.py"), "--train_script", str(HERE / "stopwatch.py")]
        env = {**environment(), "PYTHONPATH": str(repository)}
        given = [*command, *SCRIPTS[script]]
        done = subprocess.run(given, env=env, capture_output=True, text=True, timeout=RUN_LIMIT_S, check=False)
        if done.returncode:
            raise JobFailed(f"{script}, {shape}: exit code {done.returncode}: {(done.stdout + done.stderr)[-2000:]}")
        return differences(RunFolder(place / "run"))


def _options(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(repeats=5, warmup=0)
    parser.add_argument("--scripts", nargs="+", choices=SCRIPTS, default=list(SCRIPTS), help="default: all")
    parser.add_argument("--newest", metavar="PYTHON", help=f"a Python with the newest TensorFlow, for {ONE_RANK}")


def _run(options: argparse.Namespace, observer: Observer, command: Sequence[str]) -> Record:
    if options.newest and not os.access(options.newest, os.X_OK):
        raise UsageError(f"--newest {options.newest}: no such program; give the path of a Python")
    cases: dict[str, functools.partial[dict[str, Any]]] = {}
    for script in options.scripts:
        if script == ONE_RANK and not options.newest:
            continue
        python = options.newest if script == ONE_RANK else sys.executable
        shapes = [shape for shape in SHAPES if script != ONE_RANK or shape != "homogeneous"]
        cases |= {f"{script}.{shape}": functools.partial(_once, script, shape, python) for shape in shapes}
    taken = in_rounds(
        cases,
        lambda name, found: (
            f"step {found['step_ms']:.1f} ms ({found['watched_step_ms']:.1f} by the stopwatch), "
            f"wait {found['wait_pct']:.1f} % ({found['watched_wait_pct']:.1f})"
        ),
        warmup=options.warmup,
        repeats=options.repeats,
        observer=observer,
    )
    return Record.of("scripts", figures_of(taken), details={"samples": taken}, command=command)


def figures_of(taken: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, Figure]:
    """The flat table, of samples by `SCRIPT.SHAPE`."""
    figures = {}
    for name, found in taken.items():
        steps = [100 * abs(each["step_ms"] - each["watched_step_ms"]) / each["watched_step_ms"] for each in found]
        points = [abs(each["wait_pct"] - each["watched_wait_pct"]) for each in found]
        figures[f"scripts.{name}.step_pct"] = Figure.of(steps, unit="%", against="the stopwatch's median step")
        figures[f"scripts.{name}.wait_points"] = Figure.of(points, unit="points", against="the stopwatch's share")
        figures[f"scripts.{name}.empty"] = Figure.of([len(each["empty"]) for each in found], unit="fields")
    return figures


def _broken(record: Record) -> list[str]:
    bounds = {"step_pct": MOST_PCT, "wait_points": MOST_POINTS, "empty": 0}
    return [name for name, each in record.figures.items() if each.value > bounds[name.rpartition(".")[2]]]


def _notes(record: Record) -> list[str]:
    missing = [] if any(ONE_RANK in name for name in record.figures) else [f"{ONE_RANK} was not run: give --newest"]
    return [f"not kept: {name}" for name in _broken(record)] + missing


SUITE = Suite(
    name="scripts",
    does="scripts that were not written for tfhet: their steps and waits, against a stopwatch in their loops",
    measures=("tfhet/steps", "tfhet/planes", "benchmarks/scripts"),
    options=_options,
    run=_run,
    notes=_notes,
    is_kept=lambda record: not _broken(record),
)
