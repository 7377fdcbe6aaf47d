from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tfhet.errors import DataError
from tfhet.strategies.solo import SoloCollective
from tfhet.trainer.checkpoint import Checkpoints, Progress, export
from tfhet.trainer.ledger import Ledger
from tfhet.trainer.step import KerasAccelerator


def accelerator(made: tf.keras.Model, **how: bool) -> KerasAccelerator:
    return KerasAccelerator(made, tf.keras.optimizers.Adam(0.1), SoloCollective(), **how)


def checkpoints(folder: Path, trained: KerasAccelerator, keep: int = 3) -> Checkpoints:
    return Checkpoints(folder, keep, **trained.state())


@pytest.mark.parametrize("scaling", [False, True])
def test_what_was_saved_comes_back_bit_for_bit_with_optimizer_and_loss_scale(tmp_path, model, batch, scaling):
    trained = accelerator(model(), loss_scaling=scaling)
    for step in range(3):
        trained.step(batch(4, step))
    if scaling:
        trained.step((batch(4)[0] * np.inf, batch(4)[1]))  # halves the scale
    checkpoints(tmp_path, trained).save(Progress(2, 3))
    fresh = accelerator(model(), loss_scaling=scaling)
    assert fresh.digest() != trained.digest()
    assert checkpoints(tmp_path, fresh).restore() == (Progress(2, 3), None)
    assert fresh.digest() == trained.digest()
    for one in (trained, fresh):
        one.step(batch(4, 9))
    assert fresh.digest() == trained.digest()


def test_nothing_saved_is_nothing_to_go_on_from(tmp_path, model):
    assert checkpoints(tmp_path / "none", accelerator(model())).restore() is None


def test_only_the_newest_are_kept_and_the_newest_is_restored(tmp_path, model):
    trained = accelerator(model())
    saved = checkpoints(tmp_path, trained, keep=2)
    for step in (9, 10, 100):  # in the order of numbers, not of their digits
        saved.save(Progress(step // 9, step))
    assert [path.name for path in saved.all()] == ["checkpoint-0000000010", "checkpoint-0000000100"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [path.name for path in saved.all()]
    assert saved.restore() == (Progress(11, 100), None)


def test_a_checkpoint_of_the_same_step_takes_the_place_of_the_old_one(tmp_path, model, batch):
    trained = accelerator(model())
    saved = checkpoints(tmp_path, trained)
    saved.save(Progress(1, 5))
    trained.step(batch(4))
    saved.save(Progress(2, 5))
    assert saved.restore() == (Progress(2, 5), None)
    assert len(list(tmp_path.iterdir())) == 1


def test_half_a_checkpoint_is_never_seen(tmp_path, model, monkeypatch):
    trained = accelerator(model())
    saved = checkpoints(tmp_path, trained)
    saved.save(Progress(1, 5))

    def die(self: Path, target: Path) -> Path:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "rename", die)
    with pytest.raises(KeyboardInterrupt):
        saved.save(Progress(2, 10))
    monkeypatch.undo()
    assert [path.name for path in saved.all()] == ["checkpoint-0000000005"]
    assert saved.restore() == (Progress(1, 5), None)


def test_what_others_left_is_ignored(tmp_path, model):
    trained = accelerator(model())
    saved = checkpoints(tmp_path, trained)
    saved.save(Progress(1, 5))
    leftover = tmp_path / ".checkpoint-0000000099.4711"
    leftover.mkdir()
    (leftover / "progress.json").write_text('{"epoch": 9, "step": 99}')
    (tmp_path / "checkpoint-0000000098").mkdir()  # without its last file
    (tmp_path / "notes.txt").write_text("mine")
    assert saved.restore() == (Progress(1, 5), None)


def test_a_checkpoint_of_another_model_is_refused_by_path(tmp_path, model):
    checkpoints(tmp_path, accelerator(model())).save(Progress(1, 5))
    for other in (accelerator(model(hidden=True)), accelerator(model(), loss_scaling=True)):
        with pytest.raises(
            DataError, match="checkpoint-0000000005 does not fit this model .*--resume False"
        ) as refused:
            checkpoints(tmp_path, other).restore()
        assert refused.value.path == str(tmp_path / "checkpoint-0000000005")


@pytest.mark.parametrize("content", ["", "{", "[]", '{"epoch": 1, "unknown": 2}'])
def test_a_damaged_checkpoint_is_refused(tmp_path, model, content):
    trained = accelerator(model())
    saved = checkpoints(tmp_path, trained)
    (saved.save(Progress(1, 5)) / "progress.json").write_text(content)
    with pytest.raises(DataError, match="does not fit"):
        saved.restore()
    path = saved.save(Progress(1, 5))
    assert json.loads((path / "progress.json").read_text()) == {"epoch": 1, "step": 5, "begun": 0, "number": 0}
    for state in path.glob("state*"):
        state.write_bytes(b"")
    with pytest.raises(DataError, match="does not fit"):
        saved.restore()


def test_what_was_seen_of_a_pass_is_kept_with_the_checkpoint(tmp_path, model):
    saved = checkpoints(tmp_path, accelerator(model()))
    ledger = Ledger("abc", np.array([3]), np.array([1, 2]))
    assert (saved.save(Progress(1, 5, 2, 1), ledger) / "ledger.npz").exists()
    progress, found = saved.restore()
    assert progress == Progress(1, 5, 2, 1) and found is not None
    assert (found.fingerprint, found.splits.tolist(), found.ids.tolist()) == ("abc", [3], [1, 2])
    saved.save(Progress(2, 5))  # the same step, at the end of the epoch
    assert saved.restore() == (Progress(2, 5), None)


def test_a_checkpoint_of_before_there_were_ledgers_is_read(tmp_path, model):
    saved = checkpoints(tmp_path, accelerator(model()))
    (saved.save(Progress(1, 5)) / "progress.json").write_text('{"epoch": 1, "step": 5}')
    assert saved.restore() == (Progress(1, 5), None)


def test_a_damaged_ledger_is_refused_by_path(tmp_path, model):
    saved = checkpoints(tmp_path, accelerator(model()))
    path = saved.save(Progress(1, 5, 1), Ledger("abc", np.array([3]), np.array([1])))
    (path / "ledger.npz").write_bytes(b"PK rubbish")
    with pytest.raises(DataError, match="ledger.npz"):
        saved.restore()


def test_the_model_is_exported_under_1_whole_or_not_at_all(tmp_path, model, batch):
    made = model()
    images, _ = batch(3)
    assert export(made, tmp_path / "model") == tmp_path / "model" / "1"
    made.layers[-1].bias.assign_add([1.0, 0.0, 0.0])
    export(made, tmp_path / "model")
    assert [path.name for path in (tmp_path / "model").iterdir()] == ["1"]
    loaded = tf.saved_model.load(str(tmp_path / "model" / "1"))
    (found,) = loaded.signatures["serving_default"](images).values()
    np.testing.assert_allclose(found, made(images), rtol=1e-5)
