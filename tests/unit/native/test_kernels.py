from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tfhet.native import kernels


@pytest.fixture
def cache(tmp_path, monkeypatch) -> dict[str, str]:
    """The environment of an empty cache, with kernels `a` and `chain`, which no setting switches off."""
    (tmp_path / "kernels").mkdir()
    for name in ("a", "chain"):
        (tmp_path / "kernels" / f"{name}.cc").write_text(f"// {name}")
    monkeypatch.setattr(kernels, "HERE", tmp_path / "kernels")
    return {"XDG_CACHE_HOME": str(tmp_path / "cache"), "HOME": str(tmp_path)}


def libraries(env: dict[str, str]) -> dict[str, Path]:
    """Files that could be the libraries."""
    found = {name: kernels.of_here(name, env) for name in kernels.names()}
    for path in found.values():
        path.write_bytes(b"")
    return found


def test_built_libraries_are_found(cache):
    assert kernels.names() == ("a", "chain")
    assert kernels.built(cache) is None
    assert kernels.built({**cache, "TFHET_NATIVE": "on"}) is None
    made = libraries(cache)
    assert kernels.built(cache) == made


def test_only_permitted_and_complete_libraries_are_found(cache):
    made = libraries(cache)
    assert kernels.built({**cache, "TFHET_NATIVE": "a"}) == made
    assert kernels.built({**cache, "TFHET_NATIVE": "off"}) == {"chain": made["chain"]}
    assert kernels.built({**cache, "TFHET_NATIVE": "c"}) is None  # the loader reports the mistake
    made["a"].unlink()
    assert kernels.built(cache) is None
    assert kernels.built({**cache, "TFHET_NATIVE": "chain"}) is not None


def test_other_compiler_or_cpu_needs_a_build(cache, monkeypatch, tmp_path):
    own = tmp_path / "compiler"
    own.symlink_to(sys.executable)
    env = {**cache, "CXX": f"{own} -O1"}
    libraries(env)
    assert kernels.built(env) is not None
    assert kernels.built({**env, "CXX": "another-compiler"}) is None
    assert kernels.built({**env, "CXX": f"{own} -O2"}) is None
    own.unlink()
    own.write_text("another version")
    own.chmod(0o755)
    assert kernels.built(env) is None
    libraries(env)
    assert kernels.built(env) is not None
    monkeypatch.setattr(kernels, "cpu", lambda: "another")
    assert kernels.built(env) is None


@pytest.mark.parametrize("changed", ["a.cc", "shared.h"])
def test_changed_source_needs_a_build(cache, changed):
    libraries(cache)
    (kernels.HERE / changed).write_text("// changed")
    assert kernels.built(cache) is None


def test_cache_that_is_no_folder_is_empty(cache):
    kernels.folder(cache).rmdir()
    Path(cache["XDG_CACHE_HOME"], "tfhet", "native").write_text("no folder")
    assert kernels.built(cache) is None


def test_cache_may_move(cache, tmp_path):
    libraries(cache)
    (tmp_path / "cache").rename(tmp_path / "elsewhere")
    assert kernels.built(cache) is None
    assert kernels.built({**cache, "XDG_CACHE_HOME": str(tmp_path / "elsewhere")}) is not None


@pytest.mark.parametrize("whose", ["writable", "foreign", "link"])
def test_untrusted_cache_is_not_loaded(cache, monkeypatch, tmp_path, whose):
    libraries(cache)
    place = kernels.folder(cache)
    if whose == "writable":
        place.chmod(0o777)
    elif whose == "link":
        place.rename(tmp_path / "elsewhere")
        place.symlink_to(tmp_path / "elsewhere")
    else:
        found = place.lstat()
        monkeypatch.setattr(os, "geteuid", lambda: found.st_uid + 1)
        if not found.st_uid:  # root's folders are trusted
            os.chown(place, 1, -1)
            monkeypatch.setattr(os, "geteuid", lambda: 2)
    assert kernels.built(cache) is None
    with pytest.raises(PermissionError, match="XDG_CACHE_HOME"):
        kernels.folder(cache)
