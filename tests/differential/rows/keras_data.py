"""Rows of the functions of Keras that make data sets, and of preprocessing layers in map."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import tensorflow as tf

from differential.files import EXAMPLES
from differential.row import BATCH, row
from differential.rows.order import numbers

IMAGES = {"image_size": (8, 8), "batch_size": BATCH}


def folder_images(files: Path, **how: object) -> tf.data.Dataset:
    return tf.keras.utils.image_dataset_from_directory(str(files / "jpeg"), **{**IMAGES, **how})


@row()
def folder_of_images(files: Path) -> tf.data.Dataset:
    """image_dataset_from_directory in the order of the files."""
    return folder_images(files, shuffle=False)


@row(holds=EXAMPLES)
def folder_of_images_shuffled(files: Path) -> tf.data.Dataset:
    """image_dataset_from_directory with its defaults: shuffled, no seed."""
    return folder_images(files)


@row()
def folder_of_images_one_hot(files: Path) -> tf.data.Dataset:
    """One-hot labels."""
    return folder_images(files, shuffle=False, label_mode="categorical")


@row()
def folder_of_images_binary(files: Path) -> tf.data.Dataset:
    """Labels 0.0 and 1.0."""
    return folder_images(files, shuffle=False, label_mode="binary").map(lambda x, y: (x / 255.0, y))


@row()
def folder_of_images_unlabelled(files: Path) -> tf.data.Dataset:
    """Images alone, for GANs and autoencoders."""
    return folder_images(files, shuffle=False, label_mode=None).map(lambda x: (x, x))


@row(holds=EXAMPLES)
def folder_of_images_split(files: Path) -> tuple[tf.data.Dataset, tf.data.Dataset]:
    """validation_split with two calls and one seed, then cache, shuffle and prefetch: the image guide."""
    how = {"validation_split": 0.25, "seed": 123}
    training = folder_images(files, subset="training", **how).cache().shuffle(4).prefetch(tf.data.AUTOTUNE)
    return training, folder_images(files, subset="validation", **how).cache().prefetch(tf.data.AUTOTUNE)


@row(holds=EXAMPLES)
def folder_of_images_split_at_once(files: Path) -> tuple[tf.data.Dataset, tf.data.Dataset]:
    """subset="both"."""
    training, validation = folder_images(files, validation_split=0.25, seed=1, subset="both")
    return training, validation


@row(holds=EXAMPLES)
def folder_of_images_unbatched(files: Path) -> tf.data.Dataset:
    """batch_size=None, and batches of the script's own."""
    return folder_images(files, batch_size=None, shuffle=False).shuffle(16).batch(BATCH)


@row(holds=EXAMPLES)
def folder_of_texts(files: Path) -> tf.data.Dataset:
    """text_dataset_from_directory."""
    return tf.keras.utils.text_dataset_from_directory(str(files / "text"), batch_size=BATCH, seed=1)


@row(holds=EXAMPLES)
def folder_of_sounds(files: Path) -> tuple[tf.data.Dataset, tf.data.Dataset]:
    """audio_dataset_from_directory, split, and squeezed in map: the audio guide."""
    training, validation = tf.keras.utils.audio_dataset_from_directory(
        str(files / "wav"), batch_size=BATCH, validation_split=0.25, seed=0, output_sequence_length=16, subset="both"
    )
    return (
        training.map(lambda sound, label: (tf.squeeze(sound, -1), label)),
        validation.map(lambda sound, label: (tf.squeeze(sound, -1), label)),
    )


@row()
def time_series(files: Path) -> tf.data.Dataset:
    """timeseries_dataset_from_array with targets."""
    series = np.arange(70, dtype=np.float32)
    return tf.keras.utils.timeseries_dataset_from_array(series[:-6], series[6:], 6, batch_size=BATCH)


@row(holds=EXAMPLES)
def time_series_split(files: Path) -> tf.data.Dataset:
    """Windows without targets, shuffled, split in map into inputs and labels: the time series guide."""
    series = np.arange(70, dtype=np.float32)
    data = tf.keras.utils.timeseries_dataset_from_array(series, None, 7, shuffle=True, batch_size=BATCH, seed=2)
    return data.map(lambda window: (window[:, :-1], window[:, -1]))


@row()
def text_vectorised(files: Path) -> tf.data.Dataset:
    """TextVectorization in map."""
    lines = tf.data.Dataset.from_tensor_slices([f"line {i} of {EXAMPLES}" for i in range(EXAMPLES)])
    layer = tf.keras.layers.TextVectorization(output_mode="int", output_sequence_length=6)
    layer.adapt(lines.batch(BATCH))
    return lines.batch(BATCH).map(lambda text: (text, layer(text)))


@row()
def columns_preprocessed(files: Path) -> tf.data.Dataset:
    """Normalization, StringLookup and CategoryEncoding in map."""
    scale, words = tf.keras.layers.Normalization(axis=None), tf.keras.layers.StringLookup()
    scale.adapt(np.arange(EXAMPLES, dtype=np.float32))
    words.adapt([["a"], ["b"]])
    encode = tf.keras.layers.CategoryEncoding(words.vocabulary_size(), "one_hot")
    data = tf.data.Dataset.from_tensor_slices((np.arange(EXAMPLES, dtype=np.float32), ["a", "b"] * (EXAMPLES // 2)))
    return data.batch(BATCH).map(lambda x, kind: (x, scale(x), encode(words(kind))))


@row()
def images_rescaled(files: Path) -> tf.data.Dataset:
    """Resizing and Rescaling in map."""
    layers = tf.keras.Sequential([tf.keras.layers.Resizing(4, 4), tf.keras.layers.Rescaling(1 / 255)])
    return folder_images(files, shuffle=False).map(lambda x, y: (layers(x), y), num_parallel_calls=tf.data.AUTOTUNE)


@row(key=lambda parts: parts[1])
def images_augmented(files: Path) -> tf.data.Dataset:
    """Random layers in map; compared by the example's number."""
    layers = tf.keras.Sequential([tf.keras.layers.RandomFlip(), tf.keras.layers.RandomRotation(0.1)])
    data = numbers().map(lambda i: (tf.fill([8, 8, 3], tf.cast(i, tf.float32)), i))
    return data.batch(BATCH).map(lambda x, y: (layers(x, training=True), y))


@row(key=lambda parts: parts[1])
def images_augmented_by_seed(files: Path) -> tf.data.Dataset:
    """tf.image.stateless_random_*, with a generator's seeds: the augmentation guide."""
    generator = tf.random.Generator.from_seed(1)

    def augment(i: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        seed = generator.make_seeds(2)[0]
        return tf.image.stateless_random_flip_up_down(tf.fill([8, 8, 3], i), seed), i

    return numbers().map(augment).batch(BATCH)
