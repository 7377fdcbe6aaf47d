from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from own_wire import WIRE, _own_wire  # noqa: F401

from tfhet.cluster import free_ports
from tfhet.errors import UsageError
from tfhet.pipeline import Pipeline, one_epoch, settings, stream
from tfhet.source import Raw, Scalar, SyntheticSource, TFRecordSource, write_tfrecords
from tfhet.stages import parse

SIZES = (5, 3, 8, 1, 4)


def taken(text: str, **given: int | str):
    return settings.taken(parse(text), given)


def splits(order: tuple[int, ...] = (0, 1, 2, 3, 4)) -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices(tf.constant(order, tf.int64))


def records(split: tf.Tensor) -> tf.data.Dataset:
    """(split, position) of each example."""
    size = tf.gather(tf.constant(SIZES, tf.int64), split)
    return tf.data.Dataset.range(size).map(lambda position: (split, position))


def read(interleave: int, order: tuple[int, ...] = (0, 1, 2, 3, 4)) -> list[tuple[int, int]]:
    data = stream.side_by_side(splits(order), records, interleave)
    return [(int(split), int(position)) for split, position in data]


def in_turn(interleave: int, order: tuple[int, ...] = (0, 1, 2, 3, 4)) -> list[tuple[int, int]]:
    """By definition: one example of each of the splits at hand; one that has ended makes room for the next, which
    comes a turn later."""
    waiting = [iter([(split, position) for position in range(SIZES[split])]) for split in order]
    hands: list = [None] * interleave
    found = []
    while waiting or any(hands):
        for place in range(interleave):
            if hands[place] is None and waiting:
                hands[place] = waiting.pop(0)
            example = next(hands[place], None) if hands[place] is not None else None
            if example is None:
                hands[place] = None
            else:
                found.append(example)
    return found


# Written as stages


def test_stream_stages_set_fields():
    images, settings = taken(
        "interleave(8); cache('/tmp/kept'); shuffle(500); repeat(3); batch(64); random_flip(); rescale(); prefetch(4)"
    )
    assert images == parse("random_flip(); rescale()")
    assert settings == {
        "interleave": 8,
        "cache": "/tmp/kept",
        "shuffle": 500,
        "repeat": 3,
        "batch_size": 64,
        "prefetch": 4,
    }
    assert taken("rescale()") == (parse("rescale()"), {})
    assert taken("shuffle(9); prefetch(1)") == ((), {"shuffle": 9, "prefetch": 1})


def test_equal_values_may_be_given_twice():
    assert taken("shuffle(9)", shuffle=9)[1] == {"shuffle": 9}


@pytest.mark.parametrize(
    ("text", "given", "complaint"),
    [
        ("shuffle(9); shuffle(9)", {}, "shuffle"),
        ("shuffle(9)", {"shuffle": 10}, "shuffle: is 9.* 10"),
        ("batch(9)", {"batch_size": 10}, "batch: is 9.* batch_size is 10"),
        ("random_flip(); shuffle(9)", {}, "shuffle: .*random_flip"),
        ("random_flip(); cache('/tmp/a')", {}, "cache: .*random_flip"),
        ("random_flip(); batch(9)", {}, "batch: .*random_flip"),
        ("prefetch(2); random_flip()", {}, "random_flip: .*prefetch"),
        ("batch(9); shuffle(9)", {}, "shuffle: .*shuffle; batch"),
        ("interleave(2); repeat(2); shuffle(9)", {}, "interleave; shuffle; repeat"),
        ("prefetch(2); batch(9)", {}, "batch: .*batch; prefetch"),
    ],
)
def test_contradictions_and_wrong_order_are_refused(text, given, complaint):
    with pytest.raises(UsageError, match=complaint):
        taken(text, **given)


@pytest.mark.parametrize(
    "text", ["shuffle(1)", "batch(0)", "prefetch(0)", "interleave(0)", "repeat(-1)", "cache('here')", "cache()"]
)
def test_stage_values_out_of_range_are_refused(text):
    with pytest.raises(UsageError, match=f"stage {text.split('(')[0]}: "):
        parse(text)


@pytest.mark.parametrize(
    ("field", "value"),
    [("batch_size", 0), ("shuffle", -1), ("interleave", 0), ("prefetch", 0), ("repeat", -1), ("cache", "here")],
)
def test_fields_out_of_range_are_refused(field, value):
    usual = {name: getattr(Pipeline, name) for name in settings.FIELDS}
    with pytest.raises(UsageError, match=field):
        settings.check({**usual, field: value})
    settings.check({**usual, "cache": "s3://bucket/kept"})


# Passes


def test_epochs_have_their_own_passes():
    assert settings.passes(1, 5) == range(5, 6)
    assert [list(settings.passes(3, epoch)) for epoch in range(3)] == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    assert settings.passes(3, None) is settings.passes(0, None) is settings.passes(0, 0) is settings.ENDLESS


def test_no_epoch_follows_an_endless_one():
    with pytest.raises(UsageError, match="epoch 1 "):
        settings.passes(0, 1)


# Reading side by side


@pytest.mark.parametrize("interleave", [1, 2, 3, 9])
@pytest.mark.parametrize("order", [(0, 1, 2, 3, 4), (2, 4, 0, 3, 1), (4, 3, 2, 1, 0)])
def test_splits_give_an_example_each_in_turn(interleave, order):
    assert read(interleave, order) == in_turn(interleave, order)


def test_distributed_splits_are_read_once():
    service, of_the_wire = tf.data.experimental.service, {"protocol": WIRE.protocol}
    port, *ports = free_ports(3)
    dispatcher = service.DispatchServer(service.DispatcherConfig(port=port, **of_the_wire))
    workers = [
        service.WorkerServer(
            service.WorkerConfig(f"127.0.0.1:{port}", f"127.0.0.1:{worker}", port=worker, **of_the_wire)
        )
        for worker in ports
    ]
    data = stream.side_by_side(tf.data.Dataset.range(5), records, 2)
    service = service.distribute(service.ShardingPolicy.DYNAMIC, f"{WIRE.protocol}://127.0.0.1:{port}", job_name="once")
    found = Counter((int(split), int(position)) for split, position in data.apply(service))
    assert found == Counter(read(1))
    del workers, dispatcher


# Kept records


@pytest.fixture
def source(tmp_path: Path) -> TFRecordSource:
    rng = np.random.default_rng(0)
    examples = ({"image": rng.integers(0, 256, (4, 4, 1), np.uint8), "label": i} for i in range(30))
    write_tfrecords(tmp_path / "data", examples, 3, {"image": Raw((4, 4, 1)), "label": Scalar()})
    return TFRecordSource.from_directory(tmp_path / "data")


def kept(source: TFRecordSource, directory: Path, fingerprint: str = "") -> tf.data.Dataset:
    def read(split: tf.Tensor) -> tf.data.Dataset:
        return stream.cached(source.read(split), str(directory), fingerprint or source.fingerprint(), split)

    return stream.side_by_side(tf.data.Dataset.range(source.split_count()), read, 1)


def rows(data: tf.data.Dataset) -> list[tuple[int, bytes]]:
    return [(int(position), record.numpy()) for position, record in data]


def plain(source: TFRecordSource) -> list[tuple[int, bytes]]:
    return rows(tf.data.Dataset.range(source.split_count()).flat_map(source.read))


def emptied(source: TFRecordSource) -> None:
    """From now on only what was kept can be read."""
    for file in source.files:
        Path(file).write_bytes(b"")


def test_kept_records_are_the_same(source, tmp_path):
    expected, data = plain(source), kept(source, tmp_path / "kept")
    assert rows(data) == expected
    emptied(source)
    assert rows(data) == expected
    # In another graph too.
    fingerprint = next((tmp_path / "kept").iterdir()).name
    assert rows(kept(source, tmp_path / "kept", fingerprint)) == expected


def test_another_source_has_other_files(source, tmp_path):
    list(kept(source, tmp_path / "kept", "f" * 32))
    list(kept(source, tmp_path / "kept", "e" * 32))
    assert {path.name for path in (tmp_path / "kept").iterdir()} == {"f" * 16, "e" * 16}
    assert len(list((tmp_path / "kept" / ("f" * 16)).iterdir())) == source.split_count()


def test_interrupted_reader_leaves_no_complete_file(source, tmp_path):
    expected, data = plain(source), kept(source, tmp_path / "kept", "a")
    for count in (3, 14, 29):
        assert len(rows(data.take(count))) == count
        assert rows(data) == expected
        shutil.rmtree(tmp_path / "kept")
    assert rows(data.take(14)) == expected[:14]
    assert rows(data) == expected
    emptied(source)
    assert rows(data) == expected


def test_leftovers_of_a_killed_writer_are_ignored(source, tmp_path):
    expected, data = plain(source), kept(source, tmp_path / "kept", "a")
    iterator = iter(data)
    for _ in range(14):
        next(iterator)
    # What is on the disk while the second split is under way is what a killed process leaves.
    shutil.copytree(tmp_path / "kept", tmp_path / "left")
    del iterator
    assert rows(kept(source, tmp_path / "left", "a")) == expected
    assert rows(kept(source, tmp_path / "left", "a")) == expected


def test_two_concurrent_writers_read_everything(source, tmp_path):
    expected = plain(source)
    one, other = (iter(kept(source, tmp_path / "kept", "a")) for _ in range(2))
    found: tuple[list, list] = ([], [])
    for first, second in zip(one, other, strict=True):
        for rows_found, (position, record) in zip(found, (first, second), strict=True):
            rows_found.append((int(position), record.numpy()))
    assert list(found[0]) == list(found[1]) == expected
    emptied(source)
    assert rows(kept(source, tmp_path / "kept", "a")) == expected


# Together, in a pipeline

FLOW = "interleave(3); cache('{}'); shuffle(10); repeat(2); batch(7)"
IMAGES = "one_hot(10); random_flip(); one_of(mixup(), cutmix())"
SYNTHETIC = SyntheticSource(50, 8, shape=(6, 4, 3), uneven=True)


def seen(batches: Iterable[Mapping[str, tf.Tensor]]) -> list[tuple[int, int]]:
    return [(int(e), int(i)) for batch in batches for e, i in zip(batch["epoch"], batch["id"], strict=True)]


def test_every_pass_of_an_epoch_is_complete(tmp_path):
    pipeline = Pipeline(SYNTHETIC, f"{FLOW.format(tmp_path / 'kept')}; {IMAGES}")
    for _ in range(2):  # while the records are being kept, and then from there
        found = Counter(row for share in range(3) for row in seen(one_epoch(pipeline, 1, (share, 3), 1)))
        assert set(found.values()) == {1}
        assert Counter(epoch for epoch, _ in found) == {2: 50, 3: 50}


def test_every_pass_of_an_endless_epoch_is_complete():
    batches = one_epoch(Pipeline(SYNTHETIC, "interleave(4); batch(10)"), None, threads=1).take(26)
    rows = seen(batches)
    assert len(set(rows)) == len(rows)
    passes = Counter(epoch for epoch, _ in rows)
    assert [passes[epoch] for epoch in range(5)] == [50] * 5
    repeated = Pipeline(SYNTHETIC, "interleave(4); repeat(0); batch(10)")
    assert rows[:200] == seen(one_epoch(repeated, 0, threads=1).take(20))


def test_labels_are_mixed_with_their_images():
    pipeline = Pipeline(SYNTHETIC, "batch(16); one_hot(10); mixup(1.0)", record_parameters=True)
    assert pipeline.dataset().element_spec["label"] == tf.TensorSpec([None, 10], tf.float32)
    for batch in one_epoch(pipeline, 0, threads=1):
        numbers = SYNTHETIC.parse(batch["id"])["label"].numpy()
        rows, share = np.eye(10)[numbers], batch["mixup:1/share"].numpy()[:, None]
        np.testing.assert_allclose(batch["label"], (1 - share) * rows + share * np.roll(rows, -1, 0), atol=1e-6)


def test_stream_stage_is_the_same_setting():
    written = Pipeline(SYNTHETIC, "interleave(2); shuffle(30); repeat(2); batch(7); random_flip(); prefetch(3)", seed=4)
    given = Pipeline(SYNTHETIC, "random_flip()", interleave=2, shuffle=30, repeat=2, batch_size=7, prefetch=3, seed=4)
    assert written == given
    assert written.fingerprint() == given.fingerprint()
