"""the process that measures what batches cost apart, and how it is asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.plan import cut_costs
from benchmarks.plan.case import LOADS
from benchmarks.plan.gauge import COSTS_CPUS, ChildGauge, at_speed, batches_s
from benchmarks.plan.yardstick import Pace
from tfhet.container import Limits


def test_it_runs_on_one_cpu_and_answers_with_the_costs_of_the_pipeline(monkeypatch: pytest.MonkeyPatch) -> None:
    tied: list[Any] = []
    said: list[Any] = []
    monkeypatch.setattr(cut_costs.os, "sched_setaffinity", lambda pid, cpus: tied.append((pid, cpus)))
    monkeypatch.setattr(cut_costs.batch_cpu, "pipeline_of", lambda asked: asked)
    monkeypatch.setattr(cut_costs, "costs", lambda asked: {"of": asked["chain"]})
    monkeypatch.setattr(cut_costs, "answer_requests", lambda handle: said.append(handle({"chain": "none"})))
    cut_costs.main(["1"])
    assert said == [{"of": "none"}] and tied == [(0, {1})]


class PlayedChild:
    def __init__(self) -> None:
        self.asked: list[tuple[Limits | None, Any]] = []

    def ask(self, request: Any, limit_s: float, limits: Limits | None = None) -> dict[str, Any]:
        self.asked.append((limits, request))
        return {"cuts": [], "whole_s": []}


def test_costs_are_measured_with_about_what_a_host_has(tmp_path: Path) -> None:
    child = PlayedChild()
    assert ChildGauge(child).costs(LOADS[0], tmp_path) == {"cuts": [], "whole_s": []}  # type: ignore[arg-type]
    asked = {"chain": LOADS[0].chain, "batch_size": LOADS[0].batch_size, "channel": str(tmp_path)}
    assert child.asked == [(Limits(COSTS_CPUS), asked)]


SAID = {
    "cuts": [
        {
            "position": 3,
            "dtype": "uint8",
            "bytes": 9,
            "remote_s": [[1.0, 0.0, 10.0], [2.0, 10.0, 20.0]],
            "local_s": [[0.5, 10.0, 20.0]],
            "wire_s": [[0.1, 0.2, 0.0, 10.0]],
        }
    ],
    "whole_s": [[3.0, 10.0, 20.0]],
}
SLOWER = Pace([[(0.0, 0.0, 0.0), (10.0, 5.0, 100.0), (20.0, 10.0, 150.0)]])
"""From the tenth second on a batch takes twice as much CPU."""


def test_costs_are_told_at_one_speed_of_the_machine_each_by_the_yardstick_of_its_round() -> None:
    assert batches_s(SAID, SLOWER) == pytest.approx([0.1, 0.05, 0.1, 0.1, 0.05])
    told = at_speed(SAID, SLOWER, 0.05)
    (cut,) = told["cuts"]
    assert (cut["position"], cut["dtype"], cut["bytes"]) == (3, "uint8", 9)
    assert cut["remote_s"] == pytest.approx([1.0, 1.0]) and cut["local_s"] == pytest.approx([0.25])
    assert cut["wire_s"] == [pytest.approx([0.1, 0.2])] and told["whole_s"] == pytest.approx([1.5])


def test_a_pipeline_is_cut_where_nothing_that_is_fused_is_taken_apart() -> None:
    from tfhet.placement import Pipeline
    from tfhet.source import SyntheticSource

    assert cut_costs.positions(Pipeline(SyntheticSource(64, 4), "aws-cifar", 8)) == [0, 1, 2, 5, 6]
