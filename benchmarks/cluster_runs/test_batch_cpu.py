"""The CPU time of batches outside jobs, and the process that measures it."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from benchmarks.cluster_runs import batch_cpu
from benchmarks.cluster_runs.limited_child import ask_limited
from benchmarks.job_scripts import inputs
from tfhet.container import Limits
from tfhet.container.cgroup import Cgroup
from tfhet.errors import TfhetError, UsageError

LOAD = {"name": "digits", "channel": "", "chain": "", "batch_size": 2}


@pytest.fixture
def groups() -> None:
    try:
        Cgroup.create("tfhet-tests-apart").remove()
    except UsageError as error:
        pytest.skip(f"no control groups here: {error}")


@pytest.mark.usefixtures("groups")
def test_child_measures_and_is_gone() -> None:
    pytest.importorskip("scipy")
    found = ask_limited(batch_cpu.MODULE, {"load": LOAD}, 120.0, Limits())
    assert len(found["whole_s"]) == batch_cpu.ROUNDS and min(found["whole_s"]) > 0.0 and found["cuts"] == []
    with pytest.raises(TfhetError, match="KeyError"):
        ask_limited(batch_cpu.MODULE, {"load": {**LOAD, "name": "mine"}}, 120.0, Limits(0.5))


def test_only_the_requested_costs_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    from tfhet.pipeline import Pipeline
    from tfhet.source import SyntheticSource

    async def wire_costs(held: list[Any]) -> list[Any]:
        return [[(0.0, 0.0)] for _ in held]

    pipeline = Pipeline(SyntheticSource(64, 4), "aws-cifar", 8)
    monkeypatch.setattr(inputs.Load, "pipeline", lambda load: pipeline)
    monkeypatch.setattr(batch_cpu, "_wire_costs", wire_costs)
    monkeypatch.setattr(batch_cpu, "rounds", lambda batches: [(float(len(next(batches)) > 0), 0.0)])
    load = {**LOAD, "name": "pipeline"}
    found = batch_cpu.answer({"load": load, "positions": [5]})
    assert [(cut["position"], cut["remote_s"], cut["wire_s"]) for cut in found["cuts"]] == [(5, [1.0], [(0.0, 0.0)])]
    assert found["whole_s"] == []
    assert batch_cpu.answer({"load": load}) == {"whole_s": [1.0], "cuts": []}
    assert len(batch_cpu.answer({"load": load, "positions": None})["cuts"]) == 5


@pytest.mark.parametrize(("chain", "at"), [("aws-cifar", [0, 1, 2, 5, 6]), ("imagenet-eval", [0, 2, 3])])
def test_pipeline_is_not_cut_within_fused_stages(chain: str, at: list[int], tmp_path: Path) -> None:
    from tfhet.pipeline import Pipeline
    from tfhet.source import SyntheticSource, TFRecordSource, photos

    is_photos = chain.startswith("imagenet")
    source = (
        TFRecordSource.from_directory(photos.photos(count=16, cache=tmp_path)) if is_photos else SyntheticSource(64, 4)
    )
    assert batch_cpu.positions(Pipeline(source, chain, 8)) == at


def test_inputs_of_python_make_batches() -> None:
    pytest.importorskip("scipy")
    first, second = itertools.islice(inputs.Load("digits", "", "", 4).alone(), 2)
    assert first.shape == (4, 28, 28) and first.dtype == "float32" and (first != second).any()
    batch = next(inputs.Load("images", "", "", 2).alone())
    assert batch["image"].shape == (2, 64, 64, 3) and batch["id"].tolist() == [0, 1]
    block = inputs.blurred_block(batch, 1)
    assert (block["image"] == batch["image"]).all() and block["id"].tolist() == [0, 1]
