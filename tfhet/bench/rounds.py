"""Cases measured in rounds, A B C A B C, with a line for each run: for suites that take what a case gives as it is.

`harness.measure` does the same for cases whose CPU and wall time is what is measured.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from tfhet.clock import SYSTEM, Clock
from tfhet.events import Event, Observer

T = TypeVar("T")


def in_rounds(
    cases: Mapping[str, Callable[[int], T]],
    said: Callable[[str, T], str],
    *,
    warmup: int,
    repeats: int,
    observer: Observer,
    clock: Clock = SYSTEM,
) -> dict[str, list[T]]:
    """What every case gave, by name; that of the first `warmup` rounds does not count.

    A case is called with the number of its round, from 0. said: what a line tells of a name and what it gave. The
    observer is told `case.ended`. What a case raises passes through.
    """
    rounds = warmup + repeats
    taken: dict[str, list[T]] = {name: [] for name in cases}
    for index in range(rounds):
        for name, run in cases.items():
            begun_s = clock.monotonic()
            given = run(index)
            if index >= warmup:
                taken[name].append(given)
            told = {"case": name, "round": index + 1, "rounds": rounds, "exit_s": clock.monotonic() - begun_s}
            observer(Event("case.ended", clock.wall(), {**told, "said": [said(name, given)]}))
    return taken
