from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tfhet.native import kernels


@pytest.fixture
def cache(tmp_path, monkeypatch) -> dict[str, str]:
    """The environment of an empty cache, with kernels `a` and `b`."""
    (tmp_path / "kernels").mkdir()
    for name in ("a", "b"):
        (tmp_path / "kernels" / f"{name}.cc").write_text(f"// {name}")
    monkeypatch.setattr(kernels, "HERE", tmp_path / "kernels")
    kernels._key.cache_clear()
    yield {"XDG_CACHE_HOME": str(tmp_path / "cache"), "HOME": str(tmp_path)}
    kernels._key.cache_clear()


def libraries(env: dict[str, str]) -> dict[str, Path]:
    """Files that could be the libraries, remembered."""
    kernels.folder(env).mkdir(parents=True, exist_ok=True)
    found = {name: kernels.folder(env) / f"{name}-123.so" for name in kernels.names()}
    for path in found.values():
        path.write_bytes(b"")
    kernels.remember(env, found)
    return found


def test_what_was_remembered_is_found_again(cache):
    assert kernels.names() == ("a", "b")
    assert kernels.built(cache) is None
    assert kernels.built({**cache, "TFHET_NATIVE": "on"}) is None
    made = libraries(cache)
    assert kernels.built(cache) == made
    assert not [path.name for path in kernels.folder(cache).iterdir() if str(os.getpid()) in path.name]


def test_only_what_is_permitted_is_given(cache):
    made = libraries(cache)
    assert kernels.built({**cache, "TFHET_NATIVE": "b"}) == {"b": made["b"]}
    assert kernels.built({**cache, "TFHET_NATIVE": "off"}) == {}
    assert kernels.built({**cache, "TFHET_NATIVE": "c"}) is None  # who loads them says what is wrong with it


def test_a_library_that_has_gone_is_as_if_none_was_built(cache):
    libraries(cache)["b"].unlink()
    assert kernels.built(cache) is None
    assert kernels.built({**cache, "TFHET_NATIVE": "a"}) is not None


@pytest.mark.parametrize("content", ["", "{", "[]", "7", '"text"', "null", '["a", "b"]', b"\xff\xfe"])
def test_an_index_that_says_nothing_sensible_is_as_if_none_was_built(cache, content):
    libraries(cache)
    (index,) = kernels.folder(cache).glob("index-*.json")
    index.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert not kernels.built(cache)


def test_other_sources_another_compiler_or_another_cpu_are_not_what_was_built(cache, monkeypatch):
    libraries(cache)
    assert kernels.built(cache) is not None
    assert kernels.built({**cache, "CXX": "another-compiler"}) is None
    kernels._key.cache_clear()
    monkeypatch.setattr(kernels, "cpu", lambda: "another")
    assert kernels.built(cache) is None
    monkeypatch.undo()
    kernels._key.cache_clear()


def test_a_changed_source_is_not_what_was_built(cache):
    libraries(cache)
    (kernels.HERE / "a.cc").write_text("// changed")
    kernels._key.cache_clear()
    assert kernels.built(cache) is None


def test_a_folder_that_cannot_be_written_keeps_nothing(cache):
    kernels.folder(cache).rmdir()
    Path(cache["XDG_CACHE_HOME"], "tfhet", "native").write_text("no folder")
    kernels.remember(cache, {"a": Path("a.so")})
    assert kernels.built(cache) is None


def test_the_index_names_files_and_no_paths_so_that_a_cache_may_move(cache):
    libraries(cache)
    (index,) = kernels.folder(cache).glob("index-*.json")
    assert json.loads(index.read_text()) == {"a": "a-123.so", "b": "b-123.so"}


@pytest.mark.parametrize("whose", ["others may write to it", "it is another user's", "it is a link"])
def test_libraries_that_others_may_have_put_there_are_not_loaded(cache, monkeypatch, tmp_path, whose):
    libraries(cache)
    place = kernels.folder(cache)
    if whose == "others may write to it":
        place.chmod(0o777)
    elif whose == "it is a link":
        place.rename(tmp_path / "elsewhere")
        place.symlink_to(tmp_path / "elsewhere")
    else:
        found = place.lstat()
        monkeypatch.setattr(os, "geteuid", lambda: found.st_uid + 1)
        if not found.st_uid:  # root's folders are trusted
            os.chown(place, 1, -1)
            monkeypatch.setattr(os, "geteuid", lambda: 2)
    assert kernels.built(cache) is None
    with pytest.raises(PermissionError, match="others may put code there.*XDG_CACHE_HOME"):
        kernels.folder(cache)


def test_an_index_names_no_library_elsewhere(cache, tmp_path):
    libraries(cache)
    (tmp_path / "planted.so").write_bytes(b"")
    (index,) = kernels.folder(cache).glob("index-*.json")
    index.write_text(json.dumps(dict.fromkeys(kernels.names(), str(tmp_path / "planted.so"))))
    assert kernels.built(cache) is None
