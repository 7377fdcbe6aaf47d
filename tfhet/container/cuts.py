"""Which hosts a partition of the network separates."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from tfhet.errors import UsageError

Side = frozenset[int]
"""The cuts that hold a host. Two hosts see each other if they are on the same side."""


class Cuts:
    """The cuts that stand. Each parts some hosts from all others; they may overlap."""

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._cuts: dict[int, frozenset[str]] = {}

    def add(self, hosts: Iterable[str]) -> None:
        self._cuts[next(self._numbers)] = frozenset(hosts)

    def remove(self, hosts: Iterable[str]) -> None:
        """Takes one cut of exactly these hosts back, the oldest. Raises UsageError when there is none."""
        within = frozenset(hosts)
        number = next((number for number, each in self._cuts.items() if each == within), None)
        if number is None:
            raise UsageError(f"nothing to heal: {', '.join(sorted(within)) or 'no host'} was not cut off")
        del self._cuts[number]

    def side(self, host: str) -> Side:
        return frozenset(number for number, hosts in self._cuts.items() if host in hosts)
