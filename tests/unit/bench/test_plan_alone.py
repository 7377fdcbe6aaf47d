"""bench/plan_alone.py and plan_gauge.py: the process that measures what batches cost apart, and how it is asked."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tfhet.bench import plan_alone
from tfhet.bench.apart import MARK
from tfhet.bench.plan_alone import COSTS, REFERENCE
from tfhet.bench.plan_case import LOADS
from tfhet.bench.plan_gauge import COSTS_CPUS, ApartGauge
from tfhet.container.limits import Limits


def test_it_runs_on_one_cpu_and_answers_each_line_with_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tied: list[Any] = []
    built: list[Any] = []
    monkeypatch.setattr(plan_alone.os, "sched_setaffinity", lambda pid, cpus: tied.append((pid, cpus)))
    monkeypatch.setattr(plan_alone, "pipeline_of", lambda asked: asked)
    monkeypatch.setattr(plan_alone, "costs", lambda asked: {"of": asked["chain"]})
    monkeypatch.setattr(plan_alone, "_whole", lambda asked: built.append(asked) or iter(()))
    monkeypatch.setattr(plan_alone, "_rounds", lambda batches: [0.5])
    asked = [{"what": what, "chain": "none", "channel": "/data"} for what in (REFERENCE, COSTS, REFERENCE)]
    monkeypatch.setattr(sys, "stdin", io.StringIO("".join(json.dumps(one) + "\n" for one in asked)))
    plan_alone.main(["1"])
    said = [json.loads(line.removeprefix(MARK)) for line in capsys.readouterr().out.splitlines()]
    assert said == [{"cpu_s": [0.5]}, {"of": "none"}, {"cpu_s": [0.5]}]
    assert tied == [(0, {1})]
    assert len(built) == 1, "its batches are kept from one time to the next"


class PlayedApart:
    def __init__(self, said: object):
        self.asked: list[tuple[Limits | None, Any]] = []
        self._said = json.dumps(said)

    def ask(self, limit_s: float, limits: Limits | None = None, what: str = "") -> str:
        self.asked.append((limits, json.loads(what)["what"]))
        return self._said


def test_costs_are_measured_with_about_what_a_host_has_and_the_reference_with_all(tmp_path: Path) -> None:
    cuts = [
        {"position": 0, "dtype": "uint8", "bytes": 9, "remote_s": [1.0], "local_s": [2.0], "wire_s": [[1e-9, 2e-9]]}
    ]
    apart = PlayedApart({"cuts": cuts, "whole_s": [3.0], "cpu_s": [0.25]})
    gauge = ApartGauge(apart)  # type: ignore[arg-type]
    measured = gauge.costs(LOADS[0], tmp_path)
    assert gauge.reference_s(LOADS[0], tmp_path) == [0.25]
    assert apart.asked == [(Limits(COSTS_CPUS), COSTS), (None, REFERENCE)]
    assert measured.pipeline.cuts[0].remote_us.value == pytest.approx(1e6 / LOADS[0].batch_size)
    assert measured.whole.whole_us.value == pytest.approx(3e6 / LOADS[0].batch_size)


def test_a_pipeline_is_cut_where_nothing_that_is_fused_is_taken_apart() -> None:
    from tfhet.placement import Pipeline
    from tfhet.source import SyntheticSource

    assert plan_alone.positions(Pipeline(SyntheticSource(64, 4), "aws-cifar", 8)) == [0, 1, 2, 5, 6]
