"""The rest of the room: parts, rounds, results and the command."""

from __future__ import annotations

from pathlib import Path

import pytest
import tensorflow as tf

from tfhet.__main__ import main
from tfhet.errors import UsageError
from tfhet.events import Event
from tfhet.placement import Pipeline
from tfhet.profile import Cost, Effort, Profile, load, measure, parts_of_dataset, parts_of_pipeline, rounds
from tfhet.record import Record
from tfhet.source import SyntheticSource

SMALL = Effort(budget_s=0.05, repeats=2)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A short estimate of an example's cost: these tests look at what is measured, not at how exactly."""
    monkeypatch.setattr(rounds, "PROBE_CPU_S", 0.01)


def pipeline(stages: str) -> Pipeline:
    return Pipeline(SyntheticSource(512, 4, shape=(8, 6, 3)), stages, 16)


def plain() -> tf.data.Dataset:
    def double(x: tf.Tensor) -> tf.Tensor:
        return tf.cast(x, tf.float32) * 2.0

    numbers = tf.data.Dataset.range(4096).shuffle(10)
    made = numbers.map(double, num_parallel_calls=tf.data.AUTOTUNE).batch(8)
    return made.map(lambda x: tf.ensure_shape(tf.numpy_function(abs, [x], tf.float32), [None])).prefetch(1)


def test_the_parts_of_a_pipeline_are_its_reading_and_its_steps_as_they_run():
    parts = parts_of_pipeline(pipeline("dilate(3); random_rotation(0.1); random_zoom(0.1); rescale(); dilate(3)"))
    assert [part.name.split("(")[0] for part in parts][0] == "read, parse and batch"
    stages = "; ".join(part.name for part in parts[1:])
    assert [word.split("(")[0] for word in stages.split("; ")] == [
        "dilate",
        "random_rotation",
        "random_zoom",
        "dilate",
        "rescale",
    ]
    assert len({part.name for part in parts}) == len(parts)
    for before, part in zip(parts, parts[1:], strict=False):
        assert part.alone is not None
        assert part.alone(before.upto).element_spec == part.upto.element_spec


def test_the_parts_of_a_plain_data_set_are_its_transformations_from_the_source_on():
    parts = parts_of_dataset(plain())
    assert [part.name for part in parts] == [
        "source Range",
        "1 Shuffle",
        "2 ParallelMap double, Batch",
        "4 Map",
        "5 Prefetch",
    ]
    assert [part.examples for part in parts] == [1, 1, 8, 8, 8]
    assert ["PyFunc" in part.ops for part in parts] == [False, False, False, True, False]
    assert [part.parallel for part in parts] == [None, None, True, False, None]


def test_files_that_are_read_in_turn_are_all_the_source():
    made = tf.data.Dataset.range(4).interleave(lambda i: tf.data.Dataset.range(i + 1)).map(lambda x: x + 1)
    assert [part.name for part in parts_of_dataset(made)] == ["source Interleave", "1 Map"]


def test_both_kinds_are_measured_and_tell_how_far_they_are():
    for parts in (parts_of_pipeline(pipeline("random_flip(); rescale()")), parts_of_dataset(plain())):
        told: list[Event] = []
        found = measure("x", parts, SMALL, observer=told.append)
        assert [cost.name for cost in found.costs] == [part.name for part in parts]
        assert all(len(cost.cumulative_us) == 2 and min(cost.cumulative_us) > 0 for cost in found.costs)
        assert found.sum_over_whole().n == 2
        assert [event.name for event in told] == ["profile.started", *["profile.round"] * 3]
        assert told[-1].fields == {"done": 2, "total": 2}


def test_bytes_are_those_of_one_example_with_its_label_and_id():
    found = measure("x", parts_of_pipeline(pipeline("rescale()")), Effort(0.05, 1))
    assert [cost.bytes_per_example for cost in found.costs] == [8 * 6 * 3 + 24, 8 * 6 * 3 * 4 + 24]


def test_the_parts_add_up_to_the_whole_and_are_held_against_it_alone():
    found = Profile(
        "x",
        (
            Cost("source", (10.0, 11.0, 12.0)),
            Cost("blur(3)", (30.0, 32.0, 31.0), alone_us=(22.0, 22.0, 22.0)),
            Cost("blur(5)", (40.0, 41.0, 42.0)),
        ),
    )
    assert found.whole_us == 41.0
    assert [found.us(i) for i in range(3)] == [11.0, 20.0, 10.0]
    assert found.share(1) == pytest.approx(20 / 41)
    figures = found.figures()
    assert list(figures) == [
        "profile.source.us",
        "profile.blur.us",
        "profile.blur.alone_us",
        "profile.blur_2.us",
        "profile.whole.us",
        "profile.sum_over_whole",
    ]
    assert figures["profile.sum_over_whole"].value == pytest.approx((10 + 22 + 10) / 41, rel=0.05)


def test_an_empty_data_set_and_effort_out_of_range_are_refused():
    nothing = tf.data.Dataset.range(0).map(lambda x: x + 1)
    with pytest.raises(UsageError, match="has no elements"):
        measure("x", parts_of_dataset(nothing), SMALL)
    with pytest.raises(UsageError, match="at least 1 round"):
        measure("x", parts_of_dataset(plain()), Effort(1.0, 0))


def test_a_file_gives_its_pipeline_or_says_what_it_has(tmp_path: Path):
    file = tmp_path / "mine.py"
    file.write_text("import tensorflow as tf\nnumber = 3\ndef dataset():\n    return tf.data.Dataset.range(5)\n")
    assert isinstance(load(f"{file}:dataset"), tf.data.Dataset)
    for target, said in (
        (f"{file}:absent", "has no 'absent'; it has tf, number, dataset"),
        (f"{file}:number", "is a int; wanted a Pipeline or"),
        (f"{tmp_path}/other.py:dataset", "no such file"),
        (str(file), "which pipeline of"),
    ):
        with pytest.raises(UsageError, match=said):
            load(target)
    with pytest.raises(UsageError, match="--stages needs a source"):
        load(f"{file}:dataset", "rescale()")
    made = load("synthetic", "rescale()", 4)
    assert isinstance(made, Pipeline) and made.batch_size == 4


def test_the_command_prints_the_table_and_writes_the_record(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    words = ["profile", "synthetic", "--stages", "random_flip(); rescale()", "--batch_size", "16"]
    words += ["--budget_s", "0.3", "--repeats", "2"]
    record = tmp_path / "p.json"
    assert main([*words, "--json", str(record)]) == 0
    told = capsys.readouterr()
    assert "read, parse and batch" in told.out and "rescale()" in told.out and "the whole" in told.out
    assert "The parts alone sum to" in told.out
    assert "[profile] 2 of 2 rounds" in told.err
    figures = Record.read(record).figures
    assert {"profile.rescale.us", "profile.whole.us", "profile.sum_over_whole"} <= figures.keys()
    assert main(["profile", "synthetic", "--budget_s", "0"]) == 2


def test_a_profile_is_read_back_from_its_record() -> None:
    found = measure("small", parts_of_pipeline(pipeline("dilate(3); rescale()")), SMALL)
    assert Profile.of(Record.from_json(found.record().to_json())) == found
    assert [cost.dtype for cost in found.costs] == ["uint8", "uint8", "float32"]
    assert {cost.examples for cost in found.costs} == {16}
