"""Contract of every collective; ranks which share the work unequally learn what one rank learns alone."""

from __future__ import annotations

import contextlib
import os
import re
import runpy
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rank_processes import met, results

from tfhet import strategies
from tfhet.cluster import Rank, keep_free
from tfhet.errors import UsageError
from tfhet.strategies import OWN
from tfhet.strategies.solo import SoloCollective
from tfhet.strategies.tensorflow.tf_config import Tasks

SCRIPT = Path(__file__).with_name("collective_ranks.py")
RANKS = 2


def solo() -> list[dict[str, Any]]:
    return [runpy.run_path(str(SCRIPT))["everything"](SoloCollective())]


def multi_worker(kind: str, folder: Path) -> list[dict[str, Any]]:
    with contextlib.ExitStack() as stack:
        kept = [stack.enter_context(keep_free()) for _ in range(RANKS)]
        tasks = Tasks({"worker": [f"127.0.0.1:{each.getsockname()[1]}" for each in kept]})
        return results(SCRIPT, kind, folder, [tasks.of_task("worker", rank) for rank in range(RANKS)])


@pytest.fixture(scope="module")
def alone() -> dict[str, Any]:
    return solo()[0]


MARKED = tuple(pytest.param(kind, marks=getattr(pytest.mark, kind)) for kind in ("horovod", "torch"))


@pytest.fixture(scope="module", params=("solo", *MARKED, pytest.param("multi_worker", marks=pytest.mark.slow)))
def ranks(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[dict[str, Any]]]:
    """The result of each rank."""
    if request.param == "solo":
        yield [request.getfixturevalue("alone")]
    else:
        folder = tmp_path_factory.mktemp(request.param)
        is_met = request.param != "multi_worker"
        yield met(SCRIPT, request.param, folder) if is_met else multi_worker(request.param, folder)


def facts(ranks: list[dict[str, Any]], name: str) -> list[Any]:
    return [rank["facts"][name] for rank in ranks]


def trained(ranks: list[dict[str, Any]], name: str) -> list[Any]:
    return [rank["trained"][name] for rank in ranks]


def test_ranks_know_their_place(ranks):
    assert facts(ranks, "place") == [(rank, len(ranks)) for rank in range(len(ranks))]


def test_sums_broadcasts_and_gathers_are_exact(ranks):
    size = len(ranks)
    for first, second in facts(ranks, "sum"):
        np.testing.assert_array_equal(first, [sum(range(1, size + 1)), 2.0 * size])
        assert second == 0.5 * size
    for in_graph in facts(ranks, "sum in a graph"):
        assert in_graph == [2.0 * sum(rank + turn for rank in range(size)) for turn in (1, 2)]
    for variable in facts(ranks, "sum of variables"):
        np.testing.assert_array_equal(variable, [sum(rank + 5.0 for rank in range(size))])
    again = [float(sum(rank + turn for rank in range(size))) for turn in range(3)]  # under one name
    assert facts(ranks, "sum again") == [again] * size
    assert facts(ranks, "broadcast") == [[[5.0], 7]] * size
    assert facts(ranks, "total") == [[sum(range(1, size + 1)), 0.5 * size, float(size * (1 << 40))]] * size
    expected = np.concatenate([np.arange(rank * 2) + (1 << 40) * (rank + 1) for rank in range(size)])
    for found, nothing in zip(facts(ranks, "gather"), facts(ranks, "gather nothing"), strict=True):
        np.testing.assert_array_equal(found, expected)
        assert found.dtype == np.int64
        assert nothing.shape == (0,) and nothing.dtype == np.int64


def test_alltoall_keeps_the_order_of_ranks(ranks):
    if "alltoall" not in ranks[0]["facts"]:
        return  # a collective need not have it
    for to, (found, nothing) in enumerate(zip(facts(ranks, "alltoall"), facts(ranks, "alltoall nothing"), strict=True)):
        expected = [to + (rank << 40) for rank in range(len(ranks)) for _ in range(to + 1 if to else 0)]
        np.testing.assert_array_equal(found, expected)
        assert found.dtype == np.int64
        assert nothing.shape == (0,) and nothing.dtype == np.int64


def test_ranks_learn_what_one_rank_learns(ranks, alone):
    """Unequal and empty shares, accumulated batches and a loss scale that rank 0 alone has read from a checkpoint."""
    single = alone["trained"]
    for rank in (rank["trained"] for rank in ranks):
        for optimizer in ("sgd", "adam"):
            assert [count[0] for count in rank[f"{optimizer} counts"]] == [7, 3, 0]
            np.testing.assert_allclose(rank[f"{optimizer} counts"], single[f"{optimizer} counts"], rtol=1e-5)
        for name in ("sgd weights", "adam weights", "accumulated", "scaled"):
            for mine, other in zip(rank[name], single[name], strict=True):
                np.testing.assert_allclose(mine, other, rtol=1e-4, atol=1e-6, err_msg=name)
        assert rank["adam iterations"] == 2  # a step without examples changes nothing
    for name in ("sgd digest", "adam digest", "scaled digest"):
        assert len(set(trained(ranks, name))) == 1, name
    assert len({rank["looped"]["digest"] for rank in ranks}) == 1


def test_keras_metrics_are_those_of_all_examples(ranks, alone, request):
    if request.node.callspec.params["ranks"] not in ("solo", "horovod"):
        return  # the callback is for Horovod
    for rank in ranks:
        assert rank["measured"]["evaluate"] == pytest.approx(alone["measured"]["evaluate"], rel=1e-4)
        assert rank["measured"]["fit"].keys() == alone["measured"]["fit"].keys()
        for name in ("loss", "accuracy"):
            assert rank["measured"]["fit"][name] == pytest.approx(alone["measured"]["fit"][name], rel=1e-4)
    assert len({str(rank["measured"]) for rank in ranks}) == 1


def test_moving_statistics_become_their_mean(ranks):
    before = trained(ranks, "statistics before")
    for found in trained(ranks, "statistics"):
        for index, value in enumerate(found):
            np.testing.assert_allclose(value, np.mean([rank[index] for rank in before], axis=0), rtol=1e-6)


def test_epoch_ends_for_all_ranks_together(ranks):
    loops = [rank["looped"] for rank in ranks]
    assert all(loop["step"] == loops[0]["step"] for loop in loops)
    for loop in loops:
        assert loop["results"] == loops[0]["results"]
        for result in loop["results"]:
            assert (result["examples"], result["once"], result["missing"], result["repeated"]) == (90, 90, 0, 0)
    if len(ranks) > 1:
        assert loops[0]["batches"] != loops[1]["batches"], "the shares were meant to be unequal"
        batches = [loop["batches"] for loop in loops]
        assert max(batches) <= loops[0]["step"] < sum(batches)

    val_losses = {loop["results"][-1]["val_loss"] for loop in loops}
    assert len(val_losses) == 1 and 0.0 <= loops[0]["results"][-1]["val_accuracy"] <= 1.0
    steps = [int(found) for line in loops[0]["lines"] for found in re.findall(r" step=(\d+) ", line)]
    assert steps == list(range(4, loops[0]["step"] + 1, 4))
    assert all(loop["lines"] == [] for loop in loops[1:]), "rank 0 alone prints"


# Choosing one


def test_one_rank_needs_no_horovod(monkeypatch):
    monkeypatch.setitem(sys.modules, "horovod.tensorflow", None)
    assert isinstance(strategies.chosen("auto", 1).collective(1), SoloCollective)
    assert isinstance(strategies.chosen("solo", 1).collective(1), SoloCollective)


@pytest.mark.parametrize("kind", ["auto", "horovod"])
def test_missing_horovod_is_named(monkeypatch, kind):
    monkeypatch.setitem(sys.modules, "horovod.tensorflow", None)
    with pytest.raises(UsageError, match=r"tfhet\[horovod\]"):
        strategies.chosen(kind, 2).collective(2)


def test_missing_pytorch_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(UsageError, match=r"tfhet\[torch\]"):
        strategies.get("torch").collective(2)


@pytest.mark.torch
def test_torch_needs_its_variables_and_size():
    code = "import sys; from tfhet import strategies; strategies.get('torch').collective(int(sys.argv[1]))"
    meeting = strategies.get("torch").meeting(["a"], 1, OWN)
    try:
        order = meeting.open("127.0.0.1", "lo", "127.0.0.1", ())
        alone = strategies.get("torch").environment(order, "a", Rank(0, 1, 0, 1, "tfhet"), os.environ)
        for env, wrong in ((os.environ, "something else"), (alone, "PyTorch sees 1")):
            done = subprocess.run(
                [sys.executable, "-c", code, "2"], env=env, capture_output=True, text=True, timeout=100, check=False
            )
            assert "UsageError: " in done.stderr and wrong in done.stderr
    finally:
        meeting.close()


@pytest.mark.parametrize("knows_mpi", [True, False])
def test_horovod_with_other_ranks_is_refused(monkeypatch, knows_mpi):
    calls: list[str] = []
    fake = types.ModuleType("horovod.tensorflow")
    fake.__dict__.update(
        init=lambda: calls.append("init"),
        shutdown=lambda: calls.append("shutdown"),
        rank=lambda: 0,
        local_rank=lambda: 0,
        size=lambda: 1,
        mpi_built=lambda: knows_mpi,
    )
    monkeypatch.setitem(sys.modules, "horovod.tensorflow", fake)
    monkeypatch.setitem(sys.modules, "horovod", types.SimpleNamespace(tensorflow=fake))
    with pytest.raises(UsageError, match="2 ranks .* 1") as found:
        strategies.get("horovod").collective(2)
    assert ("without MPI" in str(found.value)) is not knows_mpi
    assert calls == ["init", "shutdown"]


def test_wrong_choices_are_refused():
    with pytest.raises(UsageError, match="'nccl'; known: auto, horovod, mirrored, multi_worker"):
        strategies.chosen("nccl", 2)
    with pytest.raises(UsageError, match="'solo' .* 2"):
        strategies.get("solo").collective(2)
