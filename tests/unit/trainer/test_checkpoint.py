from __future__ import annotations

import errno
import fcntl
import json
import os
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tfhet.errors import DataError, UsageError
from tfhet.pipeline import Rest
from tfhet.source import IdSet
from tfhet.strategies.solo import SoloCollective
from tfhet.trainer import checkpoint
from tfhet.trainer.checkpoint import Checkpoints, Progress, Superseded, export
from tfhet.trainer.manifest import Ledger
from tfhet.trainer.step import KerasAccelerator


def accelerator(made: tf.keras.Model, **how: bool) -> KerasAccelerator:
    return KerasAccelerator(made, tf.keras.optimizers.Adam(0.1), SoloCollective(), **how)


def checkpoints(folder: Path, trained: KerasAccelerator, keep: int = 3) -> Checkpoints:
    return Checkpoints(folder, keep, **trained.state())


@pytest.mark.parametrize("scaling", [False, True])
def test_restored_state_is_identical(tmp_path, model, batch, scaling):
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


def test_newest_checkpoints_are_kept_and_restored(tmp_path, model):
    trained = accelerator(model())
    saved = checkpoints(tmp_path, trained, keep=2)
    assert saved.restore() is None
    for step in (9, 10, 100):  # in the order of numbers, not of their digits
        saved.save(Progress(step // 9, step))
    assert [path.name for path in saved.all()] == ["checkpoint-0000-0000000010", "checkpoint-0000-0000000100"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [path.name for path in saved.all()]
    assert saved.restore() == (Progress(11, 100), None)


def test_checkpoint_of_the_same_step_is_replaced(tmp_path, model, batch):
    trained = accelerator(model())
    saved = checkpoints(tmp_path, trained)
    saved.save(Progress(1, 5, 2, 1), LEDGER)
    trained.step(batch(4))
    saved.save(Progress(2, 5))
    assert saved.restore() == (Progress(2, 5), None)
    assert len(list(tmp_path.iterdir())) == 1


def test_incomplete_checkpoint_is_invisible(tmp_path, model, monkeypatch):
    trained = accelerator(model())
    saved = checkpoints(tmp_path, trained)
    saved.save(Progress(1, 5))

    def die(self: Path, target: Path) -> Path:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "rename", die)
    with pytest.raises(KeyboardInterrupt):
        saved.save(Progress(2, 10))
    monkeypatch.undo()
    assert [path.name for path in saved.all()] == ["checkpoint-0000-0000000005"]
    assert saved.restore() == (Progress(1, 5), None)


def test_leftovers_are_ignored_and_removed(tmp_path, model):
    saved = checkpoints(tmp_path, accelerator(model()))
    saved.save(Progress(1, 5))
    leftover = tmp_path / ".checkpoint-0001-0000000099.4711"
    leftover.mkdir()
    (leftover / "manifest.json").write_text("{}")
    (tmp_path / "notes.txt").write_text("mine")
    assert saved.restore() == (Progress(1, 5), None)
    saved.claim()
    assert not leftover.exists() and (tmp_path / "notes.txt").exists()


def test_checkpoint_of_another_model_is_refused(tmp_path, model):
    checkpoints(tmp_path, accelerator(model())).save(Progress(1, 5))
    for other in (accelerator(model(hidden=True)), accelerator(model(), loss_scaling=True)):
        with pytest.raises(DataError, match="checkpoint-0000-0000000005 .*--resume False") as refused:
            checkpoints(tmp_path, other).restore()
        assert refused.value.path == str(tmp_path / "checkpoint-0000-0000000005")


LEDGER = Ledger("abc", Rest(np.arange(4) != 3, IdSet.of([1, 2])))


def damage(path: Path, how: str) -> None:
    content = path.read_bytes()
    if how == "missing":
        path.unlink()
    elif how == "flipped":
        path.write_bytes(content[:-9] + bytes([content[-9] ^ 1]) + content[-8:])
    else:
        path.write_bytes({"empty": b"", "half": content[: len(content) // 2], "zeros": bytes(len(content))}[how])


@pytest.mark.parametrize("how", ["missing", "empty", "half", "zeros", "flipped"])
def test_damaged_checkpoint_is_skipped(tmp_path, model, batch, caplog, how):
    trained = accelerator(model())
    saved = checkpoints(tmp_path, trained)
    saved.save(Progress(1, 5, 2, 1), LEDGER)
    wanted = trained.digest()
    trained.step(batch(4))
    names = sorted(path.name for path in saved.save(Progress(1, 9, 6, 1), LEDGER).iterdir())
    assert names == ["ledger.npz", "manifest.json", "state.data-00000-of-00001", "state.index"]
    for name in names:
        broken = saved.save(Progress(1, 9, 6, 1), LEDGER)
        damage(broken / name, how)
        caplog.clear()
        fresh = accelerator(model())
        progress, ledger = checkpoints(tmp_path, fresh).restore()
        assert progress == Progress(1, 5, 2, 1) and ledger.fingerprint == "abc"
        assert (ledger.rest.splits.tolist(), ledger.rest.seen.ids().tolist()) == ([True] * 3 + [False], [1, 2])
        assert fresh.digest() == wanted
        assert broken.name in caplog.text


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "a/b", "..", ""])
def test_manifest_may_not_name_files_elsewhere(tmp_path, model, name, caplog):
    saved = checkpoints(tmp_path, accelerator(model()))
    manifest = saved.save(Progress(1, 5)) / "manifest.json"
    said = json.loads(manifest.read_text())
    said["files"][name] = said["files"]["state.index"]
    manifest.write_text(json.dumps(said))
    with pytest.raises(DataError, match="1 checkpoints"):
        saved.restore()
    assert f"names {name!r}" in caplog.text


def test_only_damaged_checkpoints_are_an_error(tmp_path, model):
    saved = checkpoints(tmp_path, accelerator(model()))
    (saved.save(Progress(1, 5)) / "state.index").unlink()
    (tmp_path / "checkpoint-0000000098").mkdir()  # as they were named before they had manifests
    with pytest.raises(DataError, match="2 checkpoints .*--resume False"):
        saved.restore()


def test_damaged_checkpoints_are_removed_first(tmp_path, model):
    trained = accelerator(model())
    saved = checkpoints(tmp_path, trained, keep=2)
    whole, broken = saved.save(Progress(1, 5)), saved.save(Progress(2, 10))
    (broken / "state.index").unlink()
    following = checkpoints(tmp_path, trained, keep=2)
    assert following.restore() == (Progress(1, 5), None)
    assert following.all() == [whole, broken]
    newest = following.save(Progress(2, 11))
    assert following.all() == [whole, newest]


def test_former_owner_is_refused(tmp_path, model):
    trained = accelerator(model())
    old, new = (Checkpoints(tmp_path, 1, job, **trained.state()) for job in ("job-1", "job-2"))
    old.claim()
    old.save(Progress(9, 900))
    new.claim()
    with pytest.raises(Superseded, match="job-2"):
        old.save(Progress(9, 901))
    assert [path.name for path in new.all()] == ["checkpoint-0001-0000000900"]
    new.save(Progress(1, 10))
    assert [path.name for path in new.all()] == ["checkpoint-0002-0000000010"]
    assert new.restore() == (Progress(1, 10), None)
    assert not list(tmp_path.glob(".checkpoint-*"))


def test_copied_folder_gets_a_later_term(tmp_path, model):
    saved = checkpoints(tmp_path, accelerator(model()))
    for name in ("checkpoint-0001-0000000900", "checkpoint-0007-0000000100"):
        saved.save(Progress(9, 5)).rename(tmp_path / name)
    saved.claim()
    assert saved.save(Progress(9, 1)).name == "checkpoint-0008-0000000001"


def test_failed_write_leaves_nothing(tmp_path, model, monkeypatch):
    saved = checkpoints(tmp_path, accelerator(model()))
    saved.save(Progress(1, 5))

    def full(self: Ledger, path: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Ledger, "write", full)
    with pytest.raises(DataError, match=f"step 10 .*{tmp_path}: .*No space left"):
        saved.save(Progress(2, 10), LEDGER)
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint-0000-0000000005"]


def test_unwritable_folder_is_found_first(tmp_path, model):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=f"{tmp_path}/file"):
        checkpoints(tmp_path / "file", accelerator(model())).claim()


def test_wait_for_a_locked_folder_is_limited(tmp_path, model, monkeypatch):
    monkeypatch.setattr(checkpoint, "_LOCKED_S", 0.1)
    descriptor = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    saved = checkpoints(tmp_path, accelerator(model()))
    with pytest.raises(DataError, match="another process"):
        saved.save(Progress(1, 5))
    os.close(descriptor)
    assert saved.save(Progress(1, 5)).is_dir()


def test_model_is_exported_completely(tmp_path, model, batch):
    made = model()
    images, _ = batch(3)
    assert export(made, tmp_path / "model") == tmp_path / "model" / "1"
    made.layers[-1].bias.assign_add([1.0, 0.0, 0.0])
    export(made, tmp_path / "model")
    assert [path.name for path in (tmp_path / "model").iterdir()] == ["1"]
    loaded = tf.saved_model.load(str(tmp_path / "model" / "1"))
    (found,) = loaded.signatures["serving_default"](images).values()
    np.testing.assert_allclose(found, made(images), rtol=1e-5)
