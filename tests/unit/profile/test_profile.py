"""profile/parts.py, rounds.py, result.py, target.py and `tfhet profile`."""

from __future__ import annotations

from pathlib import Path

import pytest
import tensorflow as tf

from tfhet.__main__ import main
from tfhet.errors import UsageError
from tfhet.events import Event
from tfhet.pipeline import Pipeline
from tfhet.profile import Cost, Effort, Profile, load, measure, parts_of_dataset, parts_of_pipeline, rounds
from tfhet.record import Record
from tfhet.source import SyntheticSource

SMALL = Effort(budget_s=0.05, repeats=2)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A short estimate of the cost of an example: these tests need no precision."""
    monkeypatch.setattr(rounds, "PROBE_CPU_S", 0.01)


def pipeline(stages: str) -> Pipeline:
    return Pipeline(SyntheticSource(512, 4, shape=(8, 6, 3)), stages, 16)


def plain() -> tf.data.Dataset:
    def double(x: tf.Tensor) -> tf.Tensor:
        return tf.cast(x, tf.float32) * 2.0

    numbers = tf.data.Dataset.range(4096).shuffle(10)
    made = numbers.map(double, num_parallel_calls=tf.data.AUTOTUNE).batch(8)
    return made.map(lambda x: tf.ensure_shape(tf.numpy_function(abs, [x], tf.float32), [None])).prefetch(1)


def test_parts_of_a_pipeline_are_its_steps():
    parts = parts_of_pipeline(pipeline("dilate(3); random_rotation(0.1); random_zoom(0.1); rescale(); dilate(3)"))
    names = "; ".join(part.name for part in parts).split("; ")
    stages = ["dilate", "random_rotation", "random_zoom", "dilate", "rescale"]
    assert [word.split("(")[0] for word in names] == ["read, parse and batch", *stages]
    assert len({part.name for part in parts}) == len(parts)
    for before, part in zip(parts, parts[1:], strict=False):
        assert part.alone is not None and part.alone(before.upto).element_spec == part.upto.element_spec


def test_parts_of_a_dataset_are_its_transformations():
    parts = parts_of_dataset(plain())
    names = ["source Range", "1 Shuffle", "2 ParallelMap double, Batch", "4 Map", "5 Prefetch"]
    assert [part.name for part in parts] == names
    assert [part.examples for part in parts] == [1, 1, 8, 8, 8]
    assert ["PyFunc" in part.ops for part in parts] == [False, False, False, True, False]
    assert [part.parallel for part in parts] == [None, None, True, False, None]
    made = tf.data.Dataset.range(4).interleave(lambda i: tf.data.Dataset.range(i + 1)).map(lambda x: x + 1)
    assert [part.name for part in parts_of_dataset(made)] == ["source Interleave", "1 Map"]


@pytest.mark.parametrize("parts", [lambda: parts_of_pipeline(pipeline("rescale()")), lambda: parts_of_dataset(plain())])
def test_all_parts_are_measured(parts):
    parts, events = parts(), list[Event]()
    found = measure("x", parts, SMALL, observer=events.append)
    assert [cost.name for cost in found.costs] == [part.name for part in parts]
    assert all(len(cost.cumulative_us) == 2 and min(cost.cumulative_us) > 0 for cost in found.costs)
    assert found.sum_over_whole().n == 2
    assert [event.name for event in events] == ["profile.started", *["profile.round"] * 3]
    assert events[-1].fields == {"done": 2, "total": 2}
    assert Profile.of(Record.from_json(found.record().to_json())) == found
    if found.plane == "tf_service" and len(parts) == 2:  # image, label and id
        assert [cost.bytes_per_example for cost in found.costs] == [8 * 6 * 3 + 24, 8 * 6 * 3 * 4 + 24]
        assert [cost.dtype for cost in found.costs] == ["uint8", "float32"] and {c.examples for c in found.costs} == {
            16
        }


def test_parts_add_up_to_the_whole():
    costs = (
        Cost("source", (10.0, 11.0, 12.0)),
        Cost("blur(3)", (30.0, 32.0, 31.0), alone_us=(22.0, 22.0, 22.0)),
        Cost("blur(5)", (40.0, 41.0, 42.0)),
    )
    found = Profile("x", costs)
    assert found.whole_us == 41.0 and found.share(1) == pytest.approx(20 / 41)
    assert [found.us(i) for i in range(3)] == [11.0, 20.0, 10.0]
    figures = found.figures()
    names = ("source.us", "blur.us", "blur.alone_us", "blur_2.us", "whole.us", "sum_over_whole")
    assert list(figures) == [f"profile.{name}" for name in names]
    assert figures["profile.sum_over_whole"].value == pytest.approx((10 + 22 + 10) / 41, rel=0.05)


def test_empty_dataset_and_effort_are_refused():
    nothing = tf.data.Dataset.range(0).map(lambda x: x + 1)
    for dataset, effort in ((nothing, SMALL), (plain(), Effort(1.0, 0))):
        with pytest.raises(UsageError):
            measure("x", parts_of_dataset(dataset), effort)


def test_target_is_loaded_by_its_name(tmp_path: Path):
    file = tmp_path / "mine.py"
    file.write_text("import tensorflow as tf\nnumber = 3\ndef dataset():\n    return tf.data.Dataset.range(5)\n")
    assert isinstance(load(f"{file}:dataset"), tf.data.Dataset)
    made = load("synthetic", "rescale()", 4)
    assert isinstance(made, Pipeline) and made.batch_size == 4
    for target, stages, named in (
        (f"{file}:absent", None, "'absent'.*number, dataset"),
        (f"{file}:number", None, "int"),
        (f"{tmp_path}/other.py:dataset", None, r"other\.py"),
        (str(file), None, r"mine\.py:dataset"),
        (f"{file}:dataset", "rescale()", "--stages"),
    ):
        with pytest.raises(UsageError, match=named):
            load(target, stages)


def test_command_prints_and_records(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    words = ["profile", "synthetic", "--stages", "rescale()", "--batch_size", "16", "--budget_s", "0.1"]
    record = tmp_path / "p.json"
    assert main([*words, "--repeats", "2", "--json", str(record)]) == 0
    out, err = capsys.readouterr()
    assert "read, parse and batch" in out and "rescale()" in out and "[profile] 2 of 2 rounds" in err
    assert {"profile.rescale.us", "profile.whole.us", "profile.sum_over_whole"} <= Record.read(record).figures.keys()


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["synthetic", "--script", "a.py"],
        ["--script", "a.py", "--stages", "rescale()"],
        ["--script", "none.py"],
        ["synthetic", "--budget_s", "0"],
    ],
)
def test_wrong_use_ends_with_2(words, capsys):
    assert main(["profile", *words]) == 2
    assert "--budget_s" in capsys.readouterr().err or "0" not in words
