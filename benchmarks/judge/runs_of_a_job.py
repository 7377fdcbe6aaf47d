"""The judge's verdict on the runs of one simulated job."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path

from benchmarks.judge.judge import Run, Verdict, content_of, judge, judge_together
from tfhet.source.digits import digits


def verdict(folders: Sequence[Path], epochs: int, left_out: Collection[tuple[int, int]] = ()) -> Verdict:
    """Judges the run folders of a job, oldest first, that read the digits.

    left_out: the records that are damaged, as numbers of the file and of the record in it.
    """
    return judge([Run.read(folder) for folder in folders], _digits(frozenset(left_out)), epochs)


def verdict_together(folder: Path, epochs: int, left: int) -> Verdict:
    """Judges the run folder of a script that read the digits without an end between epochs; see `judge_together`."""
    return judge_together(Run.read(folder), _digits(frozenset()), epochs, left)


@functools.cache
def _digits(left_out: frozenset[tuple[int, int]]) -> Counter[str]:
    return content_of(digits() / "train", left_out=left_out)
