"""Contract of every collective; ranks which share the work unequally learn what one rank learns alone."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pickle
import re
import subprocess
import sys
import types
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tfhet import strategies
from tfhet.cluster import Rank, keep_free
from tfhet.errors import UsageError
from tfhet.strategies import OWN
from tfhet.strategies.solo import SoloCollective
from tfhet.strategies.tensorflow.tf_config import Tasks

SCRIPT = Path(__file__).with_name("collective_ranks.py")
LIMIT_S = 240
RANKS = 2


def solo() -> list[dict[str, Any]]:
    spec = importlib.util.spec_from_file_location("collective_ranks", SCRIPT)
    assert spec is not None and spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    return [script.everything(SoloCollective())]


def by_meeting(kind: str, folder: Path) -> list[dict[str, Any]]:
    """Ranks of a strategy that has a meeting."""
    strategy = strategies.get(kind)
    meeting = strategy.meeting(["localhost"], RANKS, OWN)
    assert meeting is not None
    meeting.load()
    order = meeting.open("127.0.0.1", "lo", "127.0.0.1", ())
    try:
        ranks = [Rank(rank, RANKS, rank, RANKS, "tfhet") for rank in range(RANKS)]
        return together(kind, folder, [strategy.environment(order, "localhost", rank, os.environ) for rank in ranks])
    finally:
        meeting.close()


def multi_worker(kind: str, folder: Path) -> list[dict[str, Any]]:
    with contextlib.ExitStack() as stack:
        kept = [stack.enter_context(keep_free()) for _ in range(RANKS)]
        tasks = Tasks({"worker": [f"127.0.0.1:{each.getsockname()[1]}" for each in kept]})
        return together(kind, folder, [tasks.of_task("worker", rank) for rank in range(RANKS)])


def together(kind: str, folder: Path, variables: Sequence[Mapping[str, str]]) -> list[dict[str, Any]]:
    """The results of RANKS processes, which get `variables` to find each other."""
    ranks: list[subprocess.Popen] = []
    try:
        for rank in range(RANKS):
            env = {**os.environ, **variables[rank], "OMP_NUM_THREADS": "1"}
            command = [sys.executable, str(SCRIPT), kind, str(RANKS), str(folder / f"{rank}.pickle")]
            with (folder / f"{rank}.log").open("wb") as log:
                ranks.append(subprocess.Popen(command, env=env, stdout=log, stderr=subprocess.STDOUT))
        codes = [rank.wait(LIMIT_S) for rank in ranks]
        logs = "\n".join((folder / f"{rank}.log").read_text()[-3000:] for rank in range(RANKS))
        assert codes == [0] * RANKS, logs
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()
    return [pickle.loads((folder / f"{rank}.pickle").read_bytes()) for rank in range(RANKS)]


@pytest.fixture(scope="module")
def alone() -> dict[str, Any]:
    return solo()[0]


MARKED = tuple(pytest.param(kind, marks=getattr(pytest.mark, kind)) for kind in ("horovod", "torch"))
STARTED = {"horovod": by_meeting, "torch": by_meeting, "multi_worker": multi_worker}


@pytest.fixture(scope="module", params=("solo", *MARKED, pytest.param("multi_worker", marks=pytest.mark.slow)))
def ranks(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[dict[str, Any]]]:
    """The result of each rank."""
    if request.param == "solo":
        yield [request.getfixturevalue("alone")]
    else:
        yield STARTED[request.param](request.param, tmp_path_factory.mktemp(request.param))


def facts(ranks: list[dict[str, Any]], name: str) -> list[Any]:
    return [rank["facts"][name] for rank in ranks]


def trained(ranks: list[dict[str, Any]], name: str) -> list[Any]:
    return [rank["trained"][name] for rank in ranks]


def test_ranks_know_their_place(ranks):
    assert facts(ranks, "place") == [(rank, len(ranks)) for rank in range(len(ranks))]


def test_a_sum_is_over_all_ranks_and_the_same_on_each(ranks):
    size = len(ranks)
    for first, second in facts(ranks, "sum"):
        np.testing.assert_array_equal(first, [sum(range(1, size + 1)), 2.0 * size])
        assert second == 0.5 * size
    for in_graph in facts(ranks, "sum in a graph"):
        assert in_graph == [2.0 * sum(rank + turn for rank in range(size)) for turn in (1, 2)]
    for variable in facts(ranks, "sum of variables"):
        np.testing.assert_array_equal(variable, [sum(rank + 5.0 for rank in range(size))])


def test_a_name_may_be_used_again(ranks):
    expected = [float(sum(rank + turn for rank in range(len(ranks)))) for turn in range(3)]
    assert facts(ranks, "sum again") == [expected] * len(ranks)


def test_a_broadcast_gives_everybody_what_rank_0_has(ranks):
    assert facts(ranks, "broadcast") == [[[5.0], 7]] * len(ranks)


def test_a_total_is_exact_for_large_numbers(ranks):
    size = len(ranks)
    assert facts(ranks, "total") == [[sum(range(1, size + 1)), 0.5 * size, float(size * (1 << 40))]] * size


def test_what_is_gathered_comes_rank_by_rank_whatever_its_length(ranks):
    expected = np.concatenate([np.arange(rank * 2) + (1 << 40) * (rank + 1) for rank in range(len(ranks))])
    for found, nothing in zip(facts(ranks, "gather"), facts(ranks, "gather nothing"), strict=True):
        np.testing.assert_array_equal(found, expected)
        assert found.dtype == np.int64
        assert nothing.shape == (0,) and nothing.dtype == np.int64


def test_what_is_for_one_rank_comes_there_from_all_in_their_order(ranks):
    if "alltoall" not in ranks[0]["facts"]:
        return  # a collective need not have it
    for to, (found, nothing) in enumerate(zip(facts(ranks, "alltoall"), facts(ranks, "alltoall nothing"), strict=True)):
        expected = [to + (rank << 40) for rank in range(len(ranks)) for _ in range(to + 1 if to else 0)]
        np.testing.assert_array_equal(found, expected)
        assert found.dtype == np.int64
        assert nothing.shape == (0,) and nothing.dtype == np.int64


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_unequal_ranks_and_dry_ones_learn_what_one_rank_learns_from_the_union(ranks, alone, optimizer):
    for counts, weights in zip(
        trained(ranks, f"{optimizer} counts"), trained(ranks, f"{optimizer} weights"), strict=True
    ):
        assert [count[0] for count in counts] == [7, 3, 0]
        np.testing.assert_allclose(counts, alone["trained"][f"{optimizer} counts"], rtol=1e-5)
        for mine, single in zip(weights, alone["trained"][f"{optimizer} weights"], strict=True):
            np.testing.assert_allclose(mine, single, rtol=1e-4, atol=1e-6)


def test_a_step_without_examples_changes_nothing(ranks):
    assert trained(ranks, "adam iterations") == [2] * len(ranks)


def test_ranks_end_with_the_same_weights_bit_for_bit(ranks):
    for name in ("sgd digest", "adam digest", "scaled digest"):
        assert len(set(trained(ranks, name))) == 1
    assert len({rank["looped"]["digest"] for rank in ranks}) == 1


def test_accumulated_batches_count_like_one_batch_of_all(ranks, alone):
    for weights in trained(ranks, "accumulated"):
        for mine, single in zip(weights, alone["trained"]["accumulated"], strict=True):
            np.testing.assert_allclose(mine, single, rtol=1e-4, atol=1e-6)


def test_ranks_share_one_loss_scale_after_a_broadcast(ranks, alone):
    for weights in trained(ranks, "scaled"):
        for mine, single in zip(weights, alone["trained"]["scaled"], strict=True):
            np.testing.assert_allclose(mine, single, rtol=1e-4, atol=1e-6)


def test_moving_statistics_become_their_mean(ranks):
    before = trained(ranks, "statistics before")
    for found in trained(ranks, "statistics"):
        for index, value in enumerate(found):
            np.testing.assert_allclose(value, np.mean([rank[index] for rank in before], axis=0), rtol=1e-6)


def test_an_epoch_ends_for_all_ranks_when_all_are_dry_and_no_example_is_lost(ranks):
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


def test_validation_covers_all_ranks(ranks, alone):
    found = ranks[0]["looped"]["results"][-1]
    assert set(found) >= {"val_loss", "val_accuracy"}
    assert all(rank["looped"]["results"][-1]["val_loss"] == found["val_loss"] for rank in ranks)
    assert 0.0 <= found["val_accuracy"] <= 1.0


def test_rank_0_alone_prints_each_metric_line_once(ranks):
    steps = [int(found) for line in ranks[0]["looped"]["lines"] for found in re.findall(r" step=(\d+) ", line)]
    assert steps == list(range(4, ranks[0]["looped"]["step"] + 1, 4))
    assert all(rank["looped"]["lines"] == [] for rank in ranks[1:])


# Choosing one


def test_one_rank_needs_no_horovod(monkeypatch):
    monkeypatch.setitem(sys.modules, "horovod.tensorflow", None)
    assert isinstance(strategies.chosen("auto", 1).collective(1), SoloCollective)
    assert isinstance(strategies.chosen("solo", 1).collective(1), SoloCollective)


@pytest.mark.parametrize("kind", ["auto", "horovod"])
def test_several_ranks_without_horovod_are_told_what_to_install(monkeypatch, kind):
    monkeypatch.setitem(sys.modules, "horovod.tensorflow", None)
    with pytest.raises(UsageError, match=r"2 ranks, which needs Horovod .*tfhet\[horovod\]"):
        strategies.chosen(kind, 2).collective(2)


def test_ranks_of_torch_without_pytorch_are_told_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(UsageError, match="PyTorch is not installed: pip install torch"):
        strategies.get("torch").collective(2)


@pytest.mark.torch
def test_ranks_of_torch_need_its_variables_and_their_number():
    code = "import sys; from tfhet import strategies; strategies.get('torch').collective(int(sys.argv[1]))"
    meeting = strategies.get("torch").meeting(["a"], 1, OWN)
    try:
        order = meeting.open("127.0.0.1", "lo", "127.0.0.1", ())
        alone = strategies.get("torch").environment(order, "a", Rank(0, 1, 0, 1, "tfhet"), os.environ)
        for env, wrong in ((os.environ, "started by something else"), (alone, "has 2 ranks and PyTorch sees 1")):
            done = subprocess.run(
                [sys.executable, "-c", code, "2"], env=env, capture_output=True, text=True, timeout=100, check=False
            )
            assert "UsageError: " in done.stderr and wrong in done.stderr
    finally:
        meeting.close()


@pytest.mark.parametrize("knows_mpi", [True, False])
def test_horovod_that_sees_other_ranks_than_the_job_is_refused_and_left(monkeypatch, knows_mpi):
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
    with pytest.raises(UsageError, match="the job has 2 ranks and Horovod sees 1") as found:
        strategies.get("horovod").collective(2)
    assert ("without MPI" in str(found.value)) is not knows_mpi
    assert calls == ["init", "shutdown"]


def test_wrong_choices_are_refused():
    with pytest.raises(
        UsageError,
        match="unknown strategy 'nccl'; known: auto, horovod, mirrored, multi_worker, parameter_server, ray, solo",
    ):
        strategies.chosen("nccl", 2)
    with pytest.raises(UsageError, match="'solo' is for one rank, and this job has 2"):
        strategies.get("solo").collective(2)
