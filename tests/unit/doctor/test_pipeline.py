from __future__ import annotations

from pathlib import Path

import pytest

from tfhet.doctor import Status
from tfhet.doctor.pipeline import PIPELINE, look
from tfhet.errors import UsageError

FILE = """
import tensorflow as tf

def layer():
    return tf.data.Dataset.range(3).map(lambda x: tf.keras.layers.RandomFlip()(tf.zeros([1, 4, 4, 3]), training=True))

def leaves():
    raise SystemExit("usage: train.py --data DIR")

def arrays():
    numbers = tf.data.Dataset.from_tensor_slices(tf.zeros([4, 8, 8, 3], tf.uint8))
    return numbers.map(lambda x: tf.cast(x, tf.float32) / 255)
"""


@pytest.fixture
def target(tmp_path: Path) -> str:
    (tmp_path / "data.py").write_text(FILE)
    return f"{tmp_path}/data.py"


def checks(target: str, workers: int | None = None):
    return {check.name: check for check in PIPELINE.checks(look(target, None, workers, 1 << 34))}


@pytest.mark.parametrize(
    ("name", "named"), [("layer", ["singleton tf.Variables", "data.py:5)"]), ("leaves", ["usage: train.py"])]
)
def test_broken_pipeline_is_a_finding(target, name, named):
    (check,) = checks(f"{target}:{name}").values()
    assert check.status is Status.WRONG and all(part in check.found for part in named)


def test_graph_is_examined(target):
    found = checks(f"{target}:arrays", workers=5)
    assert found["bytes on the wire"].found == "768 bytes for an example (float32), 192 after 'TensorSlice'"
    for name in ("files and workers", "batches", "prefetch", "parallel maps"):
        assert found[name].status is Status.LIMITED, name
    assert not any(check.is_fatal for check in found.values())


def test_declared_pipeline_is_sound():
    assert {check.status for check in checks("synthetic", workers=4).values()} == {Status.OK}


def test_unknown_target_is_refused(target):
    with pytest.raises(UsageError, match="'nothing'"):
        look(f"{target}:nothing", None, None, 1)
