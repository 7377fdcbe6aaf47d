"""`tfhet watch` of Keras scripts: fit with validation data, a custom loop, images of a directory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tfhet.record import RunFolder

pytestmark = pytest.mark.timeout(300)

COMMON = """
import json, time
import numpy as np, tensorflow as tf
from tensorflow import keras

def slowly(ms):
    def wait(x, y):
        time.sleep(ms / 1e3)
        return x, y
    return wait

def batches(count, ms):
    ds = tf.data.Dataset.from_tensor_slices((np.zeros([count, 8], np.float32), np.arange(count) % 2)).batch(4)
    ds = ds.map(lambda x, y: tf.numpy_function(slowly(ms), [x, y], [tf.float32, tf.int64]))
    return ds.map(lambda x, y: (tf.ensure_shape(x, [None, 8]), tf.ensure_shape(y, [None])))

class Busy(keras.layers.Layer):
    def call(self, x, training=False):
        def wait(value):
            time.sleep(0.01)
            return value
        out = tf.numpy_function(wait, [x], tf.float32)
        out.set_shape(x.shape)
        return out if training else x

model = keras.Sequential([Busy(), keras.layers.Dense(2)])
optimizer, loss = keras.optimizers.SGD(0.01), keras.losses.SparseCategoricalCrossentropy(from_logits=True)
"""
FIT = """
model.compile(optimizer, loss)
model.fit(batches(160, 20.0), validation_data=batches(32, 20.0), epochs=3, verbose=0)
"""
CLOCK = """
from tensorflow.python.data.ops import iterator_ops
request, traced = iterator_ops.OwnedIterator.get_next, []
times, count = tf.Variable(tf.zeros([500, 3], tf.float64)), tf.Variable(0)

def timed(iterator):
    if tf.executing_eagerly():
        return request(iterator)
    graph = tf.constant(len(traced), tf.float64)
    traced.append(True)
    asked = tf.timestamp()
    with tf.control_dependencies([asked]):
        batch = request(iterator)
    with tf.control_dependencies(tf.nest.flatten(batch)):
        times.scatter_nd_update([[count.assign_add(1) - 1]], [[graph, asked, tf.timestamp()]])
    return batch

iterator_ops.OwnedIterator.get_next = timed
model.compile(optimizer, loss)
model.fit(batches(160, 0.0), validation_data=batches(32, 0.0), epochs=3, verbose=0)
with open("stopwatch.json", "w") as file:
    json.dump(times.numpy()[:int(count)].tolist(), file)
"""
LOOP = """
@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        value = loss(y, model(x, training=True))
    gradients = tape.gradient(value, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return value

train, val, waits, steps = batches(160, 20.0), batches(32, 20.0), [], []
for epoch in range(3):
    began = time.monotonic()
    for x, y in train:
        waits.append(time.monotonic() - began)
        train_step(x, y).numpy()
        steps.append(time.monotonic() - began)
        began = time.monotonic()
    for x, y in val:
        model(x)
with open("stopwatch.json", "w") as file:
    json.dump([waits, steps], file)
"""
DIRECTORY = """
import os
from PIL import Image
for index in range(48):
    os.makedirs(f"photos/{index % 2}", exist_ok=True)
    Image.new("RGB", (64, 64), (index, 0, 0)).save(f"photos/{index % 2}/{index}.jpg")
ds = keras.utils.image_dataset_from_directory("photos", image_size=(32, 32), batch_size=2, verbose=False)
model = keras.Sequential([keras.layers.Rescaling(1 / 255), keras.layers.Flatten(), keras.layers.Dense(2)])
model.compile(optimizer, loss)
model.fit(ds, epochs=2, verbose=0)
model.evaluate(ds, verbose=0)
"""


def watch(folder: Path, code: str):
    """Watches a script; returns its summary."""
    (folder / "train.py").write_text(COMMON + code)
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "TF_CPP_MIN_LOG_LEVEL": "3"}
    words = [sys.executable, "-m", "tfhet", "watch", "--out", "out", "--", sys.executable, "train.py"]
    found = subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, timeout=240)
    assert found.returncode == 0, found.stderr[-2000:]
    log = folder / "out" / "logs" / "watch.log"
    assert not log.exists(), log.read_text()
    return RunFolder(folder / "out").read_summary()


def test_fit_with_validation_data(tmp_path):
    found = watch(tmp_path, FIT)
    assert found.steps == 120 and found.watched["other_batches"] == 24
    assert found.watched["reader"] == "tf.data" and found.batch_size == 4
    # A batch takes 20 ms, and training, which hides a part of them, 10 ms: medians are those of a quiet machine.
    assert 10 < 100 * found.wait_ms.median / found.step_ms.median < 90


def test_fit_is_equal_to_a_stopwatch_in_its_graph(tmp_path):
    found = watch(tmp_path, CLOCK)
    rows = json.loads((tmp_path / "stopwatch.json").read_text())
    graphs = [[got_s - asked_s for graph, asked_s, got_s in rows if graph == number] for number in range(9)]
    (waits_s,) = (each for each in graphs if len(each) == 120)  # the graph of the training
    steps = RunFolder(tmp_path / "out").timeline().steps
    assert found.steps == len(steps) == 120
    pairs = sorted(zip(steps[3:], waits_s[3:], strict=True), key=lambda pair: abs(pair[0].wait_s - pair[1]))
    kept = pairs[: len(pairs) - len(pairs) // 10]  # without the steps that the machine interrupted between two readings
    apart_s = sum(step.wait_s - wait_s for step, wait_s in kept)
    assert abs(apart_s) < 0.02 * sum(step.dur_s for step, _ in kept)


def test_custom_loop_is_equal_to_a_stopwatch(tmp_path):
    found = watch(tmp_path, LOOP)
    waits, steps = (each[3:] for each in json.loads((tmp_path / "stopwatch.json").read_text()))
    assert found.steps == 120 and found.watched["other_batches"] == 24
    assert abs(found.wait_pct - 100 * sum(waits) / sum(steps)) < 3
    assert abs(found.step_ms.median / (1e3 * sorted(steps)[len(steps) // 2]) - 1) < 0.03


@pytest.mark.slow
def test_images_of_a_directory(tmp_path):
    found = watch(tmp_path, DIRECTORY)
    assert found.steps == 48 and found.watched["other_batches"] == 24
