"""The harness: cases measured in rounds, A B C A B C, with the warm-up kept apart and every raw sample kept.

A machine that becomes slower for a while slows all cases of a round, so the i-th samples of two cases form a pair.

    from tfhet.bench import Case, measure

    taken = measure([Case("sum", lambda _: sum(range(100_000))), Case("max", lambda _: max(range(100_000)))])
    print(taken["sum"].cheaper_than(taken["max"], against="max"))
"""

from __future__ import annotations

import contextlib
import functools
import gc
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from tfhet import errors
from tfhet.bench.case import Case
from tfhet.bench.measurement import Measurement
from tfhet.bench.meter import Meter, ProcessMeter, Sample
from tfhet.clock import SYSTEM, Clock
from tfhet.events import Event, Observer, ignore
from tfhet.report import number

REPEATS = 5
WARMUP = 1

T = TypeVar("T")


def in_rounds(
    cases: Mapping[str, Callable[[int], T]],
    said: Callable[[str, T], str],
    *,
    warmup: int,
    repeats: int,
    observer: Observer = ignore,
    clock: Clock = SYSTEM,
) -> dict[str, list[T]]:
    """The results of every case by name, without those of the first `warmup` rounds.

    A case is called with the number of its round, from 0. said: the words that the observer gets about a name and its
    result. The observer hears `case.ended` after every run. An error of a case ends the rounds.
    """
    rounds = warmup + repeats
    taken: dict[str, list[T]] = {name: [] for name in cases}
    for index in range(rounds):
        gc.collect()  # no case pays for the garbage of all
        for name, run in cases.items():
            begun_s = clock.monotonic()
            result = run(index)
            if index >= warmup:
                taken[name].append(result)
            report(observer, name, index + 1, rounds, [said(name, result)], clock.monotonic() - begun_s, clock)
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
    """Tells the observer by the event `case.ended` that run `number` of `rounds` of a case has ended."""
    fields = {"case": case, "round": number, "rounds": rounds, "seconds": seconds, "said": list(said)}
    observer(Event("case.ended", clock.wall(), fields))


def measure(
    cases: Sequence[Case],
    *,
    repeats: int = REPEATS,
    warmup: int = WARMUP,
    meter: Meter | None = None,
    clock: Clock = SYSTEM,
    observer: Observer = ignore,
) -> dict[str, Measurement]:
    """CPU and wall time of every case, run `warmup` + `repeats` times in rounds; by name, in the order of the cases.

    All cases are prepared before the first round and closed after the last one, also after an error. Raises UsageError
    for no cases, equal names, or repeats below 1.
    """
    names = [case.name for case in cases]
    if not names or len(set(names)) != len(names):
        raise errors.UsageError(f"bench: cases need names of their own, got {', '.join(names) or 'no case'}")
    if repeats < 1 or warmup < 0:
        raise errors.UsageError(f"bench: repeats {repeats} and warm-up {warmup}; give at least 1 and 0")
    meter = meter or ProcessMeter(clock)
    known = {case.name: case for case in cases}
    first: dict[str, list[Sample]] = {name: [] for name in names}

    def once(case: Case, state: Any, index: int) -> Sample:
        begun = case.begin(state)
        start = meter.start()
        case.run(begun)
        sample = meter.stop(start)
        if index < warmup:
            first[case.name].append(sample)
        return sample

    def said(name: str, sample: Sample) -> str:
        cost = number(1e6 * sample.cpu_s / known[name].units, unit="us CPU")
        return f"{cost} per {known[name].unit}"

    with contextlib.ExitStack() as stack:
        runs = {}
        for case in cases:
            state = case.prepare()
            if case.close is not None:
                stack.callback(case.close, state)
            runs[case.name] = functools.partial(once, case, state)
        taken = in_rounds(runs, said, warmup=warmup, repeats=repeats, observer=observer, clock=clock)
    return {
        case.name: Measurement(case.name, case.unit, case.units, tuple(first[case.name]), tuple(taken[case.name]))
        for case in cases
    }
