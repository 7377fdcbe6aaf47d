"""Code that this user's processes load or run is in folders to which no other user can write."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tfhet.cluster import cache_dir, own_folder
from tfhet.cluster.paths import Exposed, code_dir


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path / "home")}


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o7777


def test_new_folders_are_private(env):
    before = os.umask(0)
    try:
        folder = code_dir(env, "native")
    finally:
        os.umask(before)
    assert folder == cache_dir(env) / "native" == code_dir(env, "native")
    assert [mode(each) for each in (folder, *folder.parents[:3])] == [0o700] * 4


def test_readable_folder_becomes_private(env):
    folder = cache_dir(env) / "native"
    folder.mkdir(parents=True)
    (folder / "op.so").touch(0o755)
    assert mode(folder) == mode(folder.parent) == 0o755
    assert code_dir(env, "native") == folder
    assert mode(folder) == mode(folder.parent) == 0o700 and (folder / "op.so").exists()


def test_writable_file_is_refused(env):
    file = code_dir(env, "native") / "op.so"
    file.touch()
    file.chmod(0o666)
    code_dir(env, "native")  # no other user could reach it
    file.parent.chmod(0o755)
    with pytest.raises(Exposed, match="op.so"):
        code_dir(env, "native")
    file.unlink()
    file.symlink_to("elsewhere")
    code_dir(env, "native")


@pytest.mark.parametrize("where", ["native", ".", "..", "../.."])
@pytest.mark.parametrize("bits", [0o770, 0o707])
def test_writable_folder_is_refused(env, where, bits):
    wrong = (code_dir(env, "native").parent / where).resolve()
    wrong.chmod(bits)
    with pytest.raises(Exposed, match=f"{wrong if '..' in where else ''}.*XDG_CACHE_HOME"):
        code_dir(env, "native")
    wrong.chmod(0o755)
    code_dir(env, "native")


def test_sticky_folder_above_is_allowed(env, tmp_path):
    folder = code_dir(env, "native")
    (tmp_path / "home").chmod(0o1777)
    assert code_dir(env, "native") == folder
    folder.chmod(0o1777)  # others could add files here, though not rename any
    with pytest.raises(Exposed):
        code_dir(env, "native")


def test_links_are_checked(env, tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "open" / "cache").mkdir(parents=True)
    (tmp_path / "home" / ".cache").symlink_to(tmp_path / "open" / "cache")
    code_dir(env, "native")
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(Exposed, match=str(tmp_path / "open")):
        code_dir(env, "native")
    (tmp_path / "open").chmod(0o700)
    (cache_dir(env) / "simulate").symlink_to("native")
    with pytest.raises(Exposed, match="simulate"):
        code_dir(env, "simulate")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_folder_of_another_user_is_refused(env, monkeypatch):
    folder = code_dir(env, "native")
    for each in (folder, folder.parents[1]):
        os.chown(each, 4711, -1)
        with pytest.raises(Exposed, match=str(folder)):
            own_folder(folder)
        os.chown(each, 0, -1)
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    assert own_folder(folder) == folder  # root's are trusted
