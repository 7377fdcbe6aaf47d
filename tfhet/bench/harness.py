"""The compute-time harness: cases x repeats, interleaved, warm-up apart, every raw sample kept.

What is compared is measured in rounds, A B C A B C: a machine that becomes slower for a while slows all of them, and
the i-th samples of two cases form a pair.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Sequence
from typing import Any

from tfhet import errors
from tfhet.bench.case import Case
from tfhet.bench.measurement import Measurement
from tfhet.bench.meter import Meter, ProcessMeter, Sample
from tfhet.clock import SYSTEM, Clock
from tfhet.events import Event, Observer, ignore

REPEATS = 5
WARMUP = 1


def measure(
    cases: Sequence[Case],
    *,
    repeats: int = REPEATS,
    warmup: int = WARMUP,
    meter: Meter | None = None,
    clock: Clock = SYSTEM,
    observer: Observer = ignore,
) -> dict[str, Measurement]:
    """Runs every case `warmup` + `repeats` times in rounds; the measurements by name, in the order of the cases.

    All cases are prepared before the first round and closed after the last. The observer is told `bench.started`,
    `case.prepared` and, for every run, `case.measured`. Raises UsageError for no cases, equal names, or repeats below
    1; what a case raises passes through, after all have been closed.
    """
    names = [case.name for case in cases]
    if not names or len(set(names)) != len(names):
        raise errors.UsageError(f"bench: cases need names of their own, got {', '.join(names) or 'no case'}")
    if repeats < 1 or warmup < 0:
        raise errors.UsageError(f"bench: repeats {repeats} and warm-up {warmup}; give at least 1 and 0")
    meter = meter or ProcessMeter(clock)
    rounds = warmup + repeats
    taken: dict[str, list[Sample]] = {name: [] for name in names}
    observer(Event("bench.started", clock.wall(), {"cases": names, "repeats": repeats, "warmup": warmup}))
    with contextlib.ExitStack() as stack:
        states: dict[str, Any] = {}
        for case in cases:
            states[case.name] = state = case.prepare()
            if case.close is not None:
                stack.callback(case.close, state)
            observer(Event("case.prepared", clock.wall(), {"case": case.name}))
        for index in range(rounds):
            gc.collect()  # so that no case pays for the garbage of all
            for case in cases:
                sample = _once(case, states[case.name], meter)
                taken[case.name].append(sample)
                fields = {
                    "case": case.name,
                    "round": index + 1 if index < warmup else index - warmup + 1,
                    "rounds": warmup if index < warmup else repeats,
                    "warmup": index < warmup,
                    "unit": case.unit,
                    "units": case.units,
                    **sample.to_json(),
                }
                observer(Event("case.measured", clock.wall(), fields))
    return {
        case.name: Measurement(
            case.name, case.unit, case.units, tuple(taken[case.name][:warmup]), tuple(taken[case.name][warmup:])
        )
        for case in cases
    }


def _once(case: Case, state: Any, meter: Meter) -> Sample:
    begun = case.begin(state)
    start = meter.start()
    case.run(begun)
    return meter.stop(start)
