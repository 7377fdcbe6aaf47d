"""Tars in the form of WebDataset."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from tfhet.errors import DataError
from tfhet.source import Encoded, Scalar, TFRecordSource, tar_samples, write_tfrecords


def write_tar(path: Path, files: list[tuple[str, bytes | str]], mode: str = "w") -> Path:
    """Writes files with contents, and hard links (`>name`) and symbolic links (`@name`)."""
    with tarfile.open(path, mode) as archive:
        folder = tarfile.TarInfo("cats")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
        for name, content in files:
            member = tarfile.TarInfo(name)
            if isinstance(content, str):
                member.type = tarfile.LNKTYPE if content[0] == ">" else tarfile.SYMTYPE
                member.linkname, content = content[1:], b""
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


FILES = [
    ("cats/0001.jpg", b"one" * 400),
    ("cats/0001.seg.png", b"mask"),
    ("cats/0001.cls", b"3"),
    ("README", b"no sample"),
    (".hidden", b"neither"),
    ("dogs/0001.jpg", b"two"),
    ("dogs/0001.cls", b"4"),
]
SAMPLES = [
    {"__key__": b"cats/0001", "jpg": b"one" * 400, "seg.png": b"mask", "cls": b"3"},
    {"__key__": b"dogs/0001", "jpg": b"two", "cls": b"4"},
]


@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_files_of_one_name_are_a_sample(tmp_path, mode):
    tars = [write_tar(tmp_path / f"{number}.tar", FILES, mode) for number in range(2)]
    assert list(tar_samples(tars)) == SAMPLES * 2


def test_samples_become_tfrecords(tmp_path):
    features = {"image": Encoded(), "label": Scalar()}
    samples = tar_samples([write_tar(tmp_path / "a.tar", FILES)])
    examples = ({"image": sample["jpg"], "label": int(sample["cls"])} for sample in samples)
    source = TFRecordSource.from_directory(write_tfrecords(tmp_path / "records", examples, 2, features))
    source.check()
    assert source.example_count() == 2


@pytest.mark.parametrize(("mode", "kept"), [("w", 1500), ("w", 2600), ("w", 512 * 6), ("w:gz", 150), ("w:gz", -1)])
def test_truncated_tar_is_named(tmp_path, mode, kept):
    tar = write_tar(tmp_path / "a.tar", FILES, mode)
    tar.write_bytes(tar.read_bytes()[:kept])
    with pytest.raises(DataError, match="a.tar"):
        list(tar_samples([tar]))


@pytest.mark.parametrize("content", [b"", b"no tar" * 200, None])
def test_file_that_is_no_tar_is_named(tmp_path, content):
    if content is not None:
        (tmp_path / "a.tar").write_bytes(content)
    with pytest.raises(DataError, match="a.tar"):
        list(tar_samples([tmp_path / "a.tar"]))


def test_sample_with_a_duplicate_is_refused(tmp_path):
    with pytest.raises(DataError, match="a.cls twice"):
        list(tar_samples([write_tar(tmp_path / "a.tar", [("a.jpg", b""), ("a.cls", b""), ("a.cls", b"")])]))


def test_samples_with_scattered_files_are_refused(tmp_path):
    files = [(name, b"") for name in ("0.jpg", "1.jpg", "0.cls", "1.cls")]
    with pytest.raises(DataError, match="a.tar.*'0'"):
        list(tar_samples([write_tar(tmp_path / "a.tar", files)]))


@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_links_within_a_tar_are_followed(tmp_path, mode):
    files = [("a/0.jpg", b"x"), ("a/0.cls", b"1"), ("a/1.jpg", ">a/0.jpg"), ("a/1.cls", "@0.cls")]
    first, second = tar_samples([write_tar(tmp_path / "a.tar", files, mode)])
    assert second == {**first, "__key__": b"a/1"}
    with pytest.raises(DataError, match="a/0.jpg .*elsewhere"):
        list(tar_samples([write_tar(tmp_path / "b.tar", [("a/0.jpg", "@elsewhere.jpg")], mode)]))


def test_key_has_the_bytes_of_the_name(tmp_path):
    (sample,) = tar_samples([write_tar(tmp_path / "a.tar", [("\udcff.jpg", b"x")])])
    assert sample == {"__key__": b"\xff", "jpg": b"x"}
