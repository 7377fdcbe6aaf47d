from __future__ import annotations

import pytest

from benchmarks.steps import suite as steps
from tfhet.record import Record


def taken(compiled_us: float = 101.0, points: float = 0.5) -> dict[str, list]:
    loops = {f"loop {data_ms:g}": [{"step_pct": 1.0, "wait_points": points}] * 3 for data_ms in steps.DATA_MS}
    return {"none": [100.0] * 3, "compiled": [compiled_us] * 3, "plain": [150.0] * 3, "ids": [105.0] * 3, **loops}


def test_a_note_costs_what_batches_take_more_than_without():
    figures = steps.figures_of(taken())
    assert figures["steps.note_us.compiled"].value == pytest.approx(1.0)
    assert figures["steps.note_us.plain"].value == pytest.approx(50.0)
    assert {name for name in figures if "difference" in name} == {
        f"steps.difference.{data_ms:g}ms.{what}" for data_ms in steps.DATA_MS for what in ("step_pct", "wait_points")
    }


def test_bounds_that_are_not_kept_are_named():
    assert steps.SUITE.is_kept(Record.of("steps", steps.figures_of(taken())))
    broken = Record.of("steps", steps.figures_of(taken(130.0, 2.5)))
    assert not steps.SUITE.is_kept(broken)
    assert [line.split(": ")[1] for line in steps.SUITE.notes(broken)] == [
        "steps.note_us.compiled",
        *(f"steps.difference.{data_ms:g}ms.wait_points" for data_ms in steps.DATA_MS),
    ]
