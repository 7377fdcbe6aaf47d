"""Objects: requests and their ranges, and servers that are slow, cut their answers, or refuse."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from object_server import BUCKET, ObjectServer, connected

import tfhet
from tfhet import extras
from tfhet.errors import DataError, UsageError
from tfhet.source import (
    Encoded,
    FileList,
    ImageFolder,
    Raw,
    Scalar,
    TarSource,
    TFRecordSource,
    example_id,
    object_store,
    write_tfrecords,
)

pytest.importorskip("obstore")
CONTENT = np.random.default_rng(0).bytes(300_000)


@pytest.fixture
def server(tmp_path, monkeypatch):
    (tmp_path / "a.bin").write_bytes(CONTENT)
    (tmp_path / "b c.bin").write_bytes(CONTENT[::-1])
    monkeypatch.setattr(object_store, "REQUEST_S", 1)
    monkeypatch.setattr(object_store, "RETRIES", 1)
    with connected(tmp_path, monkeypatch) as made:
        yield made


def test_near_ranges_are_one_request(server):
    url, near = f"{server.url}/a.bin", object_store.GAP_BYTES
    begins, sizes = [30_000, 0, 100, 200_000, 30_005], [10, 50, near, 7, 0]
    found = object_store.read([url] * 5, begins, sizes)
    assert list(found) == [CONTENT[begin : begin + size] for begin, size in zip(begins, sizes, strict=True)]
    assert sorted(server.requests) == [("a.bin", "bytes=0-30009"), ("a.bin", "bytes=200000-200006")]


def test_large_ranges_are_parts_of_a_file(server, monkeypatch):
    monkeypatch.setattr(object_store, "PART_BYTES", 100_000)
    with object_store.opened(f"s3://{BUCKET}/b c.bin", 250_000) as file:
        assert file.read(260_000) == CONTENT[::-1][:260_000]
        file.seek(-4, os.SEEK_END)
        assert file.read() == CONTENT[::-1][-4:]
    assert ("b c.bin", "bytes=100000-199999") in server.requests


def test_listing_has_all_pages():
    store = object_store._store("memory://", os.getpid())
    names = [f"many/{at:05} a+b%41.jpg" for at in range(2500)]
    for name in names:
        object_store.obstore.put(store, name, b"x")
    assert object_store.listed("memory:///many/") == [f"memory:///{name}" for name in names]
    assert object_store.listed("memory:///man") == []
    assert list(object_store.read([f"memory:///{names[7]}"])) == [b"x"]


@pytest.mark.parametrize("scheme", ["http", "s3"])
@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("slow", "a.bin"),
        ("short", "a.bin"),
        ("busy", "a.bin.*503"),
        ("forbidden", "a.bin.*credentials"),
        ("whole", "a.bin"),
    ],
)
def test_fault_of_a_server_names_the_url(server, fault, message, scheme):
    server.faults["a.bin"] = fault
    url, began_s = f"{server.url if scheme == 'http' else f's3://{BUCKET}'}/a.bin", time.monotonic()
    with pytest.raises(DataError, match=message) as caught:
        object_store.read([url], [5], [100_000])
    assert caught.value.path == url
    assert time.monotonic() - began_s < 20
    if fault in ("slow", "short"):
        with pytest.raises(DataError, match="a.bin"):
            object_store.read([url])


def test_busy_server_is_asked_again(server):
    server.faults["a.bin"] = "busy once"
    assert list(object_store.read([f"{server.url}/a.bin"])) == [CONTENT]
    assert len(server.requests) == 2


def test_missing_and_shorter_objects_are_named(server):
    with pytest.raises(DataError, match=r"nothing\.bin.*check the URL"):
        object_store.read([f"s3://{BUCKET}/a.bin", f"s3://{BUCKET}/nothing.bin"])
    with pytest.raises(DataError, match="a.bin"):
        object_store.read([f"{server.url}/a.bin"], [299_990], [100])
    assert not object_store.exists(f"{server.url}/nothing.bin")


@pytest.mark.parametrize("fault", ["", "any version"])
def test_replaced_object_is_no_other_data(server, tmp_path, fault):
    server.faults["a.bin"] = fault
    url = f"s3://{BUCKET}/a.bin"
    (found,) = object_store.facts([url])
    assert found.size == len(CONTENT)
    (tmp_path / "a.bin").write_bytes(bytes(len(CONTENT)))
    with pytest.raises(DataError, match="replaced"):
        object_store.read([url], [0], [10], [found.tag])


def test_requests_that_do_not_end_have_a_deadline(server, monkeypatch):
    server.faults["a.bin"] = "slow"
    monkeypatch.setattr(object_store, "LIMIT_S", 0.2)
    with pytest.raises(DataError, match="did not arrive within 0.2 s"):
        object_store.read([f"{server.url}/a.bin"])


def test_urls_that_cannot_be_read_are_refused(server, monkeypatch):
    with pytest.raises(UsageError, match="query"):
        FileList([(f"{server.url}/a.bin?key=1", 0)]).load(np.array([0]))
    with pytest.raises(UsageError, match="list"):
        ImageFolder(f"{server.url}/")
    with pytest.raises(UsageError, match="list"):
        TarSource(f"{server.url}/*.tar")
    with pytest.raises(UsageError, match="no sub-folders"):
        ImageFolder(f"s3://{BUCKET}/")
    with pytest.raises(UsageError, match="object store"):
        object_store.facts(["s3:///a.bin"])
    monkeypatch.setattr(extras, "has", lambda _: False)
    with pytest.raises(extras.MissingPackage, match=r"tfhet\[object_store\]"):
        ImageFolder(f"s3://{BUCKET}/")
    for make in (ImageFolder, TarSource, lambda url: FileList([(url, 0)])):
        with pytest.raises(extras.MissingPackage, match=r"tfhet\[object_store\]"):
            make("gs://bucket/data")
        with pytest.raises(UsageError, match="hdfs://host/data is not on this host"):
            make("hdfs://host/data")


def test_directory_has_its_description(server, tmp_path, monkeypatch):
    monkeypatch.setattr("tfhet.source.index_file.cache_dir", lambda _: tmp_path / "cache")
    examples = ({"image": bytes([at]) * 40_000, "label": at % 3} for at in range(20))
    features = {"image": Encoded(), "label": Scalar()}
    local = TFRecordSource.from_directory(write_tfrecords(tmp_path / "data", examples, 2, features, classes="abc"))
    remote = TFRecordSource.from_directory(f"s3://{BUCKET}/data", classes="cab")
    assert remote.split_sizes() == local.split_sizes()
    remote.check()
    ids = np.array([example_id(1, 3), example_id(0, 2), example_id(0, 3)])
    server.requests.clear()
    found, wanted = remote.load(ids), local.load(ids)
    assert list(found["image"]) == list(wanted["image"])
    assert found["label"].tolist() == ((wanted["label"] + 1) % 3).tolist()
    assert len(server.requests) == 2  # neighbours are one request
    with pytest.raises(UsageError, match="HTTP does not list"):
        TFRecordSource(f"{server.url}/data", features)


@pytest.mark.parametrize("shuffle", [False, 64])
def test_windows_of_shards_are_large_ranges(server, tmp_path, monkeypatch, shuffle):
    monkeypatch.setattr("tfhet.source.index_file.cache_dir", lambda _: tmp_path / "cache")
    images = np.random.default_rng(0).integers(0, 256, (256, 100, 100, 3), np.uint8)
    features = {"image": Raw((100, 100, 3)), "label": Scalar()}
    examples = ({"image": image, "label": at} for at, image in enumerate(images))
    write_tfrecords(tmp_path / "data", examples, 2, features)
    pipelines = [
        tfhet.Pipeline(TFRecordSource.from_directory(place), "", batch_size=4, shuffle=shuffle)
        for place in (tmp_path / "data", f"s3://{BUCKET}/data")
    ]
    local, remote = map(tfhet.batches, pipelines)
    server.requests.clear()
    for mine, wanted in zip(remote, local, strict=True):
        np.testing.assert_array_equal(mine[0], wanted[0])
        np.testing.assert_array_equal(mine[1], wanted[1])
    remote.close()
    assert len(server.requests) < 100  # 64 batches of 256 records; the first batches are loaded alone


def test_only_such_urls_import_the_client():
    code = "import sys; from tfhet import FileList; FileList([('a', 0)]).is_remote; print('obstore' in sys.modules)"
    command, root = [sys.executable, "-c", code], Path(object_store.__file__).parents[2]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=100, check=True)
    assert done.stdout.split()[-1] == "False"


def test_program_ends_without_its_requests(server):
    server.faults["bin"] = "slow"
    code = f"""
import numpy as np, tfhet
from tfhet.source import object_store
object_store.REQUESTS, object_store.REQUEST_S, object_store.RETRIES = 4, 1, 0
source = tfhet.FileList([("{server.url}/a.bin", 0)] * 1000)
loader = tfhet.batches(tfhet.Pipeline(source, "decode(); resize(8, 8)", batch_size=50), make_limit_s=0.1)
try:
    next(iter(loader))
except tfhet.errors.NotReady:
    print("late")
"""
    root = Path(object_store.__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout.split()) == (0, ["late"]), done.stderr


def test_forked_process_is_refused(server: ObjectServer):
    url = f"{server.url}/a.bin"
    object_store.facts([url])
    reading, writing = os.pipe()
    if not (child := os.fork()):
        try:
            object_store.read([url])
        except UsageError as error:
            os.write(writing, str(error).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert b"forked" in os.read(reading, 1000)
