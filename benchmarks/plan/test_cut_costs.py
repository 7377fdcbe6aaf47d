"""The process that measures what batches cost apart, and how it is asked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest

from benchmarks.plan import cut_costs, gauge
from benchmarks.plan.case import LOADS
from benchmarks.plan.gauge import COSTS_CPUS, ChildGauge
from tfhet.container import Limits


def test_it_runs_on_one_cpu_and_answers_with_the_costs_of_the_pipeline(monkeypatch: pytest.MonkeyPatch) -> None:
    tied: list[Any] = []
    said: list[Any] = []
    monkeypatch.setattr(cut_costs.os, "sched_setaffinity", lambda pid, cpus: tied.append((pid, cpus)))
    monkeypatch.setattr(cut_costs.batch_cpu, "pipeline_of", lambda asked: asked)
    monkeypatch.setattr(cut_costs, "costs", lambda asked, at: {"of": (asked["chain"], at)})
    asked = {"chain": "none", "positions": [5]}
    monkeypatch.setattr(cut_costs, "answer_requests", lambda handle: said.append(handle(asked)))
    cut_costs.main(["1"])
    assert said == [{"of": ("none", [5])}] and tied == [(0, {1})]


class PlayedChild:
    """asked: what each process was asked, which is to be the only thing."""

    asked: ClassVar[list[tuple[Limits | None, Any]]] = []
    running = 0

    @classmethod
    @contextmanager
    def started(cls, module: str, *arguments: str) -> Iterator[PlayedChild]:
        cls.running += 1
        yield cls()
        cls.running -= 1

    def ask(self, request: Any, limit_s: float, limits: Limits | None = None) -> dict[str, Any]:
        assert self.running == 1 and not vars(self)
        self.before = request
        self.asked.append((limits, request))
        return {"cuts": [], "whole_s": []}


def test_costs_are_measured_by_a_new_process_with_the_cpus_that_were_asked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(gauge, "LimitedChild", PlayedChild)
    monkeypatch.setattr(PlayedChild, "asked", [])
    assert ChildGauge().costs(LOADS[0], tmp_path) == {"cuts": [], "whole_s": []}
    ChildGauge().costs(LOADS[0], tmp_path, (5,), 0.2)
    batches = {"chain": LOADS[0].chain, "batch_size": LOADS[0].batch_size, "channel": str(tmp_path)}
    assert PlayedChild.asked == [
        (Limits(COSTS_CPUS), {**batches, "positions": None}),
        (Limits(0.2), {**batches, "positions": (5,)}),
    ]
    assert not PlayedChild.running


def test_only_what_was_asked_for_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    from tfhet.placement import Pipeline
    from tfhet.source import SyntheticSource

    async def wire(held: dict[int, Any]) -> dict[int, Any]:
        return {at: [[0.0, 0.0]] for at in held}

    monkeypatch.setattr(cut_costs, "_wire", wire)
    monkeypatch.setattr(cut_costs, "_rounds", lambda batches: [float(len(next(batches)) > 0)])
    pipeline = Pipeline(SyntheticSource(64, 4), "aws-cifar", 8)
    (cut,) = (said := cut_costs.costs(pipeline, [5]))["cuts"]
    assert (cut["position"], cut["remote_s"], cut["local_s"], cut["wire_s"]) == (5, [1.0], [1.0], [[0.0, 0.0]])
    assert said["whole_s"] == []
    assert cut_costs.costs(pipeline, []) == {"cuts": [], "whole_s": [1.0]}


@pytest.mark.parametrize(("chain", "at"), [("aws-cifar", [0, 1, 2, 5, 6]), ("imagenet-eval", [0, 2, 3])])
def test_a_pipeline_is_cut_where_nothing_that_is_fused_is_taken_apart(
    chain: str, at: list[int], tmp_path: Path
) -> None:
    from tfhet.placement import Pipeline
    from tfhet.source import SyntheticSource, TFRecordSource, photos

    is_photos = chain.startswith("imagenet")
    source = (
        TFRecordSource.from_directory(photos.photos(count=16, cache=tmp_path)) if is_photos else SyntheticSource(64, 4)
    )
    assert cut_costs.positions(Pipeline(source, chain, 8)) == at
