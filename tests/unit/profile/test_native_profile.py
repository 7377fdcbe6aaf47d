"""profile/native.py: pipelines that run natively, part by part; `tfhet profile` and `tfhet plan` without TensorFlow."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fake_clock import FakeClock
from PIL import Image

import tfhet
from tfhet import advice
from tfhet.errors import DataError
from tfhet.events import Event
from tfhet.pipeline import Pipeline
from tfhet.plan.workload import PipelineCost
from tfhet.profile import (
    Effort,
    Profile,
    is_measured_natively,
    load,
    measure_native,
    measure_stored,
    measure_target,
    native,
    repeated,
)
from tfhet.record import Record
from tfhet.report.cost import stage_costs
from tfhet.source import Encoded, ImageFolder, Scalar, TFRecordSource, write_tfrecords
from tfhet.strategies import JobContext

EFFORT = Effort(budget_s=0.05, repeats=2)
CHAIN = "decode(); random_resized_crop(24, 20); random_flip(); dilate(3); one_hot(3); cutmix(); normalize()"
WINDOW = "decode(); random_resized_crop(height=24, width=20); random_flip()"
NAMES = ["read", WINDOW, "dilate()", "one_hot(classes=3)", "cutmix()"]
PIXELS = 24 * 20 * 3


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A short estimate of the cost of an example: these tests need no precision."""
    monkeypatch.setattr(repeated, "PROBE_CPU_S", 0.01)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """20 photographs of three classes."""
    root = tmp_path / "photos"
    for number in range(20):
        path = root / f"class{number % 3}" / f"{number:02}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        noise = np.random.default_rng(number).integers(0, 256, (8, 9, 3), np.uint8)
        Image.fromarray(noise).resize((60 + number, 50)).save(path)
    return root


@pytest.fixture
def pipeline(folder: Path) -> Pipeline:
    return Pipeline(ImageFolder(folder), CHAIN, batch_size=8, shuffle=True, seed=1)


def test_reading_and_each_step_are_measured(pipeline, folder):
    events = list[Event]()
    found = measure_native(pipeline, EFFORT, observer=events.append)
    assert [cost.name for cost in found.costs][:-1] == NAMES and found.costs[-1].name.startswith("normalize")
    assert all(len(cost.cumulative_us) == 2 and min(cost.cumulative_us) > 0 for cost in found.costs)
    assert [len(cost.alone_us) for cost in found.costs] == [0, *[2] * 5] and found.sum_over_whole().n == 2
    assert events[0].fields["parts"] == [cost.name for cost in found.costs]
    assert [event.name for event in events] == ["profile.started", *["profile.round"] * 3]
    sizes = [path.stat().st_size + 8 for path in folder.glob("*/*")]
    assert min(sizes) < found.costs[0].bytes_per_example < max(sizes)
    made = [PIXELS + 8, PIXELS + 8, PIXELS + 12, PIXELS + 12, 4 * PIXELS + 12]
    assert [cost.bytes_per_example for cost in found.costs[1:]] == made
    assert [cost.dtype for cost in found.costs] == ["string", *["uint8"] * 4, "float32"]
    assert Profile.of(Record.from_json(found.record().to_json())) == found


def test_time_of_each_part_is_its_own(pipeline, monkeypatch):
    clock, runs = FakeClock(), list[int]()
    load_of, call_of = ImageFolder.load, native.Chain.__call__

    def loaded(source, ids):
        clock.sleep(0.001 * len(ids))
        return load_of(source, ids)

    def called(chain, images, labels, ids, epoch):
        runs.append(len(ids))
        clock.sleep(0.002 * len(chain._placed) * len(ids))
        return call_of(chain, images, labels, ids, epoch)

    monkeypatch.setattr(clock, "cpu", clock.monotonic)
    monkeypatch.setattr(ImageFolder, "load", loaded)
    monkeypatch.setattr(native.Chain, "__call__", called)
    found = measure_native(pipeline, EFFORT, clock=clock)
    assert [found.us(index) for index in range(6)] == pytest.approx([1000, 6000, *[2000] * 4])
    assert [found.alone_us(index)[0] for index in range(6)] == pytest.approx([1000, 6000, *[2000] * 4])
    assert set(runs) == {8}


def test_plan_page_and_advice_know_the_parts(pipeline):
    found = measure_target(pipeline, EFFORT)
    (cut,) = PipelineCost.of(found).cuts
    assert [part.name for part in stage_costs(found.record(), {}).parts] == [cost.name for cost in found.costs]
    assert found.plane == "feed" and cut.remote_us.value == pytest.approx(found.whole_us)
    assert not any("send examples after" in each.clause for each in advice.of_pipeline(found))


def test_loader_of_a_pipeline_is_measured_natively(pipeline):
    found = measure_target(tfhet.batches(pipeline, job=JobContext("alone", "local")), EFFORT)
    assert [cost.name for cost in found.costs][:5] == NAMES


def test_bad_examples_are_omitted_within_the_limit(pipeline, folder):
    (folder / "class1" / "01.jpg").write_bytes(b"\xff\xd8\xff broken")
    with pytest.raises(DataError, match=r"01\.jpg"):
        measure_native(pipeline, Effort(0.2, 1))
    found = measure_native(replace(pipeline, max_bad_records=1), Effort(0.2, 1))
    assert [cost.name for cost in found.costs][:5] == NAMES


def test_records_are_measured_natively_without_tensorflow(folder, tmp_path, monkeypatch):
    examples = ({"image": path.read_bytes(), "label": 1} for path in sorted(folder.glob("*/*")))
    directory = write_tfrecords(tmp_path / "records", examples, 2, {"image": Encoded(), "label": Scalar("int64")})
    made = Pipeline(TFRecordSource.from_directory(directory), CHAIN, batch_size=8)
    monkeypatch.setattr(native, "has", lambda name: True)
    assert not is_measured_natively(made) and is_measured_natively(replace(made, shuffle=True))
    monkeypatch.setattr(native, "has", lambda name: False)
    assert is_measured_natively(made) and not is_measured_natively(replace(made, cache="/tmp"))
    assert [cost.name for cost in measure_target(made, EFFORT).costs][:5] == NAMES


def test_image_folder_is_a_target(folder):
    made = load(str(folder), batch_size=4)
    assert isinstance(made, Pipeline) and is_measured_natively(made)
    assert made.batch_size == 4 and made.shuffle is True and made.image_stages[0].name == "decode"


WITHOUT = "import sys; sys.modules['tensorflow'] = None; from tfhet.__main__ import main; sys.exit(main())"
TRAIN = """
import sys
import tfhet
from tfhet.source import ImageFolder
pipeline = tfhet.Pipeline(ImageFolder("photos"), "decode(); resize(8, 8); rescale()", batch_size=4, shuffle=True)
if __name__ == "__main__":
    tfhet.batches(pipeline)
"""


def test_commands_need_no_tensorflow(folder, repository):
    there = folder.parent
    (there / "train.py").write_text(TRAIN)
    (there / "blocked").mkdir()
    (there / "blocked" / "tensorflow.py").write_text("raise RuntimeError('TensorFlow was imported')")
    env = {**os.environ, "PYTHONPATH": f"{there / 'blocked'}:{repository}"}

    def run(*words: str) -> str:
        command = [sys.executable, "-c", WITHOUT, *words]
        done = subprocess.run(command, cwd=there, env=env, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    effort = ("--budget_s", "0.05", "--repeats", "2", "--wide")
    for words in (
        ("photos", "--stages", "decode(); resize(8, 8); rescale()"),
        ("train.py:pipeline",),
        ("--script", "train.py", "--json", "profile.json"),
    ):
        shown = run("profile", *words, *effort)
        assert "read" in shown and "decode(); resize(height=8, width=8)" in shown and "rescale()" in shown
    words = ("--cluster", "ml.g5.xlarge", "--data", "ml.c5.xlarge", "--accelerator_ms", "0.001", "--max_hosts", "2")
    planned = run("plan", "--profile", "profile.json", *words, "--wide", "--json", "plan.json")
    assert "1*ml.g5.xlarge+1*ml.c5.xlarge" in planned and "tf.data" not in planned and "worker" not in planned
    assert '"dnn_host_processes"' in (there / "plan.json").read_text()


def test_sample_is_measured_as_stored_images(pipeline, folder, tmp_path):
    found = measure_target(pipeline, EFFORT)
    sizes = [path.stat().st_size for path in folder.glob("*/*")]
    pixels = [(60 + number + 1) // 2 * 25 * 2 + (60 + number) * 50 for number in range(20)]
    assert found.stored is not None
    assert (found.stored.images, found.stored.file_bytes) == (20, round(np.mean(sizes)))
    assert found.stored.stored_bytes == round(np.mean(pixels) + 16)
    assert min(found.stored.file_us, found.stored.stored_us) > 0
    assert Profile.of(Record.from_json(found.record().to_json())) == found
    stored = tfhet.source.from_image_folder(folder, tmp_path / "stored", 1, store=tfhet.source.Store("yuv420"))
    source = TFRecordSource.from_directory(stored)
    assert measure_stored(pipeline.with_stages("decode(); resize(8, 8)")) is not None
    assert measure_stored(Pipeline(source, CHAIN, batch_size=8)) is None  # stored already
    arrays = tfhet.ArraySource(np.zeros((4, 8, 8, 3), np.uint8), np.zeros(4, np.int64))
    assert measure_stored(Pipeline(arrays, "random_flip()", batch_size=2)) is None
