"""Files that the core reads, against Python's; missing and short ones, and chains on their contents."""

from __future__ import annotations

import ctypes
import gc
import os
import pickle
import resource
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tfhet import kernels, stages
from tfhet.errors import DataError, UsageError

SIZES = (0, 1, 2, 7, 4095, 4096, 9000, 70_000)
FIELDS = [("label", "int64", 2), ("file", "bytes", 1)]


@pytest.fixture(scope="module")
def contents() -> list[bytes]:
    return [np.random.default_rng(size).bytes(size) for size in SIZES]


@pytest.fixture
def paths(tmp_path: Path, contents: list[bytes]) -> list[str]:
    for number, content in enumerate(contents):
        (tmp_path / f"{number}.bin").write_bytes(content)
    return [str(tmp_path / f"{number}.bin") for number in range(len(contents))]


# --- files


@pytest.mark.parametrize("threads", [1, 4])
def test_files_equal_what_was_written(paths, contents, threads):
    found = kernels.read_files(paths, threads=threads)
    assert list(found) == contents and found.lengths.tolist() == list(SIZES)
    assert found.addresses.dtype == np.uint64 and found.addresses.all()


@pytest.mark.parametrize("threads", [1, 3])
def test_parts_of_files(paths, contents, threads):
    names = [paths[-1], paths[-1], paths[-2], paths[-1], paths[0]]
    offsets, lengths = [0, 69_990, 5, 17, 0], [10, -1, 0, 1000, -1]
    found = kernels.read_files(names, offsets, np.array(lengths, np.int32), threads=threads)
    last = contents[-1]
    assert list(found) == [last[:10], last[-10:], b"", last[17:1017], b""]


def test_no_files_are_no_contents():
    assert list(kernels.read_files([])) == list(kernels.read_files([], [], [], framed=True)) == []
    assert [len(column) for column in kernels.parse_examples([], FIELDS)] == [0] * 2


def test_names_are_any_that_the_system_has(tmp_path):
    for name in (b"\xff\xfe", "grün".encode(), b"a b\n"):
        path = os.path.join(os.fsencode(tmp_path), name)
        Path(os.fsdecode(path)).write_bytes(name)
        assert list(kernels.read_files([os.fsdecode(path)])) == [name]
    assert list(kernels.read_files([tmp_path / "grün"])) == ["grün".encode()]


def test_neighbouring_items_open_a_file_once(paths):
    """Inotify reports each time that the file is opened and closed."""
    libc, opened, closed, non_blocking = ctypes.CDLL(None), 0x20, 0x10, 0o4000
    events = libc.inotify_init1(non_blocking)
    assert libc.inotify_add_watch(events, paths[-1].encode(), opened | closed) > 0
    kernels.read_files([paths[-1]] * 50, range(50), threads=2)
    found = os.read(events, 4096)
    os.close(events)
    assert [mask for _, mask, _, _ in struct.iter_unpack("iIII", found)] == [opened, closed]


def test_few_descriptors_suffice(paths, contents):
    most = len(os.listdir("/proc/self/fd")) + 4
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    try:
        found = kernels.read_files([paths[-1]] * 200 + paths, threads=2)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert list(found) == [contents[-1]] * 200 + contents


def test_descriptors_are_closed(paths, tmp_path):
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        kernels.read_files(paths, threads=3)
        with pytest.raises(DataError):
            kernels.read_files([*paths, str(tmp_path / "absent"), *paths], threads=3)
        with pytest.raises(DataError):
            kernels.read_files([str(tmp_path)])
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("threads", [1, 4])
def test_first_broken_item_is_named(paths, tmp_path, threads):
    absent = [str(tmp_path / f"absent{number}") for number in range(9)]
    for _ in range(20):
        with pytest.raises(DataError, match=r"/absent0: No such file or directory$") as failure:
            kernels.read_files([*paths, *absent], threads=threads)
        assert failure.value.path == absent[0] and failure.value.offset is None


@pytest.mark.parametrize(
    ("offset", "length", "named"),
    [
        (0, 71_000, "has 70000 bytes, too few for 71000 bytes at byte 0"),
        (69_999, 2, "too few for 2 bytes at byte 69999"),
        (70_001, -1, "has 70000 bytes: nothing is at byte 70001"),
        (2**63 - 1, 2**63 - 1, "nothing is at byte 9223372036854775807"),
        (5, 2**63 - 1, "too few for 9223372036854775807 bytes at byte 5"),
    ],
)
def test_part_beyond_the_end_is_refused(paths, offset, length, named):
    with pytest.raises(DataError, match=f"7.bin: .*{named}") as failure:
        kernels.read_files(paths[-1:], [offset], [length])
    assert (failure.value.path, failure.value.offset) == (paths[-1], offset)


def test_irregular_files_are_refused_at_once(tmp_path, paths):
    os.mkfifo(tmp_path / "fifo")
    for name, named in (
        (tmp_path, "is a directory"),
        (tmp_path / "fifo", "not a regular"),
        ("/dev/null", "not a regular"),
    ):
        for call in (lambda name=name: kernels.read_files([name]), lambda name=name: kernels.record_offsets(name)):
            with pytest.raises(DataError, match=named):
                call()
    with pytest.raises(DataError, match="Not a directory"):
        kernels.read_files([f"{paths[0]}/below"])


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_denied_file_is_named(paths):
    os.chmod(paths[3], 0)
    with pytest.raises(DataError, match=r"/3.bin: Permission denied") as failure:
        kernels.read_files(paths)
    assert failure.value.path == paths[3]


def test_long_path_keeps_the_reason(tmp_path):
    path = os.path.join(*["/" + "d" * 200] * 1, *["e" * 200] * 12, "end")
    with pytest.raises(DataError, match=r"^\.\.\.e+/.*/end: No such file") as failure:
        kernels.read_files([path])
    assert failure.value.path == path


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: kernels.read_files("/etc/hostname"), "list of files"),
        (lambda: kernels.read_files([5]), "paths are text"),
        (lambda: kernels.read_files(["a\0b"]), "zero byte"),
        (lambda: kernels.read_files(["\ud800"]), "cannot be the name"),
        (lambda: kernels.read_files(["a"], [1, 2]), r"offsets are int64 \[1\].* \[2\]"),
        (lambda: kernels.read_files(["a"], [0.5]), "not float64"),
        (lambda: kernels.read_files(["a"], [-1]), r"offsets\[0\] is negative"),
        (lambda: kernels.read_files(["a"], None, [-2]), r"lengths\[0\] is negative"),
        (lambda: kernels.read_files(["a"], None, [15], framed=True), r"lengths\[0\] is 15: a record has at least 16"),
        (lambda: kernels.parse_examples(["text"], FIELDS), "records .* are bytes"),
        (lambda: kernels.parse_examples([None], FIELDS), "records .* are bytes"),
        (lambda: kernels.parse_examples([], [("a", "int32", 1)]), "raw, int64, float, bytes; not .*int32"),
        (lambda: kernels.parse_examples([], [("a", "int64")]), "a field is"),
        (lambda: kernels.parse_examples([], [("a", "int64", 0)]), "feature a: the size is an integer from 1 on, not 0"),
        (lambda: kernels.parse_examples([], [("a", "int64", 1.0)]), "not 1.0"),
        (lambda: kernels.parse_examples([], [("a", "int64", 1), ("a", "float", 1)]), "feature a has two fields"),
    ],
)
def test_wrong_arguments_are_refused(call: Callable[[], Any], named: str):
    with pytest.raises(UsageError, match=named):
        call()


# --- contents


def test_contents_are_a_sequence_of_bytes(paths, contents):
    found = kernels.read_files(paths)
    assert len(found) == len(contents) and found[-1] == contents[-1] and contents[3] in found
    assert list(found[2:9:3]) == contents[2:9:3] and list(found[::-1]) == contents[::-1]
    assert list(pickle.loads(pickle.dumps(found))) == contents
    with pytest.raises(IndexError):
        found[len(contents)]


def test_contents_keep_their_memory(paths, contents):
    part = kernels.read_files(paths)[-2:]
    gc.collect()
    for _ in range(50):
        kernels.read_files(paths)
    assert list(part) == contents[-2:]


# --- chains


def test_chains_take_contents_as_files(tmp_path):
    encoded = [tf.io.encode_png(np.full((5, 7, 3), index, np.uint8)).numpy() for index in range(6)]
    for index, content in enumerate(encoded):
        (tmp_path / f"{index}.png").write_bytes(content)
    found = kernels.read_files([tmp_path / f"{index}.png" for index in range(6)])
    chain, ids = stages.compile("decode(); random_resized_crop(4, 4); mixup()"), np.arange(6)
    expected = chain(encoded, ids=ids, threads=2)
    np.testing.assert_array_equal(chain(found, ids=ids, threads=2), expected)
    np.testing.assert_array_equal(chain(found[::-1], ids=ids), chain(encoded[::-1], ids=ids))
    ours, theirs = chain.parameters(found, ids=ids), chain.parameters(encoded, ids=ids)
    assert all(np.array_equal(ours[name], value) for name, value in theirs.items()) and ours.keys() == theirs.keys()
    assert chain.output(found) == chain.output(encoded)


def test_contents_make_no_bytes_objects(tmp_path, monkeypatch):
    (tmp_path / "a.png").write_bytes(tf.io.encode_png(np.ones((5, 7, 3), np.uint8)).numpy())
    found = kernels.read_files([tmp_path / "a.png"] * 3)
    monkeypatch.setattr(kernels.Contents, "__getitem__", lambda *_: pytest.fail("a copy was made"))
    assert stages.compile("decode(); resize(2, 2)")(found).tolist() == np.ones((3, 2, 2, 3)).tolist()
