"""Every pipeline of the table delivers, when it is distributed, what it delivers alone; or is refused with a recipe."""

from __future__ import annotations

from typing import Any

import pytest

from differential.judge import Shape, problems
from differential.row import ROLES, Row
from differential.rows.table import ROWS

QUICK = {
    "arrays_shuffled",
    "folder_of_images_split",
    "images_and_masks",
    "records_interleaved",
    "repeated_before_batch",
    "split_of_batches",
    "split_of_a_reshuffled_order",
    "windows",
}
"""Rows that every suite runs, on the largest cluster; the others are slow and take turns."""
HOMOGENEOUS = {
    **dict.fromkeys(
        ("errors_ignored", "flattened", "split_by_number", "split_by_shard"),
        "the lengths of the shares are unknown and unequal, so the rank with fewer examples repeats them more often",
    ),
    "function_with_generator": "a feed needs data hosts",
    "repeated_after_batch": "the shares of two ranks have 16 and 15 batches",
    "split_of_a_reshuffled_order": "as alone, each pass has other examples",
    "whole_batches_of_62": "each share drops a remainder of its own",
}
"""Why ranks without data hosts do not read these rows as one process reads a pass."""
SHAPES = [Shape(hosts, ranks) for hosts in (0, 1, 2) for ranks in (1, 2) if (hosts, ranks) != (0, 1)]


def cases() -> list[Any]:
    """Each row on each cluster."""
    found = []
    for shape in SHAPES:
        for row in ROWS.values():
            marks = [pytest.mark.xfail(reason=row.wrong)] if row.wrong else []
            if not shape.hosts and row.name in HOMOGENEOUS:
                marks.append(pytest.mark.xfail(reason=HOMOGENEOUS[row.name], run=not row.plane))
            marks += [] if row.name in QUICK and shape == SHAPES[-1] else [pytest.mark.slow]
            found.append(pytest.param(shape, row, id=f"{shape}-{row.name}", marks=marks))
    return found


@pytest.mark.horovod
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("shape", "row"), cases())
def test_pipeline(shape: Shape, row: Row, alone, read_by_job) -> None:
    ranks = read_by_job(shape, row)
    found = [f"{role}: {one}" for role in ROLES for one in problems(row, shape, role, alone(row)[role], ranks[role])]
    assert not found, "\n".join(found)


def test_recipes_are_rows_that_are_not_refused() -> None:
    assert [name for name, row in ROWS.items() if row.recipe and ROWS[row.recipe].recipe] == []
