"""What the judge says of the runs of one simulated job."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path

from benchmarks.judge.judge import Run, Verdict, content_of, judge
from tfhet.source.digits import digits


def verdict(folders: Sequence[Path], epochs: int, left_out: Collection[tuple[int, int]] = ()) -> Verdict:
    """Judges the run folders of a job, oldest first, that read the digits.

    left_out: the records that are damaged, as numbers of the file and of the record in it.
    """
    return judge([Run.read(folder) for folder in folders], _digits(frozenset(left_out)), epochs)


@functools.cache
def _digits(left_out: frozenset[tuple[int, int]]) -> Counter[str]:
    return content_of(digits() / "train", left_out=left_out)
