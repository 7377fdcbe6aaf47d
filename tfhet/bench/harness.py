"""The harness: cases measured in rounds, A B C B C A, with warm-up kept apart and every raw sample kept.

Each round begins with another case, so none always follows the same one.

A machine that becomes slower for a while slows all cases of a round, so the i-th samples of two cases form a pair.
"""

from __future__ import annotations

import contextlib
import functools
import gc
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from tfhet.bench.case import Case, Measurement, ProcessMeter, Sample
from tfhet.clock import SYSTEM, Clock
from tfhet.errors import UsageError
from tfhet.events import Event, Observer, ignore
from tfhet.report import number

REPEATS, WARMUP = 10, 2
T = TypeVar("T")


def in_rounds(
    cases: Mapping[str, Callable[[int], T]],
    describe: Callable[[str, T], str],
    *,
    warmup: int,
    repeats: int,
    observer: Observer = ignore,
    clock: Clock = SYSTEM,
) -> dict[str, list[T]]:
    """Returns the results of every case by name, without the first `warmup` rounds. A case is called with the number of
    its round, from 0; its error ends the rounds. describe: (name, result) -> words for the event `case.ended`."""
    rounds = warmup + repeats
    taken: dict[str, list[T]] = {name: [] for name in cases}
    for index in range(rounds):
        gc.collect()  # no case pays for the garbage of all
        names = list(cases)
        first = index % len(names)
        for name in names[first:] + names[:first]:
            begun_s = clock.monotonic()
            result = cases[name](index)
            if index >= warmup:
                taken[name].append(result)
            report(observer, name, index + 1, rounds, [describe(name, result)], clock.monotonic() - begun_s, clock)
    return taken


def report(
    observer: Observer,
    case: str,
    number: int,
    rounds: int,
    said: Sequence[str] = (),
    seconds: float | None = None,
    clock: Clock = SYSTEM,
) -> None:
    """Sends the observer the event `case.ended`: run `number` of `rounds` of a case has ended."""
    fields = {"case": case, "round": number, "rounds": rounds, "seconds": seconds, "said": list(said)}
    observer(Event("case.ended", clock.wall(), fields))


def measure(
    cases: Sequence[Case],
    *,
    repeats: int = REPEATS,
    warmup: int = WARMUP,
    meter: ProcessMeter | None = None,
    clock: Clock = SYSTEM,
    observer: Observer = ignore,
) -> dict[str, Measurement]:
    """Returns CPU and wall time of every case by name, run `warmup` + `repeats` times in rounds. All cases are prepared
    before the first round and closed after the last one. Raises UsageError for no cases, equal names, or no repeats."""
    known = {case.name: case for case in cases}
    if not cases or len(known) != len(cases):
        names = ", ".join(case.name for case in cases) or "no case"
        raise UsageError(f"bench: cases need names of their own, got {names}")
    if repeats < 1 or warmup < 0:
        raise UsageError(f"bench: repeats {repeats} must be at least 1, and warm-up {warmup} at least 0")
    meter = meter or ProcessMeter(clock)

    def once(case: Case, state: Any, index: int) -> Sample:
        begun = case.begin(state)
        start = meter.start()
        case.run(begun)
        return meter.stop(start)

    def describe(name: str, sample: Sample) -> str:
        return f"{number(1e6 * sample.cpu_s / known[name].units, unit='us CPU')} per {known[name].unit}"

    with contextlib.ExitStack() as stack:
        runs = {}
        for case in cases:
            state = case.prepare()
            stack.callback(case.close, state)
            runs[case.name] = functools.partial(once, case, state)
        taken = in_rounds(runs, describe, warmup=0, repeats=warmup + repeats, observer=observer, clock=clock)
    return {
        name: Measurement(name, case.unit, case.units, tuple(taken[name][:warmup]), tuple(taken[name][warmup:]))
        for name, case in known.items()
    }
