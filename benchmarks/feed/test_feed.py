"""benchmarks.feed: what its cases are, what its makers make, and what follows from the times of a step."""

from __future__ import annotations

import itertools

import pytest

from benchmarks.feed import maker, suite
from benchmarks.feed.suite import ALLOWED, CASES, figures_of


def test_hosts_that_prepare_are_those_with_processes_of_the_feed() -> None:
    assert CASES["homogeneous"].preparing == [(0.2, 1)]
    assert CASES["heterogeneous"].preparing == [(0.2, 1), (1.1, 2)]
    assert CASES["ten_small"].preparing == [(0.1, 1)] * 10
    assert {name: pytest.approx(case.preparing_cpus) for name, case in CASES.items()} == {
        "homogeneous": 0.2,
        "heterogeneous": 1.3,
        "one_small": 0.1,
        "ten_small": 1.0,
    }


def test_a_maker_makes_the_batches_of_the_script() -> None:
    first, second = itertools.islice(maker.batches(4, 1), 2)
    assert first.shape == second.shape == (4, 28, 28) and first.dtype == "float32" and (first != second).any()
    taken = maker.made(maker.batches(2, 1), 0.05)
    assert taken["batches"] >= 1 and taken["seconds"] >= 0.05 and 0.0 < taken["cpu_s"] <= 1.5 * taken["seconds"]


def test_a_batch_alone_is_what_its_process_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suite, "ALONE_S", 0.2)
    monkeypatch.setattr(suite, "BLURS", 1)
    assert 1e-5 < suite.batch_cpu_s() < 0.2


def test_a_step_is_held_against_the_cpus_and_against_makers_in_the_same_quotas() -> None:
    steps = {"homogeneous": 0.12, "heterogeneous": 0.02, "one_small": 0.24, "ten_small": 0.025}
    taken = {name: [step_s] * 3 for name, step_s in steps.items()}
    taken |= {f"{name}.{ALLOWED}": [0.8 * step_s] * 3 for name, step_s in steps.items()}
    loads_ns = dict.fromkeys(taken, [65.0, 550.0, 80.0])
    found = {name: figure.value for name, figure in figures_of({**taken, "batch_cpu": [0.02] * 3}, loads_ns).items()}
    assert found["feed.speedup"] == pytest.approx(6.0) and found["feed.scaling"] == pytest.approx(0.96)
    assert found["feed.homogeneous.vs_cpus"] == pytest.approx(0.12 / (0.02 / 0.2))
    assert found["feed.heterogeneous.vs_cpus"] == pytest.approx(0.02 / (0.02 / 1.3))
    assert all(found[f"feed.{name}.cold_load_ns"] == 80.0 for name in CASES)
    assert all(found[f"feed.{name}.vs_quota"] == pytest.approx(1.25) for name in CASES)
