from __future__ import annotations

import functools
import json
import re
import runpy
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from tfhet.cluster import host_paths
from tfhet.errors import DataError, UsageError
from tfhet.record import RunFolder, Timeline
from tfhet.source import Encoded, Raw, Scalar, write_tfrecords
from tfhet.stages import ImageSpec, PlacedStage, chain, parse
from tfhet.strategies import JobContext
from tfhet.trainer.__main__ import main
from tfhet.trainer.build import build, certain
from tfhet.trainer.checkpoint import Checkpoints
from tfhet.trainer.emulated import EmulatedAccelerator
from tfhet.trainer.settings import Settings

QUICK = ["--model", "small_cnn", "--chain", "rescale()", "--shuffle", "0", "--log_every", "2", "--batch_size", "16"]
SYNTHETIC = ["--data", "synthetic:48:4", *QUICK]
FEATURES = {"image": Raw((8, 8, 1)), "label": Scalar()}


@pytest.fixture(autouse=True)
def _one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches come in the same order every time."""
    monkeypatch.setattr("tfhet.strategies.job.os.cpu_count", lambda: 1)


def env(base: Path) -> dict[str, str]:
    return {"SAGEMAKER_BASE_DIR": str(base)}


def channel(base: Path, name: str, shards: int, classes: int = 3, examples: int = 24) -> Path:
    rng = np.random.default_rng(0)
    return write_tfrecords(
        base / "input" / "data" / name,
        ({"image": rng.integers(0, 256, (8, 8, 1), np.uint8), "label": i % 3} for i in range(examples)),
        shards,
        FEATURES,
        classes=[str(c) for c in range(classes)],
    )


@functools.cache
def photo(index: int) -> bytes:
    """A JPEG image, of another size for each index."""
    image = np.random.default_rng(index).integers(0, 256, (90 + 20 * index, 100, 3)).astype(np.uint8)
    return tf.io.encode_jpeg(image).numpy()


def photo_channel(base: Path, name: str, count: int, classes: tuple[str, ...]) -> Path:
    examples = ({"image": photo(index), "label": index % len(classes)} for index in range(count))
    features = {"image": Encoded(), "label": Scalar()}
    return write_tfrecords(base / "input" / "data" / name, examples, 1, features, classes=classes)


def built(base: Path, *argv: str, job: JobContext | None = None):
    return build(Settings.parse(argv), job or JobContext("job", "local"), host_paths(env(base)))


def exported(base: Path) -> list[np.ndarray]:
    """The variables in the exported model."""
    written = tf.train.load_checkpoint(str(base / "model" / "1" / "variables" / "variables"))
    names = [name for name in sorted(written.get_variable_to_shape_map()) if name.endswith("VARIABLE_VALUE")]
    assert names
    return [written.get_tensor(name) for name in names]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three epochs in one go."""
    base = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tfhet.strategies.job.os.cpu_count", lambda: 1)
        assert main([*SYNTHETIC, "--epochs", "3"], env(base)) == 0
    return base


def test_run_leaves_model_checkpoints_boards_and_record(whole):
    assert (whole / "model" / "1" / "saved_model.pb").is_file()
    names = [path.name for path in sorted((whole / "checkpoints").iterdir())]
    assert names == [*(f"checkpoint-0001-{step:010d}" for step in (3, 6, 9)), "owner.json"]
    assert list((whole / "output" / "tensorboard").glob("events.*"))
    summary = RunFolder(whole / "output" / "data" / "tfhet").read_summary()
    assert (summary.steps, summary.batch_size, summary.ranks, summary.mode) == (9, 16, 1, "local")
    assert [epoch["once"] for epoch in summary.epochs] == [48, 48, 48]
    assert summary.stages_where == {"rescale()": "trainer"}
    assert summary.bytes_per_example is None
    assert set(summary.metrics) == {"loss", "accuracy"}
    assert summary.first_batch_s > 0 and summary.step_ms is not None
    text = RunFolder(whole / "output" / "data" / "tfhet").summary_path.read_text()
    assert json.loads(text, parse_constant=pytest.fail)["schema"] == 1


@pytest.fixture
def kept(whole: Path, tmp_path: Path) -> Path:
    """A new host's directory with the checkpoints of `whole`."""
    shutil.copytree(whole / "checkpoints", tmp_path / "checkpoints")
    return tmp_path


def test_resumed_run_reaches_the_same_variables(whole, kept, capsys):
    shutil.rmtree(kept / "checkpoints" / "checkpoint-0001-0000000009")
    assert main([*SYNTHETIC, "--epochs", "3"], env(kept)) == 0
    said = capsys.readouterr().out
    assert "[tfhet] resumed at epoch=2 step=6" in said
    assert re.findall(r"step=(\d+) epoch=(\d+)", said) == [("8", "2")]
    assert re.findall(r"end of epoch=(\d) steps=3 examples=48", said) == ["2"]
    for mine, other in zip(exported(kept), exported(whole), strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-5, atol=1e-7)
    assert RunFolder(kept / "output" / "data" / "tfhet").read_summary().steps == 9


def test_complete_run_only_exports_its_model(whole, kept):
    assert main([*SYNTHETIC, "--epochs", "3"], env(kept)) == 0
    for mine, other in zip(exported(kept), exported(whole), strict=True):
        np.testing.assert_array_equal(mine, other)


def test_run_may_start_again_and_leave_nothing(kept, capsys):
    argv = ["--resume", "False", "--export", "False", "--checkpoint_every_epochs", "0", "--audit", "False"]
    assert main([*SYNTHETIC, *argv, "--epochs", "1"], env(kept)) == 0
    said = capsys.readouterr().out
    assert "resumed" not in said and "end of epoch=0 steps=3" in said and "once=" not in said
    assert not (kept / "model").exists()
    assert len(list((kept / "checkpoints").glob("before-*"))) == 3


def test_steps_accumulation_and_float16_run_together(tmp_path, capsys):
    argv = ["--steps-per-epoch", "2", "--accumulate", "2", "--precision", "float16", "--epochs", "2"]
    assert main([*SYNTHETIC, *argv, "--export", "False"], env(tmp_path)) == 0
    said = capsys.readouterr().out
    assert "end of epoch=1 steps=2 examples=48" in said  # a pass is 16 * 2 and 16
    assert "rank=0 batches=6 weights=" in said


def test_validation_stages_are_not_random(tmp_path, capsys):
    channel(tmp_path, "training", 4)
    channel(tmp_path, "validation", 2)
    chain = "random_crop(6, 6); random_flip(); rescale(); random_resized_crop(5, 5)"
    made = built(tmp_path, *QUICK, "--chain", chain)
    assert made.validation is not None
    assert made.validation.pipeline.output == made.reader.pipeline.output
    assert not any(stage.random for stage in made.validation.pipeline.stages)
    first, again = ([d.images.numpy() for d in made.validation.epoch(0)] for _ in range(2))
    assert all((one == other).all() for one, other in zip(first, again, strict=True))
    assert main([*QUICK, "--chain", chain, "--epochs", "1", "--export", "False"], env(tmp_path)) == 0
    assert re.search(r"val_loss=\d+\.\d+ val_accuracy=\d", capsys.readouterr().out)


@pytest.mark.parametrize(
    ("stage", "left"),
    [
        ("one_of(random_flip(), random_rotation())", ""),
        ("probability(posterize(2))", ""),
        ("randaugment(); trivialaugment(); mixup(); cutmix()", ""),
        ("one_hot(3)", "one_hot(3)"),
        ("one_of(center_crop(4, 4), random_crop(4, 4), weights=(1, 2))", "center_crop(4, 4)"),
        ("one_of(center_crop(4, 4), random_resized_crop(4, 4), weights=(1, 2))", "resize(4, 4)"),
        ("one_of(rescale(1/255), rescale(1/255))", "rescale()"),
    ],
)
def test_validation_keeps_size_and_range(stage, left):
    given = ImageSpec(8, 8, 3, "uint8", 0.0, 255.0)
    placed = [PlacedStage(each, position, each.spec(given)) for position, each in enumerate(parse(stage))]
    assert tuple(kept for each in placed for kept in certain(each, given)) == parse(left)


ANTIALIASED = "random_resized_crop(112, 56, antialias=True)"


def test_validation_takes_the_middle_of_images(tmp_path):
    for name, count in (("training", 4), ("validation", 2)):
        photo_channel(tmp_path, name, count, ("cat", "dog"))
    for training, expected in (
        ("imagenet-train", chain("imagenet-eval")),
        ("randaugment-224", chain("imagenet-eval")),
        ("decode(); random_resized_crop(7, 7); rescale()", parse("decode(); resized_center_crop(7, 7, 8); rescale()")),
        (f"decode(); {ANTIALIASED}", parse("decode(); resized_center_crop(112, 56, 128, antialias=True)")),
        ("decode(); resize(8, 8); random_crop(4, 4)", parse("decode(); resize(8, 8); center_crop(4, 4)")),
    ):
        made = built(tmp_path, "--model", "emulated", "--chain", training)
        assert made.validation is not None
        assert made.validation.pipeline.stages == expected
        assert made.validation.pipeline.output.tensor == made.reader.pipeline.output.tensor


def test_chosen_chain_is_reported(tmp_path, capsys):
    made = built(tmp_path, "--data", "synthetic:8:2", "--model", "emulated")
    assert made.reader.pipeline.stages == chain("aws-cifar")
    assert "the chain is 'aws-cifar', " in capsys.readouterr().out
    built(tmp_path, "--data", "synthetic:8:2", "--model", "emulated", "--chain", "none")
    assert "the chain is" not in capsys.readouterr().out
    photo_channel(tmp_path, "training", 2, ("cat", "dog"))
    assert built(tmp_path, "--model", "emulated").reader.pipeline.stages == chain("imagenet-train")


def test_validation_labels_are_those_of_training(tmp_path):
    photo_channel(tmp_path, "training", 6, ("ant", "cat", "dog"))
    photo_channel(tmp_path, "validation", 4, ("dog", "cat"))
    made = built(tmp_path, "--model", "emulated")
    assert made.validation is not None
    labels = np.concatenate([delivery.labels for delivery in made.validation.epoch(0)])
    assert labels.tolist() == [2, 1, 2, 1]


def test_unknown_validation_class_is_named(tmp_path):
    photo_channel(tmp_path, "training", 2, ("ant", "cat"))
    photo_channel(tmp_path, "validation", 2, ("cat", "emu"))
    with pytest.raises(UsageError, match="validation .*: emu; .* ant, cat"):
        built(tmp_path, "--model", "emulated")


def test_run_with_mixed_labels_and_stream_stages(tmp_path, capsys):
    channel(tmp_path, "training", shards=2)
    channel(tmp_path, "validation", shards=1)
    argv = ["--data", "training", *QUICK, "--epochs", "2", "--export", "False"]
    argv[argv.index("rescale()")] = "interleave(2); shuffle(8); one_hot(3, 0.1); one_of(mixup(), cutmix()); rescale()"
    assert main(argv, env(tmp_path)) == 0
    summary = RunFolder(tmp_path / "output" / "data" / "tfhet").read_summary()
    assert [epoch["once"] for epoch in summary.epochs] == [24, 24]
    assert np.isfinite(summary.metrics["val_loss"]) and np.isfinite(summary.metrics["loss"])


def test_emulated_run_needs_no_model(tmp_path, capsys):
    argv = ["--data", "synthetic:40:4:uneven", "--model", "emulated", "--step_ms", "0", "--epochs", "1"]
    assert main([*argv, "--batch_size", "4", "--chain", "none"], env(tmp_path)) == 0
    said = capsys.readouterr().out
    assert "end of epoch=0 steps=10 examples=40" in said
    assert not (tmp_path / "model").exists()
    (kept,) = (tmp_path / "checkpoints").glob("checkpoint-*")
    assert json.loads((kept / "manifest.json").read_text())["progress"]["step"] == 10
    assert isinstance(built(tmp_path, *argv).accelerator, EmulatedAccelerator)


def test_full_disk_does_not_end_the_training(tmp_path, monkeypatch, caplog):
    def full(*of: object) -> Path:
        raise DataError("No space left on device")

    monkeypatch.setattr(Checkpoints, "save", full)

    def full_too(*of: object) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(RunFolder, "write_summary", full_too)
    assert built(tmp_path, *SYNTHETIC, "--epochs", "2", "--export", "False").run().steps == 6
    assert caplog.text.count("No space left on device") == 3
    stopped = built(tmp_path, *SYNTHETIC, "--epochs", "2", "--export", "False")
    stopped.stop.set()
    with pytest.raises(DataError, match="No space left"):
        stopped.run()


def test_parts_of_steps_are_recorded(tmp_path):
    job = JobContext("job", "local", host="algo-1", record_dir=str(tmp_path / "a"), timeline_dir=str(tmp_path / "b"))
    summary = built(tmp_path, *SYNTHETIC, "--epochs", "2", "--export", "False", job=job).run()
    assert set(summary.step_parts_ms) == {"wait", "copy", "compute", "allreduce"}
    assert summary.step_parts_ms["allreduce"] == 0
    assert summary.checkpoint_s is not None and summary.checkpoint_s > 0
    assert RunFolder(tmp_path / "a").read_summary().step_parts_ms == summary.step_parts_ms
    found = Timeline.join((tmp_path / "b").glob("*.jsonl"))
    assert [(step.step, step.epoch, step.rank) for step in found.steps] == [(n + 1, n // 3, 0) for n in range(6)]
    assert [pause.name for pause in found.pauses] == ["checkpoint"] * 2
    assert sum(pause.dur_s for pause in found.pauses) == pytest.approx(summary.checkpoint_s, abs=1e-5)


# Refused before work is lost


def test_missing_channel_is_named_with_existing_ones(tmp_path):
    with pytest.raises(UsageError, match=r"'training' .*/input/data/training .*: none$"):
        built(tmp_path)
    channel(tmp_path, "train", 1)
    channel(tmp_path, "test", 1)
    with pytest.raises(UsageError, match=": test, train$"):
        built(tmp_path)


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        (["--data", "synthetic:48"], "synthetic:EXAMPLES:SPLITS"),
        (["--data", "synthetic:48:4:odd"], "synthetic:EXAMPLES:SPLITS"),
        (["--data", "synthetic:0:4"], "1 example"),
        (["--model", "vgg"], "unknown model 'vgg'"),
        (["--chain", "no_such_stage()"], "unknown stage 'no_such_stage'"),
        (["--cut", "7"], "between 0 and 1"),
    ],
)
def test_wrong_arguments_are_refused(tmp_path, argv, named):
    with pytest.raises(UsageError, match=named):
        built(tmp_path, *SYNTHETIC, *argv)


def test_channel_without_classes_is_refused(tmp_path):
    channel(tmp_path, "training", 2, classes=0)
    with pytest.raises(UsageError, match="'training' .*classes"):
        built(tmp_path, *QUICK)


def test_chain_with_other_classes_is_refused(tmp_path):
    channel(tmp_path, "training", shards=2)
    argv = ["--data", "training", *QUICK]
    argv[argv.index("rescale()")] = "one_hot(4); mixup(); rescale()"
    with pytest.raises(UsageError, match=r"\[None, 4\].* 3 classes"):
        built(tmp_path, *argv)
    argv[argv.index("--chain") + 1] = "one_hot(3); mixup(); rescale()"
    built(tmp_path, *argv)


def test_fewer_validation_files_than_ranks_are_refused(tmp_path, monkeypatch):
    channel(tmp_path, "training", 4)
    channel(tmp_path, "validation", 1)
    ranks = SimpleNamespace(gather=lambda own, name: np.concatenate([own, own + 2**32]))  # files 0 and 2, 1 and 3
    monkeypatch.setattr("tfhet.strategies.horovod.strategy.HorovodStrategy.collective", lambda self, size: ranks)
    job = JobContext("job", "homogeneous", size=2, local_size=2)
    with pytest.raises(UsageError, match="'validation' has 1 files for 2"):
        built(tmp_path, *QUICK, job=job)


def test_truncated_file_is_found_before_training(tmp_path):
    file = sorted(channel(tmp_path, "training", 2).glob("*.tfrecord*"))[1]
    file.write_bytes(file.read_bytes()[:-9])
    with pytest.raises(DataError, match=f"{file.name} .* byte"):
        built(tmp_path, *QUICK)


@pytest.mark.parametrize(("argv", "named"), [(["--epochs", "none"], "--epochs"), (["--data", "nowhere"], "'nowhere'")])
def test_program_ends_with_one_line_of_error(tmp_path, monkeypatch, capsys, argv, named):
    monkeypatch.setattr(sys, "argv", ["trainer", *argv])
    monkeypatch.delitem(sys.modules, "tfhet.trainer.__main__")  # imported above
    monkeypatch.setenv("SAGEMAKER_BASE_DIR", str(tmp_path))
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("tfhet.trainer", run_name="__main__")
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("[tfhet] error: ") and named in line
