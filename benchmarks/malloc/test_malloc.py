"""The suite of the allocator: what its figures compare, and that its processes make what they should."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.malloc import maker
from benchmarks.malloc.suite import LOADS, SUITE, TUNABLES, WAYS, figures_of
from tfhet.errors import UsageError
from tfhet.events import ignore
from tfhet.planes import with_malloc_tunables


def test_every_way_is_compared_with_the_c_library_as_it_is() -> None:
    load = LOADS[-1]
    cost = {"library": 4.0, "huge_pages": 3.0, "jobs": 2.0}
    runs = {f"{load.key}.{way}": [{"cpu_s": s, "faults": 7.0, "peak_bytes": 5e6}] * 6 for way, s in cost.items()}
    figures = figures_of(runs, [load])
    found = {way: figures[f"malloc.{load.key}.{way}.vs_library"].value for way in ("huge_pages", "jobs")}
    assert found == {"huge_pages": 0.75, "jobs": 0.5}
    assert figures[f"malloc.{load.key}.jobs.cpu_ms"].value == 2000.0
    assert figures[f"malloc.{load.key}.jobs.peak_mb"].value == 5.0
    assert f"malloc.{load.key}.library.vs_library" not in figures


def test_the_last_way_is_what_jobs_have() -> None:
    assert with_malloc_tunables({TUNABLES: WAYS["jobs"]}) == with_malloc_tunables({})
    assert [way for way, tunables in WAYS.items() if not tunables] == ["library"]


def test_loads_that_nobody_knows_are_refused() -> None:
    with pytest.raises(UsageError, match="--loads"):
        SUITE.run(argparse.Namespace(loads="photos", repeats=1, warmup=0), ignore, ())


def test_pillow_makes_pictures_of_the_photos() -> None:
    batch = next(maker.by_pillow(9))
    assert batch.shape == (9, 224, 224, 3) and batch.dtype == np.float32
    assert -2.1 < batch.min() < batch.mean() < batch.max() < 2.1 and batch.std() > 0.5
    assert np.array_equal(batch[0], batch[8]) and not np.array_equal(batch[0], batch[1])


def test_first_batches_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(np.arange(0.0, 1e6, 0.5))
    monkeypatch.setattr(maker, "SYSTEM", type("Clock", (), {"cpu": lambda self: float(next(clock))})())
    monkeypatch.setattr(maker, "by_pillow", lambda size: iter(range(100)))
    assert maker.measured({"chain": maker.PILLOW, "batch_size": 2})["cpu_s"] == pytest.approx(2.5 / 3)


@pytest.mark.slow
def test_a_process_makes_batches_of_both_kinds(tmp_path: Path) -> None:
    record = SUITE.run(argparse.Namespace(loads="pillow-64,aws-cifar-4096", repeats=1, warmup=0), ignore, ())
    runs: Any = record.details["runs"]
    assert set(runs) == {f"{load}.{way}" for load in ("pillow-64", "aws-cifar-4096") for way in WAYS}
    assert all(one["cpu_s"] > 0 and one["peak_bytes"] > 1e7 for (one,) in runs.values())
    assert runs["pillow-64.jobs"][0]["faults"] < 0.2 * runs["pillow-64.library"][0]["faults"]
