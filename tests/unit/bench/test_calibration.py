"""bench/calibration.py: measured costs come back as the choice of tfhet.stages.costs."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from benchmarks.stages import each
from tfhet.bench import calibration
from tfhet.errors import TfhetError

tf = pytest.importorskip("tensorflow")

from tfhet.stages import costs, dilate  # noqa: E402

OPTIONS = argparse.Namespace(threads=1, repeats=1, warmup=0)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """One operation, one size, a table of the test's own."""
    monkeypatch.setattr(each, "SIZES", {32: 2})
    monkeypatch.setattr(each, "RUN_S", 1e-6)
    monkeypatch.setattr(costs, "BACKENDS", {"morphology": ("native", "plain")})
    monkeypatch.setattr(costs, "user_path", lambda: tmp_path / "costs.json")
    costs.table.cache_clear()
    return tmp_path / "costs.json"


def asking(images: tf.Tensor, chosen: list[str]) -> tf.Tensor:
    chosen.append(costs.cheapest("morphology", images, ("native", "plain")))
    return images


def test_what_was_measured_decides_from_then_on(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen: list[str] = []
    monkeypatch.setattr(dilate.Dilate, "apply", lambda self, images, parameters: asking(images, chosen))
    record = calibration.run(OPTIONS, lambda event: None, ("tfhet",))
    assert set(record.figures) == {
        f"stages.costs.morphology.{backend}.{dtype}.32"
        for backend in ("native", "plain")
        for dtype in ("uint8", "float32")
    }
    assert record.details["table"] == str(small) and {"native", "plain"} <= set(chosen)
    known = {(cost.backend, cost.dtype): cost.us for cost in costs.table() if cost.operation == "morphology"}
    cheaper = min(("native", "plain"), key=lambda backend: known[backend, "uint8"])
    assert costs.cheapest("morphology", tf.zeros([1, 40, 40, 3], tf.uint8), ("native", "plain")) == cheaper
    costs.table.cache_clear()


@pytest.mark.usefixtures("small")
def test_an_operation_that_does_not_ask_is_left_out_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def deaf(self: dilate.Dilate, images: tf.Tensor, parameters: Mapping[str, Any]) -> tf.Tensor:
        return images

    monkeypatch.setattr(dilate.Dilate, "apply", deaf)
    with pytest.raises(TfhetError, match="dilate does not ask the table"):
        calibration.run(OPTIONS, lambda event: None, ("tfhet",))


def test_every_operation_has_a_trial() -> None:
    assert set(calibration.TRIALS) == set(costs.BACKENDS)
