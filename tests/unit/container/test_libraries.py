from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tfhet.container import libraries
from tfhet.container.container import READ_ONLY, Mount
from tfhet.errors import UsageError

SETS = {"algo-1": (0,), "algo-2": (1, 2), "algo-3": None, "algo-4": (1, 2)}


@pytest.fixture
def library(tmp_path: Path) -> Path:
    file = tmp_path / "there" / "libtensorflow_x.so.2"
    file.parent.mkdir()
    file.write_bytes(b"code")
    return file


def separated(
    library: Path, folder: Path, said: list[str], register: Callable[[Path], None] = lambda path: None
) -> dict[str, list[Mount]]:
    return libraries.separated([library], folder, SETS, said.append, register)


def test_containers_with_other_cpus_have_other_copies_and_the_first_have_the_library_itself(library, tmp_path):
    said: list[str] = []
    found = separated(library, tmp_path / "copies", said)
    copy = tmp_path / "copies" / "cpus-1-2" / library.name
    own = [Mount(str(copy), str(library), READ_ONLY)]
    assert found == {"algo-1": [], "algo-2": own, "algo-3": [], "algo-4": own}
    assert copy.read_bytes() == b"code" and not os.path.samefile(copy, library)
    assert [path.name for path in copy.parent.iterdir()] == [library.name]
    assert said == [f"[simulate] {copy.parent}: {library.name} is copied, 0 MiB"]


def test_a_copy_is_made_again_only_when_the_library_is_another_one(library, tmp_path):
    said: list[str] = []
    for _ in range(2):
        separated(library, tmp_path, said)
    assert len(said) == 1
    library.write_bytes(b"edoc")
    os.utime(library, ns=(0, 0))
    separated(library, tmp_path, said)
    assert len(said) == 2 and (tmp_path / "cpus-1-2" / library.name).read_bytes() == b"edoc"


def test_a_copy_that_cannot_be_made_says_where_and_leaves_nothing(library, tmp_path):
    (tmp_path / "copies").write_text("a file")
    with pytest.raises(UsageError, match=rf"copies/cpus-1-2/{library.name}: .* cannot be copied: Not a directory"):
        separated(library, tmp_path / "copies", [])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copies", "there"]


def test_what_a_process_that_dies_while_copying_would_leave_is_registered_before_and_gone_afterwards(library, tmp_path):
    registered: list[tuple[Path, list[Path]]] = []
    place = tmp_path / "cpus-1-2"
    separated(library, tmp_path, [], lambda path: registered.append((path, list(path.iterdir()))))
    ((path, held),) = registered
    assert path.parent == place and held == []
    assert [each.name for each in place.iterdir()] == [library.name]


def test_tensorflows_own_are_found_without_importing_it():
    names = [path.name for path in libraries.of_tensorflow()]
    assert "libtensorflow_framework.so.2" in names and all(not Path(name).is_symlink() for name in names)


def test_no_tensorflow_is_said(monkeypatch):
    monkeypatch.setattr(libraries, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match="no TensorFlow"):
        libraries.of_tensorflow()
