"""Rows by operations that depend on the position of elements: zip, splits, windows, repeat, shuffle."""

from __future__ import annotations

from pathlib import Path

import tensorflow as tf

from differential.files import EXAMPLES
from differential.row import BATCH, row
from differential.rows.sources import image, names, parsed

SPLIT = {"recipe": "split_by_seed", "advice": "tfhet.split"}
"""For splits of data whose order is random."""


def numbers() -> tf.data.Dataset:
    return tf.data.Dataset.range(EXAMPLES)


def squares() -> tf.data.Dataset:
    return numbers().map(lambda i: i * i, num_parallel_calls=2)


def mask(path: tf.Tensor) -> tf.Tensor:
    return tf.ensure_shape(tf.io.decode_png(tf.io.read_file(path), 1), [8, 8, 1])


@row()
def images_and_masks(files: Path) -> tf.data.Dataset:
    """Images zipped with their masks, decoded after zip: the segmentation guide."""
    data = tf.data.Dataset.from_tensor_slices(names(files, "masks/*"))
    return tf.data.Dataset.zip((data.map(mask), numbers())).batch(BATCH)


@row(holds=8)
def zip_of_maps_shuffled(files: Path) -> tf.data.Dataset:
    """Two mapped data sets zipped, then shuffled."""
    return tf.data.Dataset.zip((numbers(), squares())).shuffle(8).batch(BATCH).prefetch(1)


@row()
def zip_of_three(files: Path) -> tf.data.Dataset:
    """A dictionary of data sets, zipped with labels."""
    data = {"a": numbers(), "b": squares().map(tf.strings.as_string)}
    return tf.data.Dataset.zip((data, squares())).batch(BATCH)


@row()
def zip_with_counter(files: Path) -> tf.data.Dataset:
    """Examples numbered by a counter: the augmentation guide's seeds."""
    counter = tf.data.experimental.Counter()
    return tf.data.Dataset.zip((squares(), (counter, counter))).map(lambda x, seed: (x, seed[0])).batch(BATCH)


@row()
def zip_with_a_constant(files: Path) -> tf.data.Dataset:
    """One label for all examples."""
    return tf.data.Dataset.zip((squares(), tf.data.Dataset.from_tensors(1).repeat())).batch(BATCH)


@row()
def zip_of_unequal_lengths(files: Path) -> tf.data.Dataset:
    """The shorter data set ends a zip."""
    return tf.data.Dataset.zip((numbers(), numbers().take(50))).batch(BATCH)


@row(recipe="zip_of_maps_shuffled", advice="zip")
def zip_of_batches(files: Path) -> tf.data.Dataset:
    """Batches zipped with batches."""
    return tf.data.Dataset.zip((numbers().batch(BATCH), squares().batch(BATCH)))


@row(recipe="records", advice="zip", own_batches=True)
def zip_of_records(files: Path) -> tf.data.Dataset:
    """Records of two passes over the same files, zipped."""
    data = tf.data.TFRecordDataset(names(files, "tfrecord/*")).map(parsed)
    return tf.data.Dataset.zip((data, data)).map(lambda one, other: (one[1], other[1])).batch(BATCH)


@row()
def enumerated(files: Path) -> tf.data.Dataset:
    """enumerate of an order that does not change."""
    return squares().enumerate().batch(BATCH)


@row(recipe="enumerated", advice="depends on the order")
def enumerated_batches(files: Path) -> tf.data.Dataset:
    """Numbered batches."""
    return squares().batch(BATCH).enumerate().map(lambda at, batch: (batch, tf.fill(tf.shape(batch), at)))


@row(recipe="enumerated", advice="depends on the order", own_batches=True)
def enumerated_records(files: Path) -> tf.data.Dataset:
    """Numbered records of files."""
    data = tf.data.TFRecordDataset(names(files, "tfrecord/*")).map(parsed)
    return data.enumerate().map(lambda at, example: (at, example[1])).batch(BATCH)


@row()
def split_by_take(files: Path) -> tuple[tf.data.Dataset, tf.data.Dataset]:
    """take and skip of an order that does not change."""
    return squares().take(48).batch(BATCH), squares().skip(48).batch(BATCH)


@row()
def split_of_images(files: Path) -> tuple[tf.data.Dataset, tf.data.Dataset]:
    """The image guide's split: listed files, shuffled once with a seed, by skip and take, then decoded."""
    listed = tf.data.Dataset.list_files(str(files / "jpeg/*/*.jpg"), shuffle=False)
    listed = listed.shuffle(EXAMPLES, seed=3, reshuffle_each_iteration=False)
    return listed.skip(16).map(image).batch(BATCH), listed.take(16).map(image).batch(BATCH)


@row()
def split_of_batches(files: Path) -> tuple[tf.data.Dataset, tf.data.Dataset]:
    """take and skip of batches: the transfer learning guide."""
    batches = squares().batch(BATCH)
    return batches.skip(5), batches.take(5)


@row()
def split_by_shard(files: Path) -> tuple[tf.data.Dataset, tf.data.Dataset]:
    """Every fourth example is validation data."""
    validation = squares().shard(4, 0)
    training = squares().enumerate().filter(lambda at, _: at % 4 != 0).map(lambda _, x: x)
    return training.batch(BATCH), validation.batch(BATCH)


@row(**SPLIT)
def split_of_a_reshuffled_order(files: Path) -> tuple[tf.data.Dataset, tf.data.Dataset]:
    """take and skip after a shuffle that draws another order in each pass: leaks even alone."""
    data = squares().shuffle(EXAMPLES, seed=3)
    return data.take(48).batch(BATCH), data.skip(48).batch(BATCH)


@row(**SPLIT)
def split_of_an_unseeded_order(files: Path) -> tuple[tf.data.Dataset, tf.data.Dataset]:
    """take and skip after one shuffle without a seed: another order in each process."""
    data = squares().shuffle(EXAMPLES, reshuffle_each_iteration=False)
    return data.take(48).batch(BATCH), data.skip(48).batch(BATCH)


@row(own_batches=True, recipe="split_by_seed", advice="split")
def split_of_records(files: Path) -> tuple[tf.data.Dataset, tf.data.Dataset]:
    """take and skip of records."""
    data = tf.data.TFRecordDataset(names(files, "tfrecord/*")).map(parsed)
    return data.take(48).batch(BATCH), data.skip(48).batch(BATCH)


@row(own_batches=True)
def split_of_files(files: Path) -> tuple[tf.data.Dataset, tf.data.Dataset]:
    """Some files are training data, others validation data."""
    paths = names(files, "tfrecord/*")
    made = [tf.data.TFRecordDataset(some).map(parsed).batch(BATCH) for some in (paths[:6], paths[6:])]
    return made[0], made[1]


@row()
def split_by_number(files: Path) -> tuple[tf.data.Dataset, tf.data.Dataset]:
    """filter by a property of the example."""
    training = numbers().filter(lambda i: i % 4 != 0)
    validation = numbers().filter(lambda i: i % 4 == 0)
    return training.batch(BATCH), validation.batch(BATCH)


@row()
def beginning(files: Path) -> tf.data.Dataset:
    """The first examples, to try a script."""
    return squares().take(20).batch(BATCH)


@row()
def middle(files: Path) -> tf.data.Dataset:
    """skip and take in the middle of a pipeline that continues."""
    return squares().skip(8).take(40).map(lambda i: i + 1).batch(BATCH)


@row()
def two_joined(files: Path) -> tf.data.Dataset:
    """One data set after the other."""
    return squares().concatenate(squares().map(lambda i: -i - 1)).batch(BATCH)


@row(recipe="lines", advice="concatenate", own_batches=True)
def records_joined(files: Path) -> tf.data.Dataset:
    """Records of files after numbers."""
    data = tf.data.TFRecordDataset(names(files, "tfrecord/*")).map(lambda record: parsed(record)[1])
    return numbers().map(lambda i: -i - 1).concatenate(data).batch(BATCH)


@row(recipe="two_joined", advice="concatenate", holds=8)
def batches_joined(files: Path) -> tf.data.Dataset:
    """Batches after batches."""
    return numbers().batch(BATCH).concatenate(squares().map(lambda i: -i - 1).batch(BATCH))


@row(recipe="two_joined", advice="depends on the order")
def mixed(files: Path) -> tf.data.Dataset:
    """sample_from_datasets with weights and a seed."""
    other = squares().map(lambda i: -i - 1)
    return tf.data.Dataset.sample_from_datasets([numbers(), other], [0.7, 0.3], seed=3).batch(BATCH)


@row(recipe="two_joined", advice="choose among the results")
def chosen(files: Path) -> tf.data.Dataset:
    """choose_from_datasets in turn."""
    turns = tf.data.Dataset.range(2).repeat(EXAMPLES)
    other = squares().map(lambda i: -i - 1)
    return tf.data.Dataset.choose_from_datasets([numbers(), other], turns).batch(BATCH)


@row(recipe="windows_in_arrays", advice="window")
def windows(files: Path) -> tf.data.Dataset:
    """Overlapping windows by window and flat_map: the time series guides."""
    data = numbers().window(8, shift=4, drop_remainder=True)
    data = data.flat_map(lambda window: window.batch(8, drop_remainder=True))
    return data.map(lambda window: (window[:-1], window[-1])).batch(BATCH)


@row(recipe="windows_in_arrays", advice="window")
def windows_of_pairs(files: Path) -> tf.data.Dataset:
    """Windows of features and labels, zipped inside."""
    data = tf.data.Dataset.from_tensor_slices((list(range(EXAMPLES)), list(range(EXAMPLES))))
    data = data.window(4, shift=2, drop_remainder=True)
    return data.flat_map(lambda x, y: tf.data.Dataset.zip((x.batch(4), y.batch(4)))).batch(BATCH)


@row()
def windows_in_arrays(files: Path) -> tf.data.Dataset:
    """Windows cut from an array by their starts."""
    series = tf.range(EXAMPLES)
    starts = tf.data.Dataset.range(0, EXAMPLES - 8, 4)
    return starts.map(lambda at: tf.ensure_shape(series[at : at + 8], [8])).batch(BATCH)


@row(recipe="windows_in_arrays", advice="batch")
def batches_as_windows(files: Path) -> tf.data.Dataset:
    """batch as a window: features are all but the last, labels all but the first."""
    data = numbers().batch(8, drop_remainder=True)
    return data.map(lambda window: (window[:-1], window[1:])).batch(BATCH)


@row(batch=2, recipe="windows_in_arrays", advice="batch")
def nested_windows(files: Path) -> tf.data.Dataset:
    """Batches of batches."""
    return numbers().batch(4).batch(2)


@row(recipe="windows_in_arrays", advice="window", batch=0)
def data_sets_as_elements(files: Path) -> tf.data.Dataset:
    """window without flat_map: alone, a script reads each window itself."""
    return numbers().window(4).map(lambda window: window.batch(4).get_single_element())


@row(holds=EXAMPLES)
def shuffled_after_batch(files: Path) -> tf.data.Dataset:
    """The order of batches shuffled."""
    return squares().batch(BATCH).shuffle(16)


@row(holds=16)
def shuffled_twice(files: Path) -> tf.data.Dataset:
    """Two shuffles, one with a seed."""
    return squares().shuffle(8, seed=1).map(lambda i: i + 1).shuffle(8).batch(BATCH)


@row(holds=EXAMPLES)
def shuffled_with_a_seed(files: Path) -> tf.data.Dataset:
    """A shuffle with a fixed seed."""
    return squares().shuffle(EXAMPLES, seed=5).batch(BATCH)


@row(holds=2 * EXAMPLES)
def repeated_before_batch(files: Path) -> tf.data.Dataset:
    """Two repetitions in one pass; a batch may hold the end of the first and the begin of the second."""
    return tf.data.Dataset.range(62).repeat(2).batch(BATCH)


@row(holds=2 * EXAMPLES)
def repeated_after_batch(files: Path) -> tf.data.Dataset:
    """Each repetition with its own last batch."""
    return tf.data.Dataset.range(62).batch(BATCH).repeat(2)


@row(holds=2 * EXAMPLES)
def shuffled_and_repeated(files: Path) -> tf.data.Dataset:
    """shuffle before repeat, several epochs in one pass."""
    return squares().shuffle(16).repeat(2).batch(BATCH)


@row(holds=2 * EXAMPLES)
def repeated_and_taken(files: Path) -> tf.data.Dataset:
    """A pass that ends in the middle of the second repetition."""
    return squares().repeat().take(96).batch(BATCH)


@row(steps=16)
def endless(files: Path) -> tuple[tf.data.Dataset, tf.data.Dataset]:
    """Training data that repeat without end, with steps_per_epoch."""
    return squares().repeat().batch(BATCH), squares().batch(BATCH)


@row()
def whole_batches(files: Path) -> tf.data.Dataset:
    """drop_remainder, with examples that fill all batches."""
    return squares().batch(BATCH, drop_remainder=True)


@row(own_batches=True, recipe="arrays_of_62", advice="drop_remainder")
def whole_batches_of_62(files: Path) -> tf.data.Dataset:
    """drop_remainder with a remainder."""
    return tf.data.Dataset.range(62).batch(BATCH, drop_remainder=True)


@row(own_batches=True)
def whole_batches_of_records(files: Path) -> tf.data.Dataset:
    """drop_remainder of records."""
    return tf.data.TFRecordDataset(names(files, "tfrecord/*")).map(parsed).batch(BATCH, drop_remainder=True)


@row()
def batched_in_parallel(files: Path) -> tf.data.Dataset:
    """batch with parallel calls, not deterministic."""
    return squares().batch(BATCH, num_parallel_calls=2, deterministic=False)


@row()
def unbatched(files: Path) -> tf.data.Dataset:
    """Batches taken apart, filtered and made again."""
    return squares().batch(16).unbatch().filter(lambda i: i % 2 == 0).batch(BATCH)


@row(own_batches=True)
def rebatched(files: Path) -> tf.data.Dataset:
    """Batches of another size."""
    return squares().batch(16).rebatch(BATCH)


@row(recipe="numbers_mapped", advice="scan")
def running_total(files: Path) -> tf.data.Dataset:
    """scan: each element depends on those before."""
    return numbers().scan(tf.constant(0, tf.int64), lambda total, i: (total + i, total + i)).batch(BATCH)


@row(recipe="split_by_number", advice="take_while")
def while_small(files: Path) -> tf.data.Dataset:
    """take_while of ordered numbers."""
    return numbers().take_while(lambda i: i < 40).batch(BATCH)


@row(recipe="split_by_number", advice="unique")
def distinct(files: Path) -> tf.data.Dataset:
    """unique of numbers that come twice."""
    return numbers().map(lambda i: i % 32).unique().batch(BATCH)


@row(recipe="numbers_mapped", advice="divided")
def grouped(files: Path) -> tf.data.Dataset:
    """group_by_window: batches of one kind of example."""
    return numbers().group_by_window(lambda i: i % 2, lambda _, window: window.batch(BATCH), window_size=BATCH)


@row(recipe="enumerated", advice="depends on the order", holds=8)
def enumerated_after_shuffle(files: Path) -> tf.data.Dataset:
    """Positions of a random order: the steps of a pass."""
    return squares().shuffle(8).enumerate().map(lambda _, i: i).batch(BATCH)


@row(recipe="split_by_seed", advice="shard")
def sharded_by_the_script(files: Path) -> tf.data.Dataset:
    """A script that keeps one half of a random order."""
    return squares().shuffle(EXAMPLES).shard(2, 0).batch(BATCH)


@row()
def filtered(files: Path) -> tf.data.Dataset:
    """filter before batch: the number of batches is unknown."""
    return squares().filter(lambda i: i % 3 == 0).batch(BATCH)


@row()
def flattened(files: Path) -> tf.data.Dataset:
    """flat_map: several examples of each element."""
    return numbers().flat_map(lambda i: tf.data.Dataset.from_tensors(i).repeat(i % 3)).batch(BATCH)


@row()
def interleaved_ranges(files: Path) -> tf.data.Dataset:
    """interleave of data sets without files."""
    return tf.data.Dataset.range(8).interleave(lambda i: tf.data.Dataset.range(i * 8, i * 8 + 8)).batch(BATCH)
