"""`benchmarks.steps`: the cost of noting a script's deliveries, and whether the steps found in them are the script's.

A note: batches of one data set, which costs nothing to make, with notes and without, side by side in each round. The
steps: a loop that trains for a fixed time, over data that take a fixed time, with a stopwatch around what it waits for
and around each step; its steps as `tfhet` finds them are compared with the stopwatch.
"""

from __future__ import annotations

import argparse
import functools
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tfhet.bench.harness import in_rounds
from tfhet.bench.suite import Suite
from tfhet.clock import SYSTEM
from tfhet.events import Observer
from tfhet.record import Figure, Record

BATCHES = 3000
STEPS, DATA_MS, STEP_MS = 30, (8.0, 50.0), 40.0
MOST_US, MOST_PCT, MOST_POINTS = 20.0, 3.0, 2.0
"""Bounds for a note, and for the differences from the stopwatch."""


def _options(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(repeats=7, warmup=1)


def _run(options: argparse.Namespace, observer: Observer, command: Sequence[str]) -> Record:
    cases: dict[str, Callable[[int], Any]] = {name: functools.partial(note_us, name) for name in NOTES}
    cases |= {f"loop {data_ms:g}": functools.partial(loop, data_ms) for data_ms in DATA_MS}
    taken = in_rounds(
        cases,
        lambda name, found: str(found),
        warmup=options.warmup,
        repeats=options.repeats,
        observer=observer,
    )
    return Record.of("steps", figures_of(taken), details={"samples": taken}, command=command)


def figures_of(taken: Mapping[str, Sequence[Any]]) -> dict[str, Figure]:
    """The flat table, of samples by case."""
    figures = {}
    for name in NOTES[1:]:
        extra = [noted - plain for noted, plain in zip(taken[name], taken["none"], strict=True)]
        figures[f"steps.note_us.{name}"] = Figure.of(extra, unit="us", against="the same batches without notes")
    for data_ms in DATA_MS:
        for what, unit in (("step_pct", "%"), ("wait_points", "points")):
            samples = [found[what] for found in taken[f"loop {data_ms:g}"]]
            against = f"a stopwatch in the loop; data take {data_ms:g} ms, a step {STEP_MS:g} ms"
            figures[f"steps.difference.{data_ms:g}ms.{what}"] = Figure.of(samples, unit=unit, against=against)
    return figures


NOTES = ("none", "compiled", "plain", "ids")


def note_us(kind: str, index: int) -> float:
    """Microseconds of wall time for a batch."""
    import tensorflow as tf

    from tfhet import native
    from tfhet.steps.noted import NotedDataset

    ids = [tf.range(32, dtype=tf.int64), tf.zeros([32], tf.int64)] if kind == "ids" else []
    data = tf.data.Dataset.from_tensors((tf.zeros([32, 8]), tf.zeros([32], tf.int64), *ids)).repeat()
    iterator = iter(data)
    if kind != "none":
        noted = NotedDataset(data, None if kind == "plain" else native.ops("deliveries"), kind == "ids")
        iterator = iter(noted.dataset)
    for _ in range(100):
        next(iterator)
    began_s = SYSTEM.monotonic()
    for _ in range(BATCHES):
        next(iterator)
    if kind == "ids":
        noted.take_ids()
    return 1e6 * (SYSTEM.monotonic() - began_s) / BATCHES


def loop(data_ms: float, index: int) -> dict[str, float]:
    """Differences of the median step, in percent, and of the share of waiting, in points, from the stopwatch."""
    import tensorflow as tf

    from tfhet.messages import ProcessChannel
    from tfhet.record import RunFolder, median
    from tfhet.steps import ScriptSteps
    from tfhet.strategies import JobContext

    def prepare(number: Any) -> Any:
        SYSTEM.sleep(1e-3 * data_ms)
        return number

    data = tf.data.Dataset.range(STEPS).map(lambda n: tf.numpy_function(prepare, [n], tf.int64)).batch(1)
    durations_s, waits_s = [], []
    with tempfile.TemporaryDirectory(prefix="tfhet-bench-steps-") as folder:
        steps = ScriptSteps(JobContext("bench", "local", record_dir=folder), ProcessChannel(None))
        iterator = iter(steps.watch(data).prefetch(1))
        for _ in range(STEPS):
            began_s = SYSTEM.monotonic()
            next(iterator)
            waits_s.append(SYSTEM.monotonic() - began_s)
            SYSTEM.sleep(1e-3 * STEP_MS)
            durations_s.append(SYSTEM.monotonic() - began_s)
        steps.close()
        summary = RunFolder(Path(folder)).read_summary()
    assert summary.step_ms is not None and summary.wait_pct is not None
    step_ms, wait_pct = 1e3 * median(durations_s[3:]), 100 * sum(waits_s[3:]) / sum(durations_s[3:])
    return {
        "step_pct": 100 * abs(summary.step_ms.median - step_ms) / step_ms,
        "wait_points": abs(summary.wait_pct - wait_pct),
    }


def _broken(record: Record) -> list[str]:
    bounds = {"compiled": MOST_US, "ids": MOST_US, "step_pct": MOST_PCT, "wait_points": MOST_POINTS}
    last = {name: name.rpartition(".")[2] for name in record.figures}
    return [name for name, what in last.items() if record.figures[name].value > bounds.get(what, float("inf"))]


SUITE = Suite(
    name="steps",
    does="the cost of noting a script's deliveries, and its steps against a stopwatch",
    measures=("tfhet/steps", "tfhet/planes", "benchmarks/steps"),
    options=_options,
    run=_run,
    notes=lambda record: [f"not kept: {name}" for name in _broken(record)],
    is_kept=lambda record: not _broken(record),
)
