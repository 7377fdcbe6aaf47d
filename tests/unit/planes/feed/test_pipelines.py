"""Pipelines run natively: the same batches as TensorFlow's, from one process or a feed, resumed anywhere."""

from __future__ import annotations

import json
import re
import threading
from pathlib import Path

import numpy as np
import pytest
from forked import exit_code_of_fork
from object_server import serving
from own_key import KEY

import tfhet
from tfhet import kernels
from tfhet.errors import DataError, NotReady, UsageError
from tfhet.pipeline import BatchMaker, Pipeline, as_json, from_json, one_by_one, one_epoch
from tfhet.pipeline.read_ahead import ReadAhead
from tfhet.source import Encoded, FileList, ImageFolder, Raw, Scalar, SyntheticSource, TFRecordSource, write_tfrecords
from tfhet.strategies import JobContext

CHAIN = "decode(); random_resized_crop(24, 20); random_flip(); color_jitter(0.4, 0.4, 0.4)"
ALONE = JobContext("alone", "local")


def jpeg(seed: int) -> bytes:
    import io

    from PIL import Image

    rng = np.random.default_rng(seed)
    small = Image.fromarray(rng.integers(0, 256, (8, 9, 3), np.uint8))
    target = io.BytesIO()
    small.resize((60 + seed % 7, 50 + seed % 5)).save(target, "jpeg")
    return target.getvalue()


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """41 photographs of three classes."""
    root = tmp_path_factory.mktemp("photos")
    for number in range(41):
        place = root / f"class{number % 3}" / f"{number:02}.jpg"
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(jpeg(number))
    return root


@pytest.fixture(scope="module")
def records(tmp_path_factory) -> TFRecordSource:
    """The same photographs as TFRecords, in 4 files."""
    root = tmp_path_factory.mktemp("records")
    examples = ({"image": jpeg(number), "label": number % 3} for number in range(41))
    features = {"image": Encoded(), "label": Scalar("int64")}
    return TFRecordSource.from_directory(write_tfrecords(root / "data", examples, 4, features))


def collected(loader) -> list[tuple[np.ndarray, np.ndarray]]:
    return [(images.copy(), labels) for images, labels in loader]


def assert_equal(first, second) -> None:
    assert len(first) == len(second)
    for mine, other in zip(first, second, strict=True):
        for a, b in zip(mine, other, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("shuffle", [False, True])
def test_batches_equal_those_of_tensorflow(records, shuffle):
    pipeline = Pipeline(records, CHAIN, batch_size=8, seed=3, shuffle=shuffle)
    maker = BatchMaker(pipeline)
    for epoch in range(2):
        order = maker.order(epoch)
        native = [maker.make(order[begin : begin + 8], epoch).value for begin in range(0, 41, 8)]
        ids = maker.ids(order[0:41])
        if shuffle:
            theirs = list(one_by_one(pipeline, epoch, ids, 2))
        else:
            theirs = list(one_epoch(pipeline, epoch, threads=1))
        assert_equal(native, [(each["image"].numpy(), each["label"].numpy()) for each in theirs])
        np.testing.assert_array_equal(np.concatenate([each["id"] for each in theirs]), ids)


@pytest.fixture
def served(serve, monkeypatch):
    """`served(processes, rank, size)`: a job whose feed has so many processes."""
    monkeypatch.setattr("tfhet.planes.process.key_from", lambda env: KEY)

    def job(processes: int, rank: int = 0, size: int = 1) -> JobContext:
        servers = [one.address for one in serve(processes)]
        order = {"servers": servers, "hosts": [f"algo-{at}" for at in range(processes)], "encrypted": False}
        return JobContext("job", "heterogeneous", rank, size, rank, size, plane="feed", order=order)

    return job


@pytest.mark.parametrize("processes", [1, 2, 3])
def test_batches_equal_from_a_feed(served, folder, processes):
    pipeline = Pipeline(ImageFolder(folder), CHAIN, batch_size=8, shuffle=True, seed=1)
    alone, fed = (tfhet.batches(pipeline, job=job) for job in (ALONE, served(processes)))
    for _ in range(2):
        assert_equal(collected(alone), collected(fed))
    for loader in (alone, fed):
        assert len(loader) == 6
        loader.close()


def test_tensorflow_reads_native_pipelines(folder):
    pipeline = Pipeline(ImageFolder(folder), CHAIN, batch_size=8, shuffle=True, seed=1)
    data = tfhet.distribute(pipeline, job=ALONE)
    assert int(data.cardinality()) == 6
    expected = tfhet.batches(pipeline, job=ALONE)
    for _ in range(2):
        assert_equal(collected(expected), [(images.numpy(), labels.numpy()) for images, labels in data])
    epoch = list(pipeline.dataset(1))
    assert epoch[0]["image"].shape == (8, 24, 20, 3) and set(epoch[0]) == {"image", "label", "id", "epoch"}
    assert sorted(np.concatenate([each["id"] for each in epoch]).tolist()) == list(range(41))


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_ranks_share_the_steps_of_one_order(folder, size, drop_last):
    def steps(ranks: int) -> list[list[int]]:
        pipeline = Pipeline(
            ImageFolder(folder), "decode(); resize(8, 8)", batch_size=30 // ranks, shuffle=True, drop_last=drop_last
        )
        jobs = [JobContext("job", "homogeneous", rank, ranks, rank, ranks) for rank in range(ranks)]
        loaders = [tfhet.batches(pipeline, job=job) for job in jobs]
        assert len({len(loader) for loader in loaders}) == 1
        found = [[received.ids.tolist() for received in loader._reader.epoch(0)] for loader in loaders]
        return [sum(parts, []) for parts in zip(*found, strict=True)]

    assert steps(size) == steps(1)
    assert len(sum(steps(size), [])) == (30 if drop_last else 41)


@pytest.mark.parametrize("lost", [1, 3000])
def test_cut_records_are_no_shorter_epoch(records, tmp_path, lost):
    for file in records.files:
        (tmp_path / Path(file).name).write_bytes(Path(file).read_bytes())
    last = sorted(tmp_path.iterdir())[-1]
    last.write_bytes(last.read_bytes()[:-lost])
    source = TFRecordSource(str(tmp_path), records.features)
    with pytest.raises(DataError, match=f"{last.name} is broken at byte") as caught:
        BatchMaker(Pipeline(source, CHAIN))
    assert caught.value.path == str(last)


@pytest.mark.parametrize("processes", [0, 1, 2])
def test_remote_batches_are_loaded_ahead(served, folder, processes, monkeypatch):
    pytest.importorskip("obstore")
    groups, loaded = list[list[np.ndarray]](), ReadAhead._loaded
    monkeypatch.setattr(ReadAhead, "_loaded", lambda self, group: groups.append(group) or loaded(self, group))
    local = ImageFolder(folder)
    with serving(folder) as server:
        paths = (f"{server.url}/{Path(path).relative_to(folder)}" for path in local.paths)
        remote = FileList(list(zip(paths, local.labels.tolist(), strict=True)))
        settings = {"batch_size": 4, "shuffle": True, "seed": 2}
        job = served(processes) if processes else ALONE
        loader = tfhet.batches(Pipeline(remote, CHAIN, **settings), job=job, ahead=4)
        found = [collected(loader) for _ in range(3)]
        loader.close()
    wanted = tfhet.batches(Pipeline(local, CHAIN, **settings), job=ALONE)
    for epoch in found:
        assert_equal(epoch, collected(wanted))
    assert len(groups) > 3


def test_record_fewer_than_listed_is_an_error(records, tmp_path):
    last = records.files[-1]
    end = int(kernels.record_offsets(last)[0][1])
    (tmp_path / Path(last).name).write_bytes(Path(last).read_bytes()[:end])
    file = str(tmp_path / Path(last).name)
    with pytest.raises(DataError, match="ends after 1 records, and tfhet.json lists 9"):
        BatchMaker(Pipeline(TFRecordSource([file], records.features, {file: 9}), CHAIN))


def test_forked_process_is_refused(folder):
    loader = tfhet.batches(Pipeline(ImageFolder(folder), CHAIN, batch_size=8), job=ALONE)
    assert len(list(loader)) == 6

    def refused() -> int:
        with pytest.raises(UsageError, match="forked"):
            next(iter(loader))
        return 17

    assert exit_code_of_fork(refused) == 17


def test_epoch_without_a_batch_is_an_error(folder):
    pipeline = Pipeline(ImageFolder(folder), CHAIN, batch_size=64, drop_last=True)
    with pytest.raises(UsageError, match="fill no batch of 64 on each of 1 ranks"):
        list(tfhet.batches(pipeline, job=ALONE))


def test_files_with_other_names_are_counted(tmp_path, caplog):
    (tmp_path / "class0").mkdir()
    for name in ("1.jpg", "2.tiff", "notes.txt", ".hidden"):
        (tmp_path / "class0" / name).write_bytes(jpeg(1))
    assert ImageFolder(tmp_path).example_count() == 1
    assert len(caplog.messages) == 1 and "2 files are not called like images" in caplog.messages[0]


def test_slow_source_ends_the_iteration(folder):
    class Stuck(FileList):
        def load(self, ids):
            released.wait(20)
            return super().load(ids)

    released = threading.Event()
    pipeline = Pipeline(Stuck([(folder / "class0" / "00.jpg", 0)] * 4), CHAIN, batch_size=2)
    loader = tfhet.batches(pipeline, job=ALONE, make_limit_s=0.2)
    with pytest.raises(NotReady, match="batch 0 of epoch 0 .* 0.2 s"):
        next(iter(loader))
    released.set()
    loader.close()


def test_a_rank_reads_one_iteration_at_a_time(folder):
    loader = tfhet.batches(Pipeline(ImageFolder(folder), CHAIN, batch_size=8), job=ALONE)
    first, second = iter(loader), iter(loader)
    next(first)
    next(second)
    with pytest.raises(UsageError, match="another iteration"):
        next(first)
    assert len(list(second)) == 5


def test_state_names_what_differs(folder):
    pipeline = Pipeline(ImageFolder(folder), CHAIN, batch_size=8, shuffle=True, seed=1)
    loader = tfhet.batches(pipeline, job=ALONE)
    next(iter(loader))
    state = json.loads(json.dumps(loader.state_dict()))
    assert state["examples"] == 8
    for changed, named in (
        ({"seed": 2}, "seed"),
        ({"stages": "decode(); resize(8, 8)"}, "stages"),
        ({"source": FileList([(folder / "class0" / "00.jpg", 0)] * 41)}, "data"),
        ({"shuffle": 5}, "shuffle"),
    ):
        other = Pipeline(**{**vars(pipeline), **changed})
        with pytest.raises(UsageError, match=f"other pipeline: {named}"):
            tfhet.batches(other, job=ALONE).load_state_dict(state)


def test_damaged_file_is_named(tmp_path, caplog):
    (tmp_path / "class0").mkdir()
    for number in range(3):
        (tmp_path / "class0" / f"{number}.jpg").write_bytes(jpeg(number))
    (tmp_path / "class0" / "broken.jpg").write_bytes(jpeg(3)[:200])
    with pytest.raises(DataError, match=r"broken\.jpg cannot be decoded"):
        list(tfhet.batches(Pipeline(ImageFolder(tmp_path), CHAIN, batch_size=4), job=ALONE))
    lenient = tfhet.batches(Pipeline(ImageFolder(tmp_path), CHAIN, batch_size=4, max_bad_records=1), job=ALONE)
    assert [len(labels) for _, labels in lenient] == [3]
    # Threads may already make the next epoch.
    assert re.fullmatch(r"left out of epoch 0: .*broken\.jpg cannot be decoded: .*", min(caplog.messages))
    (tmp_path / "class0" / "another.jpg").write_bytes(b"no image")
    with pytest.raises(DataError, match="2 bad records in epoch 0, and max_bad_records is 1"):
        list(tfhet.batches(Pipeline(ImageFolder(tmp_path), CHAIN, batch_size=8, max_bad_records=1), job=ALONE))
    source = ImageFolder(tmp_path)
    (tmp_path / "class0" / "1.jpg").unlink()
    with pytest.raises(DataError, match=r"1\.jpg"):
        list(tfhet.batches(Pipeline(source, CHAIN, batch_size=4), job=ALONE))


def test_each_part_has_its_cost(folder):
    loader = tfhet.batches(Pipeline(ImageFolder(folder), f"{CHAIN}; rescale()", batch_size=8), job=ALONE)
    assert loader.part_us() == {}
    for _ in range(2):
        collected(loader)
    parts = loader.part_us()
    assert list(parts) == ["read", "decode, random_resized_crop, random_flip", "color_jitter", "rescale"]
    assert all(0 < cpu_us <= taken_us * 1.01 for taken_us, cpu_us in parts.values())
    assert parts["decode, random_resized_crop, random_flip"][1] > parts["rescale"][1]


def test_settings_of_tf_data_are_refused(folder):
    for setting, named in (({"interleave": 2}, "interleave"), ({"cache": "/x"}, "cache"), ({"repeat": 2}, "repeat")):
        with pytest.raises(UsageError, match=named):
            BatchMaker(Pipeline(ImageFolder(folder), CHAIN, **setting))


def test_description_makes_an_equal_pipeline(folder, records):
    raw = {"image": Raw((4, 4, 3)), "label": Scalar("int32")}
    for source in (ImageFolder(folder), records, SyntheticSource(9, 2), FileList([(folder / "class0" / "00.jpg", 4)])):
        pipeline = Pipeline(source, "" if isinstance(source, SyntheticSource) else CHAIN, batch_size=4, shuffle=True)
        again = from_json(json.loads(json.dumps(as_json(pipeline))))
        assert again.fingerprint() == pipeline.fingerprint()
    assert raw["image"].array(np.arange(48, dtype=np.uint8)[None]).shape == (1, 4, 4, 3)
    with pytest.raises(DataError, match="int32"):
        raw["label"].array(np.array([[1 << 40]]))
