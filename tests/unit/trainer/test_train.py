from __future__ import annotations

import json
import re
import runpy
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from tfhet.cluster import host_paths
from tfhet.errors import DataError, UsageError
from tfhet.record import RunFolder, RunSummary, Timeline
from tfhet.source import Encoded, Raw, Scalar, write_tfrecords
from tfhet.source.photos import photos
from tfhet.stages import ImageSpec, PlacedStage, chain, parse
from tfhet.strategies import JobContext
from tfhet.trainer.__main__ import main
from tfhet.trainer.build import build, certain
from tfhet.trainer.checkpoint import Checkpoints, Progress
from tfhet.trainer.emulated import EmulatedAccelerator
from tfhet.trainer.ledger import Ledger
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


def photo_channel(base: Path, name: str, count: int, classes: tuple[str, ...]) -> Path:
    """JPEG photos of many sizes."""
    stored = tf.data.TFRecordDataset([str(file) for file in sorted(photos(base / "all", 8, shards=1).glob("*.tf*"))])
    images = (
        tf.train.Example.FromString(record.numpy()).features.feature["image"].bytes_list.value[0] for record in stored
    )
    examples = (
        {"image": image, "label": index % len(classes)} for index, image in zip(range(count), images, strict=False)
    )
    features = {"image": Encoded(), "label": Scalar()}
    return write_tfrecords(base / "input" / "data" / name, examples, 1, features, classes=classes)


def built(base: Path, *argv: str, job: JobContext | None = None):
    return build(Settings.parse(argv), job or JobContext("job", "local"), host_paths(env(base)))


def exported(base: Path) -> list[np.ndarray]:
    """The variables of the model, as they lie in it: what is loaded names them in one Keras, and not in another."""
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


def test_a_run_leaves_model_checkpoints_boards_and_record(whole):
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


def test_a_resumed_run_goes_on_where_the_last_one_ended_with_the_same_variables(whole, tmp_path, capsys):
    assert main([*SYNTHETIC, "--epochs", "2", "--export", "False"], env(tmp_path)) == 0
    capsys.readouterr()
    assert main([*SYNTHETIC, "--epochs", "3"], env(tmp_path)) == 0
    said = capsys.readouterr().out
    assert "[tfhet] resumed at epoch=2 step=6" in said
    assert re.findall(r"step=(\d+) epoch=(\d+)", said) == [("8", "2")]
    assert "[tfhet] end of epoch=2 steps=3 examples=48" in said
    assert "epoch=0 steps" not in said and "epoch=1 steps" not in said
    for mine, other in zip(exported(tmp_path), exported(whole), strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-5, atol=1e-7)
    assert RunFolder(tmp_path / "output" / "data" / "tfhet").read_summary().steps == 9


def test_a_run_that_had_ended_exports_its_model_when_started_again(whole, tmp_path):
    import shutil

    shutil.copytree(whole / "checkpoints", tmp_path / "checkpoints")
    assert main([*SYNTHETIC, "--epochs", "3"], env(tmp_path)) == 0
    for mine, other in zip(exported(tmp_path), exported(whole), strict=True):
        np.testing.assert_array_equal(mine, other)


def test_a_run_may_be_told_to_begin_anew_and_to_leave_nothing(whole, tmp_path, capsys):
    import shutil

    shutil.copytree(whole / "checkpoints", tmp_path / "checkpoints")
    argv = ["--resume", "False", "--export", "False", "--checkpoint_every_epochs", "0", "--audit", "False"]
    assert main([*SYNTHETIC, *argv, "--epochs", "1"], env(tmp_path)) == 0
    said = capsys.readouterr().out
    assert "resumed" not in said and "end of epoch=0 steps=3" in said and "once=" not in said
    assert not (tmp_path / "model").exists()
    assert len(list((tmp_path / "checkpoints").glob("before-*"))) == 3


def test_steps_per_epoch_and_accumulation_and_float16_run_together(tmp_path, capsys):
    argv = ["--steps-per-epoch", "2", "--accumulate", "2", "--precision", "float16", "--epochs", "2"]
    assert main([*SYNTHETIC, *argv], env(tmp_path)) == 0
    said = capsys.readouterr().out
    assert "end of epoch=1 steps=2 examples=48" in said  # a pass is 16 * 2 and 16
    assert "rank=0 batches=6 weights=" in said


def test_validation_data_go_through_the_stages_without_chance_and_at_the_models_size(tmp_path, capsys):
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
def test_validation_leaves_chance_out_but_neither_size_nor_range(stage, left):
    given = ImageSpec(8, 8, 3, "uint8", 0.0, 255.0)
    placed = [PlacedStage(each, position, each.spec(given)) for position, each in enumerate(parse(stage))]
    assert tuple(kept for each in placed for kept in certain(each, given)) == parse(left)


ANTIALIASED = "random_resized_crop(112, 56, antialias=True)"


@pytest.mark.parametrize(
    ("chain", "left"),
    [
        ("imagenet-train", chain("imagenet-eval")),
        ("randaugment-224", chain("imagenet-eval")),
        ("decode(); random_resized_crop(7, 7); rescale()", parse("decode(); resized_center_crop(7, 7, 8); rescale()")),
        (f"decode(); {ANTIALIASED}", parse("decode(); resized_center_crop(112, 56, 128, antialias=True)")),
        ("decode(); resize(8, 8); random_crop(4, 4)", parse("decode(); resize(8, 8); center_crop(4, 4)")),
    ],
)
def test_validation_takes_the_middle_of_images_of_many_sizes(tmp_path, chain, left):
    for name, count in (("training", 4), ("validation", 2)):
        photo_channel(tmp_path, name, count, ("cat", "dog"))
    made = built(tmp_path, "--model", "emulated", "--chain", chain)
    assert made.validation is not None
    assert made.validation.pipeline.stages == left
    assert made.validation.pipeline.output.tensor == made.reader.pipeline.output.tensor


def test_photos_train_without_a_chain_and_the_log_says_which_one_it_took(tmp_path, capsys):
    photo_channel(tmp_path, "training", 4, ("cat", "dog"))
    photo_channel(tmp_path, "validation", 2, ("cat", "dog"))
    argv = ["--model", "small_cnn", "--batch_size", "2", "--epochs", "1", "--export", "False"]
    assert main(argv, env(tmp_path)) == 0
    said = capsys.readouterr().out
    assert "[tfhet] the chain is 'imagenet-train', because the data are image files; --chain gives another\n" in said
    assert re.search(r"examples=4 .*val_loss=\d+\.\d+ val_accuracy=\d", said)


def test_small_images_keep_the_chain_of_the_example(tmp_path, capsys):
    made = built(tmp_path, "--data", "synthetic:8:2", "--model", "emulated")
    assert made.reader.pipeline.stages == chain("aws-cifar")
    assert "the chain is 'aws-cifar', because the images are small, 32x32;" in capsys.readouterr().out
    built(tmp_path, "--data", "synthetic:8:2", "--model", "emulated", "--chain", "none")
    assert "the chain is" not in capsys.readouterr().out


def test_labels_of_the_validation_data_are_those_of_the_training_classes(tmp_path):
    photo_channel(tmp_path, "training", 6, ("ant", "cat", "dog"))
    photo_channel(tmp_path, "validation", 4, ("dog", "cat"))
    made = built(tmp_path, "--model", "emulated")
    assert made.validation is not None
    labels = np.concatenate([delivery.labels for delivery in made.validation.epoch(0)])
    assert labels.tolist() == [2, 1, 2, 1]


def test_a_validation_class_that_the_training_lacks_is_named(tmp_path):
    photo_channel(tmp_path, "training", 2, ("ant", "cat"))
    photo_channel(tmp_path, "validation", 2, ("cat", "emu"))
    with pytest.raises(
        UsageError, match="validation has classes that the training data lack: emu; those have ant, cat"
    ):
        built(tmp_path, "--model", "emulated")


def test_a_run_with_mixed_labels_and_examples_that_flow_as_the_chain_says(tmp_path, capsys):
    channel(tmp_path, "training", shards=2)
    channel(tmp_path, "validation", shards=1)
    argv = ["--data", "training", *QUICK, "--epochs", "2", "--export", "False"]
    argv[argv.index("rescale()")] = "interleave(2); shuffle(8); one_hot(3, 0.1); one_of(mixup(), cutmix()); rescale()"
    assert main(argv, env(tmp_path)) == 0
    summary = RunFolder(tmp_path / "output" / "data" / "tfhet").read_summary()
    assert [epoch["once"] for epoch in summary.epochs] == [24, 24]
    assert np.isfinite(summary.metrics["val_loss"]) and np.isfinite(summary.metrics["loss"])


def test_an_emulated_run_needs_no_model(tmp_path, capsys):
    argv = ["--data", "synthetic:40:4:uneven", "--model", "emulated", "--step_ms", "0", "--epochs", "1"]
    assert main([*argv, "--batch_size", "4", "--chain", "none"], env(tmp_path)) == 0
    said = capsys.readouterr().out
    assert "end of epoch=0 steps=10 examples=40" in said
    assert not (tmp_path / "model").exists()
    (kept,) = (tmp_path / "checkpoints").glob("checkpoint-*")
    assert json.loads((kept / "manifest.json").read_text())["progress"]["step"] == 10
    assert isinstance(built(tmp_path, *argv).accelerator, EmulatedAccelerator)


def test_a_checkpoint_that_cannot_be_written_does_not_end_the_training_unless_it_is_to_stop(
    tmp_path, monkeypatch, caplog
):
    def full(self: Checkpoints, progress: Progress, ledger: Ledger | None = None) -> Path:
        raise DataError("No space left on device")

    monkeypatch.setattr(Checkpoints, "save", full)
    assert built(tmp_path, *SYNTHETIC, "--epochs", "2", "--export", "False").run().steps == 6
    assert caplog.text.count("No space left on device; the training goes on without it") == 2
    stopped = built(tmp_path, *SYNTHETIC, "--epochs", "2", "--export", "False")
    stopped.stop.set()
    with pytest.raises(DataError, match="No space left"):
        stopped.run()


def test_a_record_that_cannot_be_written_does_not_fail_a_training_that_is_complete(tmp_path, monkeypatch, caplog):
    def full(self: RunFolder, summary: RunSummary) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(RunFolder, "write_summary", full)
    assert built(tmp_path, *SYNTHETIC, "--epochs", "1", "--export", "False").run().steps == 3
    assert "the record of the run cannot be written: [Errno 28] No space left" in caplog.text


# Refused before work is lost


def test_where_the_time_of_the_steps_went_is_told_in_the_record_and_where_asked_for_step_by_step(tmp_path):
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


def test_a_missing_channel_is_told_with_those_that_are_there(tmp_path):
    with pytest.raises(UsageError, match=r"channel 'training' is missing: .*/input/data/training .*there: none$"):
        built(tmp_path)
    channel(tmp_path, "train", 1)
    channel(tmp_path, "test", 1)
    with pytest.raises(UsageError, match="channels that are there: test, train$"):
        built(tmp_path)


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--data", "synthetic:48"], "expected synthetic:EXAMPLES:SPLITS"),
        (["--data", "synthetic:48:4:odd"], "expected synthetic:EXAMPLES:SPLITS"),
        (["--data", "synthetic:0:4"], "at least 1 example"),
        (["--model", "vgg"], "unknown model 'vgg'"),
        (["--chain", "no_such_stage()"], "unknown stage 'no_such_stage'"),
        (["--cut", "7"], "between 0 and 1"),
    ],
)
def test_wrong_words_are_refused(tmp_path, argv, said):
    with pytest.raises(UsageError, match=said):
        built(tmp_path, *SYNTHETIC, *argv)


def test_a_channel_that_does_not_name_its_classes_is_refused(tmp_path):
    channel(tmp_path, "training", 2, classes=0)
    with pytest.raises(UsageError, match="channel 'training' does not name its classes"):
        built(tmp_path, *QUICK)


def test_a_chain_with_other_classes_than_the_data_is_refused(tmp_path):
    channel(tmp_path, "training", shards=2)
    argv = ["--data", "training", *QUICK]
    argv[argv.index("rescale()")] = "one_hot(4); mixup(); rescale()"
    with pytest.raises(UsageError, match=r"labels of float32 \(None, 4\), and there are 3 classes"):
        built(tmp_path, *argv)
    argv[argv.index("--chain") + 1] = "one_hot(3); mixup(); rescale()"
    built(tmp_path, *argv)


def test_fewer_validation_files_than_ranks_are_refused_before_the_training(tmp_path, monkeypatch):
    channel(tmp_path, "training", 4)
    channel(tmp_path, "validation", 1)
    ranks = SimpleNamespace(gather=lambda own, name: np.concatenate([own, own + 2**32]))  # files 0 and 2, 1 and 3
    monkeypatch.setattr("tfhet.strategies.horovod.strategy.HorovodStrategy.collective", lambda self, size: ranks)
    job = JobContext("job", "homogeneous", size=2, local_size=2)
    with pytest.raises(UsageError, match="channel 'validation' has 1 files for 2 ranks"):
        built(tmp_path, *QUICK, job=job)


def test_a_truncated_file_is_found_before_the_training(tmp_path):
    file = sorted(channel(tmp_path, "training", 2).glob("*.tfrecord*"))[1]
    file.write_bytes(file.read_bytes()[:-9])
    with pytest.raises(DataError, match=f"{file.name} is broken at byte"):
        built(tmp_path, *QUICK)


@pytest.mark.parametrize(
    ("argv", "code", "said"),
    [
        (["--epochs", "none"], 2, "--epochs"),
        (["--data", "nowhere"], 2, "channel 'nowhere' is missing"),
    ],
)
def test_the_program_ends_with_the_code_of_the_error_and_one_line(tmp_path, monkeypatch, capsys, argv, code, said):
    monkeypatch.setattr(sys, "argv", ["trainer", *argv])
    monkeypatch.delitem(sys.modules, "tfhet.trainer.__main__")  # imported above
    monkeypatch.setenv("SAGEMAKER_BASE_DIR", str(tmp_path))
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("tfhet.trainer", run_name="__main__")
    assert ended.value.code == code
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("[tfhet] error: ") and said in line


def test_the_record_is_valid_json_for_everybody(whole):
    text = (whole / "output" / "data" / "tfhet" / "summary.json").read_text()
    assert json.loads(text, parse_constant=pytest.fail)["schema"] == 1
