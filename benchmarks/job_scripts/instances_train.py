"""The training script of `benchmarks.instances`: an emulated step, and input that is bound by something."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from benchmarks.job_scripts.stamp import stamp
from tfhet.clock import SYSTEM, Clock

if TYPE_CHECKING:
    import tensorflow as tf

SIDE = 224
"""Height and width of an image, which has 3 channels, float32."""
SETTLE_S = 1.0
"""From when the script says that it reads until its first batch: the limits of its host hold by then."""
ENCODED_SIDE = 112
LAYERS, NOISE = 6, 8.0
"""Layers of noise that the generator adds to an image, and the standard deviation of each in grey levels. Drawing them
takes several times as long as handing the image over."""


def main(argv: Sequence[str]) -> None:
    """Takes the steps."""
    given = _arguments(argv)

    from tfhet import distribute
    from tfhet.trainer.emulated import EmulatedDevice

    batches = iter(distribute(INPUTS[given.input](given)))
    device = EmulatedDevice()
    SYSTEM.sleep(SETTLE_S)
    stamp("train_begins")
    began_s = SYSTEM.monotonic()
    for _ in range(given.steps):
        next(batches)
        device.begin(1e-3 * given.step_ms)
    device.finish()
    took_s = SYSTEM.monotonic() - began_s
    stamp("train_ends", seconds=f"{took_s:.6f}", busy_s=f"{1e-3 * given.step_ms * given.steps:.6f}")


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--input", choices=tuple(INPUTS), required=True)
    parser.add_argument("--batch_size", type=int, required=True)
    parser.add_argument("--images", type=int, default=0, help="kept in memory")
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--step_ms", type=float, required=True)
    parser.add_argument(
        "--core_share", type=float, default=1.0, help="of a core of this machine that one of the host is"
    )
    return parser.parse_known_args(argv)[0]


def parallel(given: argparse.Namespace) -> tf.data.Dataset:
    """Decoded and resized by as many threads as there are."""
    import tensorflow as tf

    return _decoded(tf.data.Dataset.range(1).repeat()).batch(given.batch_size).prefetch(2)


def cached(given: argparse.Namespace) -> tf.data.Dataset:
    """The same, and kept as it is, as large as it has become."""
    import tensorflow as tf

    return _decoded(tf.data.Dataset.range(given.images)).cache().repeat().batch(given.batch_size).prefetch(2)


def _decoded(numbers: tf.data.Dataset) -> tf.data.Dataset:
    import tensorflow as tf

    row = tf.range(ENCODED_SIDE, dtype=tf.int32)
    levels = tf.cast((row[:, None, None] + 2 * row[None, :, None] + tf.constant([0, 40, 80])) % 256, tf.uint8)
    encoded = tf.io.encode_jpeg(levels)

    def decode(number: tf.Tensor) -> tf.Tensor:
        # The number is read, or the picture would be a constant, made once.
        image = tf.io.decode_jpeg(tf.strings.join([encoded, tf.strings.as_string(number)]), channels=3)
        return tf.image.resize(image, [SIDE, SIDE])

    return numbers.map(tf.autograph.experimental.do_not_convert(decode), num_parallel_calls=tf.data.AUTOTUNE)


def generator(given: argparse.Namespace) -> tf.data.Dataset:
    """Made by Python, which uses one core however many there are."""
    import tensorflow as tf

    spec = tf.TensorSpec([SIDE, SIDE, 3], tf.float32)
    made = tf.data.Dataset.from_generator(lambda: paced(_images(), given.core_share), output_signature=spec)
    return made.batch(given.batch_size).prefetch(2)


def _images() -> Iterator[Any]:
    import numpy as np

    draw = np.random.default_rng(0)
    picture = np.full([SIDE, SIDE, 3], 127.0, np.float32)
    while True:
        layers = (draw.normal(scale=NOISE, size=picture.shape) for _ in range(LAYERS))
        yield sum(layers, picture).astype(np.float32)


def paced(items: Iterator[Any], core_share: float, clock: Clock = SYSTEM, cpu_s: Any = None) -> Iterator[Any]:
    """`items`, made as slowly as by a core that is that share of this machine's. A host's CPUs are scaled by one quota
    for all of them, which a single thread could use alone."""
    cpu_s = cpu_s or _thread_cpu_s
    while True:
        began_s, used_s = clock.monotonic(), cpu_s()
        try:
            item = next(items)
        except StopIteration:
            return
        clock.sleep((cpu_s() - used_s) / core_share - (clock.monotonic() - began_s))
        yield item


def _thread_cpu_s() -> float:
    """CPU seconds of this thread."""
    import resource

    used = resource.getrusage(resource.RUSAGE_THREAD)
    return used.ru_utime + used.ru_stime


INPUTS = {"parallel": parallel, "cached": cached, "generator": generator}

if __name__ == "__main__":
    main(sys.argv[1:])
