"""Tars as a source: the index and its places, labels, and tars that cannot be used."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from test_tar import write_tar

from tfhet.errors import DataError, UsageError
from tfhet.source import TarSource, example_id

FILES = [
    ("cats/0001.JPEG", b"one" * 400),
    ("cats/0001.seg.png", b"mask"),
    ("cats/0001.cls", b"3\n"),
    ("cats/0001.json", b'{"class": 30, "name": "cat"}'),
    ("README", b"no sample"),
    ("dogs/0001.png", b"two"),
    ("dogs/0001.cls", b"-4"),
    ("dogs/0001.json", b'{"class": 40}'),
]


def index_of(tar: Path) -> Path:
    return tar.with_name(f"{tar.name}.tfhet-index.npz")


def loaded(source: TarSource) -> tuple[list[bytes], list[int]]:
    ids = [example_id(split, at) for split, size in enumerate(source.split_sizes()) for at in range(size)]
    found = source.load(np.array(ids, np.int64))
    return list(found["image"]), found["label"].tolist()


def test_samples_are_image_and_label(tmp_path):
    for name in ("a.tar", "b.tar"):
        write_tar(tmp_path / name, FILES)
    source = TarSource(tmp_path)
    assert source.split_sizes() == (2, 2)
    assert loaded(source) == ([b"one" * 400, b"two"] * 2, [3, -4] * 2)
    assert loaded(TarSource(tmp_path / "a.tar", label="json:class"))[1] == [30, 40]
    ((tar, at),) = source.places([example_id(1, 1)])
    assert tar == str(tmp_path / "b.tar") and Path(tar).read_bytes()[at : at + 3] == b"two"


def test_long_names_have_the_right_place(tmp_path):
    name = "folder/" * 30 + "ü" * 60
    write_tar(tmp_path / "a.tar", [(f"{name}.jpg", b"x" * 513), (f"{name}.cls", b"1")])
    assert loaded(TarSource(tmp_path)) == ([b"x" * 513], [1])


def test_index_is_made_once(tmp_path, monkeypatch):
    tar = write_tar(tmp_path / "a.tar", FILES)
    first = loaded(TarSource(tar))
    assert sorted(os.listdir(tmp_path)) == [tar.name, index_of(tar).name]
    monkeypatch.setattr(TarSource, "_walked", None)
    assert loaded(TarSource(tar)) == first


@pytest.mark.parametrize("change", ["content", "time", "arguments", "damaged", "cut", "no index"])
def test_stale_index_is_made_again(tmp_path, change):
    tar = write_tar(tmp_path / "a.tar", FILES)
    TarSource(tar).sizes()
    label = "json:class" if change == "arguments" else "cls"
    content = index_of(tar).read_bytes()
    if change == "content":
        write_tar(tar, [("0.jpg", b"new"), ("0.cls", b"9")])
    elif change == "time":
        write_tar(tar, [*FILES[:1], ("cats/0001.seg.png", b"mask"), ("cats/0001.cls", b"5\n"), *FILES[3:]])
        os.utime(tar, ns=(1, 1))
    elif change == "damaged":
        index_of(tar).write_bytes(content[:200] + bytes(100) + content[300:])
    elif change == "cut":
        index_of(tar).write_bytes(content[:-100])
    elif change == "no index":
        np.savez(index_of(tar), other=np.zeros(3))
    wanted = {"content": ([b"new"], [9]), "time": ([b"one" * 400, b"two"], [5, -4])}
    labels = [30, 40] if change == "arguments" else [3, -4]
    assert loaded(TarSource(tar, label=label)) == wanted.get(change, ([b"one" * 400, b"two"], labels))


def test_read_only_folder_has_its_index_in_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    tar = write_tar(tmp_path / "a.tar", FILES)
    index_of(tar).mkdir()  # so that no file can have this name, also for root
    first = loaded(TarSource(tar))
    assert len(list((tmp_path / "cache/tfhet/indexes").iterdir())) == 1
    monkeypatch.setattr(TarSource, "_walked", None)
    assert loaded(TarSource(tar)) == first
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.tar", index_of(tar).name, "cache"]


@pytest.mark.parametrize("mode", ["w:gz", "w:bz2", "w:xz"])
def test_compressed_tar_is_refused_with_advice(tmp_path, mode):
    with pytest.raises(DataError, match="a.tar is compressed.*tar_samples"):
        TarSource(write_tar(tmp_path / "a.tar", FILES, mode)).sizes()


@pytest.mark.parametrize("kept", [0, 100, 700, 1500, 2600, 512 * 6, 512 * 8])
def test_truncated_tar_is_named_with_its_byte(tmp_path, kept):
    tar = write_tar(tmp_path / "a.tar", FILES)
    tar.write_bytes(tar.read_bytes()[:kept])
    with pytest.raises(DataError, match=r"a\.tar.* byte \d+") as caught:
        TarSource(tar).sizes()
    assert caught.value.path == str(tar) and caught.value.offset is not None
    assert not index_of(tar).exists()


def test_broken_header_is_named_with_its_byte(tmp_path):
    tar = write_tar(tmp_path / "a.tar", FILES)
    content = bytearray(tar.read_bytes())
    at = content.index(b"dogs/0001.png")
    content[at + 100 : at + 140] = b"?" * 40
    tar.write_bytes(content)
    with pytest.raises(DataError) as caught:
        TarSource(tar).sizes()
    assert caught.value.offset == at


PAIR = [("0.jpg", b"x"), ("0.cls", b"1")]


@pytest.mark.parametrize(
    ("files", "named"),
    [
        ([*PAIR, ("1.jpg", ">0.jpg"), ("1.cls", b"1")], "1.jpg is a link to 0.jpg"),
        ([*PAIR, ("1.jpg", b"x"), ("1.cls", "@0.cls")], "1.cls is a link to 0.cls"),
        ([*PAIR, ("0.cls", b"2")], "0.cls twice"),
        ([*PAIR, ("1.cls", b"2")], "1 has no image 1"),
        ([*PAIR, ("1.jpg", b"2")], "1 has no label 1.cls"),
        ([*PAIR, ("1.jpg", b"2"), ("1.cls", b"cat")], r"1.cls is not an integer, but b'cat'"),
        ([*PAIR, ("1.jpg", b"2"), ("1.cls", b"9" * 30)], "1.cls is not an integer"),
        ([*PAIR, ("1.jpg", b"2"), ("0.txt", b"2")], "'0' are not next to each other|sample 1 has no label"),
    ],
)
def test_unusable_sample_is_named(tmp_path, files, named):
    with pytest.raises(DataError, match=f"a.tar.*{named}"):
        TarSource(write_tar(tmp_path / "a.tar", files)).sizes()


@pytest.mark.parametrize("content", [b'{"other": 1}', b"[1]", b'{"class": "1"}', b'{"class": true}', b"{", b"\xff"])
def test_json_without_label_is_named(tmp_path, content):
    tar = write_tar(tmp_path / "a.tar", [("0.jpg", b"x"), ("0.json", content)])
    with pytest.raises(DataError, match="a.tar: 0.json is not an integer 'class'"):
        TarSource(tar, label="json:class").sizes()


def test_missing_tars_are_refused(tmp_path):
    with pytest.raises(UsageError, match="no tar files"):
        TarSource(tmp_path)
    with pytest.raises(UsageError, match="no samples"):
        TarSource(write_tar(tmp_path / "a.tar", [])).sizes()
    with pytest.raises(UsageError, match="not on this host"):
        TarSource("hdfs://host/*.tar")
    source = TarSource(write_tar(tmp_path / "b.tar", FILES))
    (tmp_path / "b.tar").unlink()
    with pytest.raises(DataError, match="b.tar"):
        source.sizes()
