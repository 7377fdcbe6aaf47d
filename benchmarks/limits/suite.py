"""`benchmarks.limits`: whether a host of a simulated cluster gets the CPU and the bandwidth that it is said to have.

CPU: busy threads in a cgroup with a quota, by the kernel's clock of their process. Bandwidth: what one TCP connection
carries between two hosts of which one is limited, in both directions, headers (4 %) not counted. Both go before all
others on the machine, which should have nothing else to do all the same: the kernel's own part in it has to wait too.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import psutil

from benchmarks import child_environment, prefer
from benchmarks.limits import busy_process
from tfhet.bench.child_process import AnsweringProcess
from tfhet.bench.harness import in_rounds
from tfhet.bench.suite import Suite
from tfhet.clock import SYSTEM, Clock, cpu_of
from tfhet.container import kernel, sweeper
from tfhet.container.bridge import Bridge
from tfhet.container.cgroup import PERIOD_S, Cgroup, Limits
from tfhet.errors import JobFailed, UsageError
from tfhet.events import Observer
from tfhet.record import Figure, Record

CPU, BANDWIDTH = "limits.cpu_error_pct", "limits.bandwidth_error_pct"
ALLOWED_PCT = {CPU: 5.0, BANDWIDTH: 10.0}
CPUS, THREADS = (0.2, 0.5, 1.0), (1, 4)
MBIT_PER_S = (100, 1000)
SECONDS = 3.0
SETTLE_S = 0.5
"""Seconds for which threads are busy before they are measured."""
END_S = 20.0
PORT = 5001
BUSY = "benchmarks.limits.busy_process"
SUBNET = "10.78.0"


@dataclass(frozen=True)
class Trial:
    """One limit, tried in one way."""

    name: str
    figure: str
    """The figure that it counts for."""
    key: str
    """Suffix of the name of the trial's own figure."""
    limit: float
    run: Callable[[], float]
    """Measures how much of the resource was used, in the limit's unit."""

    def deviation_pct(self) -> float:
        """By how much more or less (negative) than the limit was had."""
        return 100.0 * (self.run() / self.limit - 1.0)


def cpu_trials(tag: str, seconds: float, period_s: float) -> list[Trial]:
    """Busy threads under quotas, on as many CPUs as they like."""
    return [
        Trial(
            f"{cpus:g} CPUs, {threads} thread{'s' * (threads > 1)}",
            CPU,
            f"{cpus:g}x{threads}",
            cpus,
            functools.partial(cpus_had, f"tfhet-{tag}-busy", Limits(cpus, period_s=period_s), threads, seconds),
        )
        for cpus in CPUS
        for threads in THREADS
    ]


def cpus_had(name: str, limits: Limits, threads: int, seconds: float, clock: Clock = SYSTEM) -> float:
    """CPU seconds a second of busy threads in a cgroup of their own."""
    with _preferred(name) as cgroup:
        refused = cgroup.limit(limits)
        if refused:
            raise UsageError(f"this machine cannot limit: {', '.join(refused)}; see tfhet doctor")
        with AnsweringProcess.of_module(BUSY, env=child_environment()) as process:
            cgroup.add(process.pid)
            process.ask({"spin": threads})
            clock.sleep(SETTLE_S)
            cpu_s, wall_s = cpu_of(process.pid), clock.monotonic()
            clock.sleep(seconds)
            return (cpu_of(process.pid) - cpu_s) / (clock.monotonic() - wall_s)


def bandwidth_trials(tag: str, seconds: float) -> list[Trial]:
    """One connection from and to a limited host."""
    return [
        Trial(
            f"{mbit} Mbit/s {'from' if sends else 'to'} the host",
            BANDWIDTH,
            f"{mbit}_{'out' if sends else 'in'}",
            mbit * 1e6,
            functools.partial(bits_per_s_had, tag, mbit * 1e6, sends, seconds),
        )
        for mbit in MBIT_PER_S
        for sends in (True, False)
    ]


def bits_per_s_had(tag: str, bits_per_s: float, sends: bool, seconds: float) -> float:
    """Bits per second over a connection whose sender, or else receiver, is limited."""
    isolated = ("unshare", "--net")
    receiver, sender = f"{SUBNET}.2", f"{SUBNET}.3"
    with (
        _preferred(f"tfhet-{tag}-ends") as cgroup,
        AnsweringProcess.of_module(BUSY, env=child_environment(), before=isolated) as to,
        AnsweringProcess.of_module(BUSY, env=child_environment(), before=isolated) as by,
        contextlib.closing(Bridge(tag, f"{SUBNET}.0/24")) as bridge,
    ):
        cgroup.add(to.pid)
        cgroup.add(by.pid)
        to.ask({"listen": PORT})
        bridge.attach("to", to.pid, receiver)
        bridge.attach("by", by.pid, sender)
        bridge.limit("by" if sends else "to", bits_per_s)
        to.request({"receive": 0})
        by.ask({"send": PORT, "to": receiver, "seconds": seconds + busy_process.SETTLED_S}, seconds + END_S)
        had = to.answer(END_S)
    if had["seconds"] <= 0:
        raise JobFailed(f"nothing came from {sender} to {receiver} after the first {busy_process.SETTLED_S} s")
    return 8.0 * had["bytes"] / had["seconds"]


@contextlib.contextmanager
def _preferred(name: str) -> Iterator[Cgroup]:
    """A cgroup that goes before others: what is measured is the limit, not who else wants the CPUs."""
    cgroup = Cgroup.create(name)
    try:
        prefer(cgroup)
        yield cgroup
    finally:
        cgroup.remove()


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--only", choices=("cpu", "bandwidth"), help="leave the other out")
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, metavar="N", help="length of one measurement (default %(default)s)"
    )
    parser.add_argument(
        "--period_ms",
        "--period-ms",
        type=float,
        default=PERIOD_S * 1e3,
        metavar="N",
        help="how often a CPU quota is given (default %(default)s)",
    )


def _run(options: argparse.Namespace, observer: Observer, command: Sequence[str]) -> Record:
    if options.seconds <= 0 or options.period_ms <= 0:
        raise UsageError(f"--seconds {options.seconds} --period_ms {options.period_ms}: give more than 0")
    kernel.require(kernel.LIMIT)
    for line in sweeper.sweep():
        print(line, file=sys.stderr)
    with sweeper.claim() as owner:
        trials: list[Trial] = []
        if options.only != "bandwidth":
            trials += cpu_trials(owner.tag, options.seconds, options.period_ms / 1e3)
        if options.only != "cpu":
            trials += bandwidth_trials(owner.tag, options.seconds)
        busy_pct = psutil.cpu_percent(interval=1.0)
        taken = measured(trials, options.warmup, options.repeats, observer)
    details = {
        "seconds": options.seconds,
        "period_ms": options.period_ms,
        "machine_busy_pct": busy_pct,
        "load_average": os.getloadavg(),
        "deviations_pct": {trial.name: taken[trial.name] for trial in trials},
    }
    return Record.of("limits", figures_of(trials, taken), details=details, command=command)


def measured(
    trials: Sequence[Trial], warmup: int, repeats: int, observer: Observer, clock: Clock = SYSTEM
) -> dict[str, list[float]]:
    """Percent by which each trial deviated, by name, in rounds over all of them; the first `warmup` do not count."""

    def taking(trial: Trial) -> Callable[[int], float]:
        return lambda index: trial.deviation_pct()

    return in_rounds(
        {trial.name: taking(trial) for trial in trials},
        lambda name, deviation: f"{deviation:+.2f} %",
        warmup=warmup,
        repeats=repeats,
        observer=observer,
        clock=clock,
    )


def figures_of(trials: Sequence[Trial], taken: Mapping[str, Sequence[float]]) -> dict[str, Figure]:
    """The worst deviation of each kind, whatever its sign, and the median one of every trial, with its sign."""
    figures: dict[str, Figure] = {}
    for name in (CPU, BANDWIDTH):
        errors = [abs(value) for trial in trials if trial.figure == name for value in taken[trial.name]]
        if errors:
            worst = max(errors)
            said = "the limit; the worst of all"
            figures[name] = Figure(worst, worst, worst, "%", len(errors), said, tuple(errors))
    for trial in trials:
        figures[f"{trial.figure}.{trial.key}"] = Figure.of(taken[trial.name], unit="%", against="the limit")
    return figures


def _notes(record: Record) -> list[str]:
    busy = float(record.details.get("machine_busy_pct", 0.0))
    notes = [f"not kept: {name} is above {ALLOWED_PCT[name]:g} %" for name in _broken(record)]
    if busy > 10.0:
        notes.append(f"the machine was {busy:.0f} % busy before: measure when it has nothing else to do")
    return notes


def _broken(record: Record) -> list[str]:
    return [name for name, most in ALLOWED_PCT.items() if name in record.figures and record.figures[name].value > most]


def _is_kept(record: Record) -> bool:
    return not _broken(record)


SUITE = Suite(
    name="limits",
    does="whether a simulated host gets the CPU and the bandwidth that it is said to have (needs root)",
    measures=("tfhet/container", "tfhet/simulate", "benchmarks/limits"),
    options=_options,
    run=_run,
    notes=_notes,
    is_kept=_is_kept,
)
