"""`benchmarks.beside`: what workers on a host cost the training on it, by how they share its CPUs.

The training is a step of this process, some threads that compute and then an accelerator that takes its time; the
worker is a pipeline in a process of its own that never has enough, which is the worst that a worker can be. In turns:
without it, with it as an equal, giving way, and giving way and keeping off the CPUs that the training uses.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import signal
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from benchmarks import child_environment
from tfhet.bench.child_process import AnsweringProcess
from tfhet.bench.harness import in_rounds
from tfhet.bench.suite import JOB, Suite
from tfhet.clock import SYSTEM, Clock, cpu_of
from tfhet.errors import JobFailed, UsageError
from tfhet.events import Observer
from tfhet.planes.cpus import confine, left_by, usable
from tfhet.record import Figure, Record

ALONE, EQUAL, WAY, OFF = "alone", "equal", "gives_way", "keeps_off"
WAYS = (ALONE, EQUAL, WAY, OFF)
MOST = 1.05
"""A step beside a worker that gives way takes at most so many times as long as one without it, or nearly: the suite
fails above."""
STEP = "beside.step_vs_alone"
SECONDS = 3.0
SETTLE_S = 0.5
NUMBERS = 100_000
"""A thread's part of a step is passes over so many float64 numbers."""


class Training:
    """A step that computes in some threads, on arrays of their own, and then waits for an accelerator."""

    def __init__(self, threads: int, passes: int, accelerator_s: float, clock: Clock = SYSTEM):
        self._pool = ThreadPoolExecutor(threads)
        self._parts = [(np.linspace(0.0, 1.0, NUMBERS), np.empty(NUMBERS)) for _ in range(threads)]
        self._passes, self._accelerator_s, self._clock = passes, accelerator_s, clock

    def steps_ms(self, seconds: float) -> list[float]:
        """How long each step took that began within so many seconds."""
        taken: list[float] = []
        until_s = self._clock.monotonic() + seconds
        while (begun_s := self._clock.monotonic()) < until_s:
            list(self._pool.map(self._compute, self._parts))
            self._clock.sleep(self._accelerator_s)
            taken.append(1e3 * (self._clock.monotonic() - begun_s))
        return taken

    def _compute(self, part: tuple[np.ndarray, np.ndarray]) -> None:
        given, made = part
        for _ in range(self._passes):
            np.sin(given, out=made)  # without the interpreter's lock


@contextlib.contextmanager
def workers() -> Iterator[dict[str, AnsweringProcess]]:
    """A worker that takes its share and one that gives way, both stopped; killed at the end."""
    env = {**child_environment(), "TF_CPP_MIN_LOG_LEVEL": "2"}
    with contextlib.ExitStack() as stack:
        begun = {}
        for way in (EQUAL, WAY):
            begun[way] = stack.enter_context(AnsweringProcess.of_module("benchmarks.beside.busy_worker", way, env=env))
        for process in begun.values():
            process.request({})
        for process in begun.values():
            process.answer()
            process.signal(signal.SIGSTOP)
        yield begun


def measured(
    training: Training,
    keep: int,
    seconds: float,
    rounds: int,
    warmup: int,
    observer: Observer,
    clock: Clock = SYSTEM,
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Mean milliseconds of a step, and CPUs that the worker used, round by round, for each way."""

    def turn(way: str, worker: AnsweringProcess | None, index: int) -> tuple[float, float]:
        if worker is not None:
            confine(worker.pid, left_by(keep, usable()) if way == OFF else usable())
            worker.signal(signal.SIGCONT)
        clock.sleep(SETTLE_S)
        spent_s, begun_s = _spent_s(worker), clock.monotonic()
        taken = training.steps_ms(seconds)
        share = (_spent_s(worker) - spent_s) / (clock.monotonic() - begun_s)
        if worker is not None:
            worker.signal(signal.SIGSTOP)
        return sum(taken) / len(taken), share

    with workers() as at_work:
        beside = {ALONE: None, EQUAL: at_work[EQUAL], WAY: at_work[WAY], OFF: at_work[WAY]}
        found = in_rounds(
            {way: functools.partial(turn, way, worker) for way, worker in beside.items()},
            lambda way, turn: f"{turn[0]:.2f} ms a step, the worker uses {turn[1]:.2f} CPUs",
            warmup=warmup,
            repeats=rounds,
            observer=observer,
            clock=clock,
        )
    steps, used = ({way: [turn[at] for turn in turns] for way, turns in found.items()} for at in (0, 1))
    return steps, used


def _spent_s(worker: AnsweringProcess | None) -> float:
    if worker is None:
        return 0.0
    try:
        return cpu_of(worker.pid)
    except OSError:
        raise JobFailed("the worker has ended") from None


def figures_of(steps: Mapping[str, Sequence[float]], used: Mapping[str, Sequence[float]]) -> dict[str, Figure]:
    """Step times against those without a worker, step times, and the CPUs that the worker had."""
    figures = {f"{STEP}.{way}": Figure.ratio(steps[way], steps[ALONE], against="without a worker") for way in WAYS[1:]}
    figures |= {f"beside.step_ms.{way}": Figure.of(steps[way], unit="ms") for way in WAYS}
    return figures | {f"beside.worker_cpus.{way}": Figure.of(used[way], unit="CPUs") for way in WAYS[1:]}


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="of the step (default %(default)s)")
    parser.add_argument("--passes", type=int, default=20, metavar="N", help="length of its CPU part (%(default)s)")
    parser.add_argument("--accelerator_ms", type=float, default=10.0, metavar="N", help="(default %(default)s)")
    parser.add_argument("--seconds", type=float, default=SECONDS, metavar="N", help="of a turn (default %(default)s)")


def _run(options: argparse.Namespace, observer: Observer, command: Sequence[str]) -> Record:
    if min(options.threads, options.passes, options.seconds) <= 0 or options.accelerator_ms < 0:
        raise UsageError("--threads, --passes, --seconds: give more than 0")
    training = Training(options.threads, options.passes, options.accelerator_ms / 1e3)
    steps, used = measured(training, options.threads, options.seconds, options.repeats, options.warmup, observer)
    details = {"cpus": list(usable()), "left": list(left_by(options.threads, usable())), "threads": options.threads}
    return Record.of("beside", figures_of(steps, used), details=details, command=command)


def _notes(record: Record) -> list[str]:
    return [f"not kept: {name} is above {MOST:g}" for name in _broken(record)]


def _broken(record: Record) -> list[str]:
    kept = (f"{STEP}.{WAY}", f"{STEP}.{OFF}")
    return [name for name in kept if name in record.figures and record.figures[name].value > MOST]


SUITE = Suite(
    name="beside",
    does="what workers on a host cost the training on it",
    measures=(*JOB, "benchmarks/beside"),
    options=_options,
    run=_run,
    notes=_notes,
    is_kept=lambda record: not _broken(record),
)
