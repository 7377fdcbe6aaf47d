"""The suite of an article's work on Ray: its hosts, its prices, and what its figures compare."""

from __future__ import annotations

import pytest

from benchmarks.planes.windowed_job import Window
from benchmarks.ray.case import CASES, DATA, DNN, OWN_CPUS, SCALE, Prices
from benchmarks.ray.needed import refuse
from benchmarks.ray.suite import ALONE, BUSY, figures_of
from tfhet.errors import UsageError
from tfhet.units import MB

PRICES = Prices("ec2", "us-east-1", {DNN: 1.0, DATA: 0.5})


def window(step_s: float, cpu_s: float, spilled: float = 0.0) -> Window:
    use = {"algo-1": {"object_store_bytes_peak": 20.0 * MB, "spilled_bytes": spilled}}
    use["algo-2"] = {"object_store_bytes_peak": 30.0 * MB, "spilled_bytes": spilled}
    return Window(step_s, 10, 20.0, {"dnn_group": 10 * cpu_s}, 8 * cpu_s, 5.0, 100, {"dnn_group": 1.0}, use)


def test_hosts_have_4_and_20_vcpus_scaled_and_what_is_not_scaled():
    assert CASES["homogeneous"].cpus == pytest.approx(4 / SCALE + OWN_CPUS[DNN])
    assert CASES["heterogeneous"].cpus == pytest.approx(20 / SCALE + OWN_CPUS[DNN] + OWN_CPUS[DATA])
    assert CASES["heterogeneous"].cluster("x").groups["data_group"].cpus == pytest.approx(16 / SCALE + OWN_CPUS[DATA])
    assert list(CASES["homogeneous"].cluster("x").groups) == ["dnn_group"]


def test_figures_compare_a_step_with_what_the_cpus_allow_and_with_its_cost():
    jobs = {"homogeneous": [window(0.5, 0.11)], "heterogeneous": [window(0.125, 0.12, 2.0 * MB)]}
    figures = figures_of({ALONE: [0.09], BUSY: [0.1]}, jobs, PRICES)
    assert figures["ray.speedup"].value == pytest.approx(4.0)
    assert figures["ray.homogeneous.own_cpus"].value == pytest.approx(0.011)
    assert figures["ray.homogeneous.vs_cpus"].value == pytest.approx(0.5 / (0.1 / (4 / SCALE + OWN_CPUS[DNN] - 0.011)))
    assert figures["ray.heterogeneous.task_vs_batch"].value == pytest.approx(0.96)
    assert figures["ray.homogeneous.unused_cpus"].value == pytest.approx(CASES["homogeneous"].cpus - 1.1 / 20)
    assert (figures["ray.batch_cpu_s"].value, figures["ray.batch_cpu_busy_s"].value) == (0.09, 0.1)
    assert figures["ray.heterogeneous.object_store_mb"].value == 30
    assert figures["ray.heterogeneous.spilled_mb"].value == 4 and figures["ray.homogeneous.spilled_mb"].value == 0
    assert figures["ray.saving_pct"].value == pytest.approx(100 * (1 - 1.5 / 4))
    assert "ec2 in us-east-1" in (figures["ray.saving_pct"].against or "")


def test_prices_of_both_types_are_of_one_market():
    prices = Prices.known()
    assert set(prices.usd_per_hour) == {DNN, DATA}
    assert prices.of(CASES["heterogeneous"]) == pytest.approx(sum(prices.usd_per_hour.values()))


def test_a_python_without_ray_is_refused_with_what_to_do():
    with pytest.raises(UsageError, match=r"does not find ray, torch: run the suite with a Python .*ray\.lock"):
        refuse(["ray", "torch"])
    refuse([])
