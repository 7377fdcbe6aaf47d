"""Rows by where the data are: arrays, files of records, lines, images, caches."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import tensorflow as tf

from differential.files import EXAMPLES
from differential.row import BATCH, row

FEATURES = {
    "number": tf.io.FixedLenFeature([], tf.int64),
    "image": tf.io.FixedLenFeature([], tf.string),
    "words": tf.io.VarLenFeature(tf.int64),
}


def parsed(record: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The image and the number of a record."""
    example = tf.io.parse_single_example(record, FEATURES)
    return tf.io.decode_jpeg(example["image"], 3), example["number"]


def image(path: tf.Tensor) -> tf.Tensor:
    return tf.ensure_shape(tf.io.decode_jpeg(tf.io.read_file(path), 3), [8, 8, 3])


def names(folder: Path, pattern: str) -> list[str]:
    return sorted(map(str, folder.glob(pattern)))


@row()
def arrays(files: Path) -> tf.data.Dataset:
    """Arrays of an npz file, as in the guide to NumPy data."""
    with np.load(files / "arrays.npz") as loaded:
        return tf.data.Dataset.from_tensor_slices((loaded["x"], loaded["y"])).batch(BATCH)


@row(holds=EXAMPLES)
def arrays_shuffled(files: Path) -> tf.data.Dataset:
    """Arrays, shuffled as a whole, then batched."""
    with np.load(files / "arrays.npz") as loaded:
        return tf.data.Dataset.from_tensor_slices((loaded["x"], loaded["y"])).shuffle(EXAMPLES).batch(BATCH)


@row()
def arrays_of_62(files: Path) -> tf.data.Dataset:
    """Arrays that do not fill the last batch."""
    return tf.data.Dataset.from_tensor_slices(np.arange(62)).batch(BATCH)


@row()
def columns(files: Path) -> tf.data.Dataset:
    """The columns of a table by name, and the labels."""
    numbers = np.arange(EXAMPLES)
    table = {"age": numbers, "fare": numbers / 4, "sex": np.where(numbers % 2, "f", "m")}
    return tf.data.Dataset.from_tensor_slices((table, numbers % 3)).batch(BATCH)


@row()
def numbers_mapped(files: Path) -> tf.data.Dataset:
    """A range that map turns into examples."""
    return tf.data.Dataset.range(EXAMPLES).map(lambda i: (i, tf.cast(i, tf.float32) ** 2), 2).batch(BATCH).prefetch(1)


@row(batch=0)
def one_element(files: Path) -> tf.data.Dataset:
    """Unbatched numbers."""
    return tf.data.Dataset.range(EXAMPLES)


@row()
def images_from_paths(files: Path) -> tf.data.Dataset:
    """Paths and labels, decoded in map."""
    paths = names(files, "jpeg/*/*.jpg")
    data = tf.data.Dataset.from_tensor_slices((paths, np.arange(len(paths))))
    return data.map(lambda path, label: (image(path), label), tf.data.AUTOTUNE).batch(BATCH).prefetch(tf.data.AUTOTUNE)


@row(holds=8)
def images_listed(files: Path) -> tf.data.Dataset:
    """list_files in its random order, labels from the folders."""
    data = tf.data.Dataset.list_files(str(files / "jpeg/*/*.jpg"))
    data = data.map(lambda path: (image(path), tf.strings.split(path, "/")[-2] == "dog"))
    return data.shuffle(8).batch(BATCH)


@row()
def images_listed_in_order(files: Path) -> tf.data.Dataset:
    """list_files without shuffle."""
    return tf.data.Dataset.list_files(str(files / "jpeg/*/*.jpg"), shuffle=False).map(image).batch(BATCH)


@row(own_batches=True)
def records(files: Path) -> tf.data.Dataset:
    """TFRecord files, one after the other."""
    return tf.data.TFRecordDataset(names(files, "tfrecord/*")).map(parsed).batch(BATCH)


@row(own_batches=True)
def records_compressed(files: Path) -> tf.data.Dataset:
    """Compressed TFRecord files, read in parallel."""
    return tf.data.TFRecordDataset(names(files, "compressed/*"), "GZIP", num_parallel_reads=2).map(parsed).batch(BATCH)


@row(own_batches=True, holds=16)
def records_interleaved(files: Path) -> tf.data.Dataset:
    """The pipeline of the data performance guide: list, interleave, shuffle, map, batch, prefetch."""
    data = tf.data.Dataset.list_files(str(files / "tfrecord/*"))
    data = data.interleave(tf.data.TFRecordDataset, cycle_length=4, num_parallel_calls=tf.data.AUTOTUNE)
    return data.shuffle(16).map(parsed, tf.data.AUTOTUNE).batch(BATCH).prefetch(tf.data.AUTOTUNE)


@row(own_batches=True, holds=8)
def records_cached(files: Path) -> tf.data.Dataset:
    """Decoded records in a cache in memory, shuffled after it."""
    return tf.data.TFRecordDataset(names(files, "tfrecord/*")).map(parsed).cache().shuffle(8).batch(BATCH)


@row(own_batches=True)
def records_counted(files: Path) -> tf.data.Dataset:
    """Records whose number the script asserts."""
    data = tf.data.TFRecordDataset(names(files, "tfrecord/*")).map(parsed).batch(BATCH)
    return data.apply(tf.data.experimental.assert_cardinality(EXAMPLES // BATCH))


@row(own_batches=True)
def records_parsed_in_batches(files: Path) -> tf.data.Dataset:
    """parse_example after batch, with a feature of variable length."""
    data = tf.data.TFRecordDataset(names(files, "tfrecord/*")).batch(BATCH)
    return data.map(lambda batch: tf.io.parse_example(batch, FEATURES)).map(
        lambda example: (example["number"], tf.RaggedTensor.from_sparse(example["words"]))
    )


@row(own_batches=True, batch=0, holds=16)
def records_described(files: Path) -> tf.data.Dataset:
    """make_batched_features_dataset."""
    return tf.data.experimental.make_batched_features_dataset(
        str(files / "tfrecord/*"), BATCH, {"number": FEATURES["number"]}, num_epochs=1, shuffle=False
    ).unbatch()


@row(own_batches=True)
def lines(files: Path) -> tf.data.Dataset:
    """Lines of several text files."""
    return tf.data.TextLineDataset(names(files, "lines/*")).map(tf.strings.upper).batch(BATCH)


@row(own_batches=True)
def lines_labelled(files: Path) -> tf.data.Dataset:
    """One data set per text file, labelled by its file, concatenated: the guide to loading text."""
    first, *others = [
        tf.data.TextLineDataset(name).map(lambda line, at=at: (line, tf.constant(at, tf.int64)))
        for at, name in enumerate(names(files, "lines/*")[:3])
    ]
    for other in others:
        first = first.concatenate(other)
    return first.batch(BATCH)


@row(own_batches=True)
def lines_without_headers(files: Path) -> tf.data.Dataset:
    """CSV files, each without its first line, by flat_map and skip."""
    data = tf.data.Dataset.from_tensor_slices(names(files, "csv/*"))
    data = data.flat_map(lambda name: tf.data.TextLineDataset(name).skip(1))
    return data.map(lambda line: tf.io.decode_csv(line, [0, 0.0, "", 0])).batch(BATCH)


@row(own_batches=True)
def csv(files: Path) -> tf.data.Dataset:
    """make_csv_dataset in the order of the files."""
    return tf.data.experimental.make_csv_dataset(
        str(files / "csv/*"), BATCH, label_name="label", num_epochs=1, shuffle=False
    ).map(lambda columns, label: (columns["number"], columns["kind"], label))


@row(own_batches=True, holds=EXAMPLES)
def csv_shuffled(files: Path) -> tf.data.Dataset:
    """make_csv_dataset as the guide calls it: shuffled."""
    return tf.data.experimental.make_csv_dataset(
        str(files / "csv/*"), BATCH, select_columns=["number", "label"], label_name="label", num_epochs=1
    )


@row(own_batches=True, recipe="csv", advice="make_csv_dataset")
def csv_with_defaults(files: Path) -> tf.data.Dataset:
    """CsvDataset with chosen columns."""
    kinds = [tf.int32, tf.string]
    return tf.data.experimental.CsvDataset(names(files, "csv/*"), kinds, header=True, select_cols=[0, 2]).batch(BATCH)


@row(own_batches=True)
def records_of_fixed_length(files: Path) -> tf.data.Dataset:
    """FixedLengthRecordDataset with a header, as the CIFAR and MNIST binaries have."""
    data = tf.data.FixedLengthRecordDataset(str(files / "records.bin"), 4, header_bytes=4)
    return data.map(lambda record: tf.io.decode_raw(record, tf.int32)[0]).batch(BATCH)


@row(own_batches=True, recipe="records", advice="TFRecord")
def saved(files: Path) -> tf.data.Dataset:
    """A data set that Dataset.save wrote."""
    return tf.data.Dataset.load(str(files / "saved")).batch(BATCH)


@row(own_batches=True, recipe="numbers_mapped", advice="omit it")
def snapshot(files: Path) -> tf.data.Dataset:
    """snapshot of what map made."""
    data = tf.data.Dataset.range(EXAMPLES).map(lambda i: i * 2)
    return data.snapshot(str(files / "snapshot"), compression=None).batch(BATCH)


@row(own_batches=True, recipe="records_cached", advice="cache")
def cache_in_a_file(files: Path) -> tf.data.Dataset:
    """A cache in a file."""
    return tf.data.Dataset.range(EXAMPLES).map(lambda i: i * 2).cache(str(files / "cached")).batch(BATCH)


@row()
def cache_in_memory(files: Path) -> tf.data.Dataset:
    """A cache in memory before batch, as the performance guide has it."""
    return tf.data.Dataset.range(EXAMPLES).map(lambda i: i * 3).cache().batch(BATCH).prefetch(tf.data.AUTOTUNE)


@row(holds=8)
def cache_after_batch(files: Path) -> tf.data.Dataset:
    """Batches in a cache, their order shuffled."""
    return tf.data.Dataset.range(EXAMPLES).batch(BATCH).cache().shuffle(2)
