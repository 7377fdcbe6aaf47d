"""The batches of an epoch that a rank has taken, in memory that does not grow with them: an epoch may have no end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

Key = tuple[int, int]
"""A batch of an epoch: the index of its shard, and its number there."""


class Taken:
    """The number of rounds of each shard that the rank has taken from the first on, and the batches beyond them."""

    def __init__(self, rank: int, size: int, keys: Iterable[Key] = ()):
        self._rank, self._size = rank, size
        self._rounds: dict[int, int] = {}
        self._beyond: set[Key] = set()
        for key in keys:
            self.add(key)

    def add(self, key: Key) -> None:
        index = key[0]
        self._beyond.add(key)
        rounds = self._rounds.get(index, 0)
        while (first := (index, rounds * self._size + self._rank)) in self._beyond:
            self._beyond.remove(first)
            self._rounds[index] = rounds = rounds + 1

    def __contains__(self, key: Key) -> bool:
        rounds, place = divmod(key[1], self._size)
        return (place == self._rank and rounds < self._rounds.get(key[0], 0)) or key in self._beyond

    def __bool__(self) -> bool:
        return bool(self._rounds or self._beyond)

    def __iter__(self) -> Iterator[Key]:
        return expanded(self.rows(), self._rank, self._size)

    def rows(self) -> list[list[int]]:
        """The same in JSON: for each shard its index, the number of rounds, and the numbers beyond them."""
        rows = {index: [index, rounds] for index, rounds in self._rounds.items()}
        for index, number in sorted(self._beyond):
            rows.setdefault(index, [index, 0]).append(number)
        return [rows[index] for index in sorted(rows)]


def expanded(rows: Iterable[Iterable[int]], rank: int, size: int) -> Iterator[Key]:
    """The batches that rows were made of."""
    for index, rounds, *numbers in rows:
        yield from ((index, each * size + rank) for each in range(rounds))
        yield from ((index, number) for number in numbers)
