"""The profile of a Ray data set, without Ray: costs from runs of its operators."""

from __future__ import annotations

import contextlib
import sys
import types
from dataclasses import dataclass
from typing import Any

import pytest

from tfhet import planes
from tfhet.__main__ import main
from tfhet.advice import of_pipeline
from tfhet.errors import UsageError
from tfhet.planes.ray import MARK, Execution, alone, alone_variables
from tfhet.profile import Effort, Profile, ray_data
from tfhet.profile.ray_data import measure_chain, measure_ray, names_ray
from tfhet.profile.target import makes_ray, ray_data_set
from tfhet.record import Record

EFFORT = Effort(budget_s=6.0, repeats=2)


@dataclass
class Runs:
    """Runs of data sets that are numbers: CPU milliseconds of an input of 10 rows."""

    inputs: int = 1000
    kept: float = 1.0
    """Share of the rows that the last operator lets through."""

    def __post_init__(self) -> None:
        self.asked: list[tuple[int, int]] = []

    def __call__(self, data: int, most: int) -> Execution:
        self.asked.append((data, most))
        used = min(most, self.inputs)
        rows = int(10 * used * (self.kept if data == 8 else 1.0))
        tasks_s = 1e-3 * data * used
        return Execution(self.inputs, rows, used, 100 * rows, "uint8", tasks_s, 2e-3 * used, tasks_s + 1e-3 * used)


CHAIN = [("ReadParquet", 2), ("MapBatches(blur)", 7), ("MapBatches(blur)", 8)]


def measured(runs: Runs, effort: Effort = EFFORT, **options: int) -> Profile:
    return measure_chain(CHAIN, runs, effort, **options)


def test_operators_cost_what_they_add():
    found = measured(Runs(), batch_size=32)
    assert [cost.name for cost in found.costs] == ["ReadParquet", "MapBatches(blur)", "MapBatches(blur) (2)"]
    assert [found.us(part) for part in range(3)] == pytest.approx([200.0, 500.0, 100.0])
    assert [(cost.bytes_per_example, cost.dtype) for cost in found.costs] == [(100, "uint8")] * 3
    assert found.costs[-1].examples == 32 and found.plane == "ray"
    assert {end: set(map(round, us)) for end, us in found.beside_us.items()} == {"reader": {200}, "server": {100}}
    half = measured(Runs(kept=0.5))
    assert [half.us(part) for part in range(3)] == pytest.approx([400.0, 1000.0, 200.0])
    assert half.costs[-1].examples == 5, "a block is a batch"
    (advised,) = of_pipeline(measured(Runs()))
    assert advised.kind == "dominant_python" and "62%" in advised.clause


def test_operators_share_inputs_and_budget():
    runs = Runs()
    measured(runs)
    rounds = runs.asked[-9:]
    assert [data for data, _ in rounds] == [2, 7, 8] * 3
    (inputs,) = {most for _, most in rounds}
    of_an_input_s = (8 + 1 + 2) * 1e-3
    assert EFFORT.budget_s / 2 < inputs * of_an_input_s * 3 * 2 < EFFORT.budget_s * 2
    few = Runs(inputs=3)
    measured(few)
    assert {most for _, most in few.asked[-9:]} == {3}


def test_first_inputs_may_have_no_rows():
    found = measured(Runs(kept=0.04), Effort(budget_s=1e-3, repeats=1))
    assert found.whole_us == pytest.approx(4 * 8000.0), "four inputs give one row"
    with pytest.raises(UsageError):
        measured(Runs(inputs=4, kept=0.0))


def test_record_of_ray_makes_a_plan(tmp_path, capsys):
    path = measured(Runs(), batch_size=32).record().write(tmp_path / "profile.json")
    record = Record.read(path)
    found = {end: list(us) for end, us in Profile.of(record).beside_us.items()}
    expected = measured(Runs(), batch_size=32).beside_us
    assert found == {end: pytest.approx(us, rel=1e-4) for end, us in expected.items()}
    assert record.figures["profile.beside.reader.us"].value == pytest.approx(200.0)
    words = ["plan", "--profile", str(path), "--cluster", "ml.g5.xlarge", "--accelerator_ms", "30", "--data", "ml.c5"]
    assert main([*words, "--max_hosts", "3"]) == 0
    said = capsys.readouterr().out
    assert planes.get("ray").costs().source in said and "32 examples" in said


def with_ray(shard):
    import ray

    return ray.data.range(3)


def without_ray(shard):
    return [shard]


def test_functions_that_name_ray_are_found(monkeypatch):
    assert not names_ray(without_ray)
    monkeypatch.setitem(sys.modules, "ray", types.ModuleType("ray"))
    assert names_ray(with_ray) and not names_ray(without_ray)
    for text in ("import ray.data as rd\n\ndef make(shard): ...", "def make(shard):\n    from ray.data import range"):
        within: dict[str, Any] = {}
        monkeypatch.setitem(sys.modules, "ray.data", types.ModuleType("ray.data"))
        monkeypatch.setattr(sys.modules["ray"], "data", sys.modules["ray.data"], raising=False)
        exec(text, within)
        assert names_ray(within["make"])


def test_other_results_are_measured_otherwise(monkeypatch):
    monkeypatch.setattr(ray_data, "alone", contextlib.nullcontext)
    with pytest.raises(UsageError, match="list"):
        measure_ray(lambda: [1], EFFORT)
    other = measured(Runs())
    assert measure_ray(lambda: [1], EFFORT, otherwise=lambda: other) is other


def test_target_in_a_file_that_imports_ray(tmp_path, monkeypatch):
    file = tmp_path / "makes_rows.py"
    file.write_text("def plain():\n    return 'plain'\ndef sharded(shard, rows=3):\n    return shard.count, rows\n")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name)
    assert not makes_ray(f"{file}:plain") and not makes_ray(str(tmp_path))
    file.write_text(file.read_text() + "if __name__ == '__main__':\n    import ray\n")
    assert makes_ray(f"{file}:plain")
    monkeypatch.undo()
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert ray_data_set(f"{file}:plain") == "plain" and ray_data_set(f"{file}:sharded") == (1, 3)
    assert sys.modules.pop("makes_rows").__file__ == str(file)


def ray_that(monkeypatch, is_initialized):
    monkeypatch.setitem(sys.modules, "ray", types.SimpleNamespace(is_initialized=lambda: is_initialized))
    monkeypatch.setitem(sys.modules, "ray.data", types.ModuleType("ray.data"))


def test_ray_starts_only_in_its_own_process(tmp_path, monkeypatch):
    ray_that(monkeypatch, is_initialized=False)
    monkeypatch.delenv(MARK, raising=False)
    with pytest.raises(UsageError, match="tfhet profile"), alone():
        pass
    env = {"HOME": "/root", "RAY_ADDRESS": "far:6379"}
    one, other = (alone_variables(env, tmp_path) for _ in range(2))
    assert one[MARK] == str(tmp_path) and one["RAY_AUTH_MODE"] == "token"
    assert one["HOME"] == "/root" and "RAY_ADDRESS" not in one
    assert one["RAY_AUTH_TOKEN"] != other["RAY_AUTH_TOKEN"]


def test_running_ray_is_used(monkeypatch):
    ray_that(monkeypatch, is_initialized=True)
    with alone():
        pass
