"""Indexes next to objects: other hosts use them, and no index of another content is used."""

from __future__ import annotations

import io
import logging
from pathlib import Path

import numpy as np
import pytest
from object_server import BUCKET, connected
from test_tar import write_tar

from tfhet.__main__ import main
from tfhet.errors import DataError
from tfhet.source import Encoded, Scalar, TarSource, TFRecordSource, index_file, object_store, write_tfrecords
from tfhet.source.files import INDEX_SUFFIX

pytest.importorskip("obstore")
SCHEMES = ("s3", "gs", "az")


def write(folder: Path, labels: list[int]) -> Path:
    """Writes a tar, whose size does not depend on the labels."""
    files = [[(f"{at}.png", b"image %d" % label), (f"{at}.cls", b"%d" % label)] for at, label in enumerate(labels)]
    write_tar(folder / "a.tar", sum(files, []))
    return folder / "a.tar"


@pytest.fixture
def host(tmp_path_factory, monkeypatch):
    """Makes this process a host with an empty cache, at each call."""

    def new() -> None:
        cache = tmp_path_factory.mktemp("cache")
        monkeypatch.setattr(index_file, "cache_dir", lambda _: cache)

    new()
    return new


@pytest.fixture
def server(tmp_path, monkeypatch, host):
    monkeypatch.setattr(object_store, "RETRIES", 0)
    with connected(tmp_path, monkeypatch) as made:
        yield made


def labels_of(url: str, **options: str) -> list[int]:
    source = TarSource(url, **options)
    loaded = source.load(np.arange(source.example_count()))
    assert [bytes(image) for image in loaded["image"]] == [b"image %d" % label for label in loaded["label"]]
    return loaded["label"].tolist()


@pytest.mark.parametrize("scheme", SCHEMES)
def test_other_hosts_use_the_written_index(server, tmp_path, scheme, host, capsys):
    write(tmp_path, [1, 2])
    folder = f"{scheme}://{BUCKET}/"
    assert main(["index", f"{folder}*.tar"]) == 0
    assert main(["index", folder]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "1 indexes written; 0 of 1 were up to date",
        "0 indexes written; 1 of 1 were up to date",
    ]
    host()
    server.requests.clear()
    assert TarSource(folder).labels.tolist() == [1, 2]  # the index is not a tar
    assert server.requests == [(f"a.tar{INDEX_SUFFIX}", "")]
    assert labels_of(folder) == [1, 2]


@pytest.mark.parametrize(
    ("scheme", "fault"),
    [(scheme, "replaced") for scheme in SCHEMES]
    + [("s3", fault) for fault in ("of another tar", "cut", "changed", "no index", "local")],
)
def test_wrong_index_is_made_again(server, tmp_path, scheme, fault, host, caplog):
    tar, url = write(tmp_path, [1, 2]), f"{scheme}://{BUCKET}/a.tar"
    stored, size = tmp_path / f"a.tar{INDEX_SUFFIX}", tar.stat().st_size
    main(["index", str(tar) if fault == "local" else url])
    content = stored.read_bytes()
    if fault == "replaced":
        write(tmp_path, [3, 4])
        assert tar.stat().st_size == size
    elif fault == "of another tar":
        (tmp_path / "b").mkdir()
        other = write(tmp_path / "b", [5, 6])
        main(["index", f"{scheme}://{BUCKET}/b/a.tar"])
        stored.write_bytes(Path(f"{other}{INDEX_SUFFIX}").read_bytes())
    elif fault != "local":
        changed = {"cut": content[:-30], "changed": content.replace(b"\x02", b"\x07"), "no index": b"<html></html>"}
        stored.write_bytes(changed[fault])
    host()
    with caplog.at_level(logging.WARNING, "tfhet"):
        assert labels_of(url) == ([3, 4] if fault == "replaced" else [1, 2])
    assert f"{url}{INDEX_SUFFIX} is not used" in caplog.text and "tfhet index" in caplog.text
    assert main(["index", url]) == 0
    caplog.clear()
    host()
    assert labels_of(url) == ([3, 4] if fault == "replaced" else [1, 2])
    assert not caplog.text


def test_damaged_index_is_never_used():
    names, facts = ("offsets", "lengths", "labels"), '[1, 5, "x"]'
    columns = [np.arange(50) * 512, np.arange(50) + 3, np.arange(50) % 7]
    whole, random = index_file._content(columns, names, facts), np.random.default_rng(0)
    for turn in range(1000):
        content = bytearray(whole)
        if turn % 2:
            content[random.integers(len(content))] = random.integers(256)
        else:
            begin, end = sorted(random.integers(len(content), size=2).tolist())
            del content[begin : end + 1]
        found = index_file._stored(io.BytesIO(content), names, facts)
        assert found is None or all(map(np.array_equal, found, columns))


def test_index_for_other_arguments_is_not_used(server, tmp_path, host, caplog):
    files = [("0.png", b"image 1"), ("0.cls", b"1"), ("0.json", b'{"a": 2}')]
    write_tar(tmp_path / "a.tar", files)
    url = f"s3://{BUCKET}/a.tar"
    main(["index", url])
    host()
    assert TarSource(url, label="json:a").labels.tolist() == [2]
    assert "other arguments" in caplog.text
    main(["index", url, "--label", "json:a"])
    host()
    server.requests.clear()
    assert TarSource(url, label="json:a").labels.tolist() == [2]
    assert len(server.requests) == 1


def test_tar_replaced_while_indexed_is_refused(server, tmp_path, monkeypatch):
    write(tmp_path, [1, 2])
    walked = TarSource._walked

    def replaced(source, tar):
        write(tmp_path, [3, 4])
        yield from walked(source, tar)

    monkeypatch.setattr(TarSource, "_walked", replaced)
    with pytest.raises(DataError, match=r"a\.tar was replaced while it was indexed"):
        TarSource(f"gs://{BUCKET}/a.tar").sizes()


def test_refused_index_is_named(server, tmp_path, capsys, host):
    write(tmp_path, [1, 2])
    url = f"s3://{BUCKET}/a.tar"
    server.faults[INDEX_SUFFIX] = "forbidden"
    assert main(["index", url]) == 1
    printed = capsys.readouterr().err
    assert f"{url}{INDEX_SUFFIX} cannot be written" in printed and "s3:PutObject" in printed
    host()
    assert labels_of(url) == [1, 2]  # an index that may not be read is made
    assert main(["index", f"{server.url}/a.tar"]) == 2
    assert "HTTP" in capsys.readouterr().err


def test_tfrecord_files_have_indexes(server, tmp_path, host, capsys):
    features = {"image": Encoded(), "label": Scalar()}
    write_tfrecords(tmp_path / "data", ({"image": b"x", "label": at} for at in range(9)), 2, features)
    folder = f"az://{BUCKET}/data"
    assert main(["index", "--tfrecord", folder]) == 0
    host()
    server.requests.clear()
    source = TFRecordSource(folder, features)
    assert source.sizes().sum() == 9 and source.split_count() == 2
    read = [name for name, _ in server.requests if ".tfrecord" in name]
    assert len([name for name in read if name.endswith(INDEX_SUFFIX)]) == 2 and len(read) == 3, (
        read
    )  # and a first record
    assert main(["index", "--tfrecord", str(tmp_path / "data")]) == 2
    assert main(["index", "--tfrecord", folder, "--label", "cls"]) == 2
    assert "--tfrecord" in capsys.readouterr().err


def test_local_tars_get_their_indexes(tmp_path, host, capsys):
    tar = write(tmp_path, [1, 2])
    assert main(["index", str(tar)]) == main(["index", str(tmp_path)]) == 0
    assert capsys.readouterr().out.startswith("1 indexes written")
    assert labels_of(str(tar)) == [1, 2]


def test_object_without_version_keeps_no_index(monkeypatch, tmp_path, host, caplog):
    caplog.set_level(logging.INFO, "tfhet")
    monkeypatch.setattr(object_store, "facts", lambda urls: [object_store.Facts(10, "", 0.0) for _ in urls])
    monkeypatch.setattr(index_file, "_stored_next_to", lambda *_: None)
    made = []
    request = index_file.IndexRequest("http://host/a.tar", ("a",), [1], lambda: made.append(1) or [np.zeros(1)])
    index_file.indexed(request)
    index_file.indexed(request)
    assert len(made) == 2 and "made at each start" in caplog.text
    with pytest.raises(DataError, match="no ETag"):
        index_file.write_index(request)
