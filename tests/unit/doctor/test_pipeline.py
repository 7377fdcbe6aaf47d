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


def said(target: str, workers: int | None = None):
    return {check.name: check for check in PIPELINE.checks(look(target, None, workers, 1 << 34))}


def test_a_data_set_that_cannot_be_built_is_a_finding_with_the_line_and_what_to_do(target):
    (check,) = said(f"{target}:layer").values()
    assert check.status is Status.WRONG
    assert "singleton tf.Variables" in check.found and check.found.endswith("data.py:5)")
    assert check.what_to_do.startswith("make Keras layers")


def test_a_file_that_ends_python_is_a_finding(target):
    (check,) = said(f"{target}:leaves").values()
    assert check.status is Status.WRONG and "usage: train.py" in check.found


def test_what_is_found_in_a_graph_is_told(target):
    found = said(f"{target}:arrays", workers=5)
    assert found["bytes on the wire"].found == "768 bytes for an example (float32), 192 after 'TensorSlice'"
    assert found["files and workers"].found == "4 source elements, 5 workers: 1 of them idle"
    for name in ("batches", "prefetch", "parallel maps"):
        assert found[name].status is Status.LIMITED, name
    assert not any(check.is_fatal for check in found.values())


def test_a_pipeline_of_tfhet_s_own_is_sound():
    assert {check.status for check in said("synthetic", workers=4).values()} == {Status.OK}


def test_a_target_that_is_none_is_wrong_use(target):
    with pytest.raises(UsageError, match="has no 'nothing'"):
        look(f"{target}:nothing", None, None, 1)
