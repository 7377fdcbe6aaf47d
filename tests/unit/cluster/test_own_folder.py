"""Code that this user's processes load or run lies where no other user can have put it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tfhet.cluster import cache_dir, own_folder
from tfhet.cluster.paths import Exposed, code_dir
from tfhet.errors import UsageError


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path / "home")}


@pytest.fixture
def open_umask():
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o7777


def test_every_folder_of_the_cache_is_this_users_alone(env, open_umask):
    folder = code_dir(env, "native")
    assert folder == cache_dir(env) / "native"
    for each in (folder, folder.parent, folder.parents[1], folder.parents[2]):
        assert mode(each) == 0o700
    assert code_dir(env, "native") == folder


def test_a_folder_that_others_could_read_is_closed_and_what_is_in_it_is_kept(env):
    cache_dir(env).mkdir(parents=True)
    folder = cache_dir(env) / "native"
    folder.mkdir()
    (folder / "op.so").touch(0o755)
    assert mode(folder) == mode(folder.parent) == 0o755
    assert code_dir(env, "native") == folder
    assert mode(folder) == mode(folder.parent) == 0o700
    assert (folder / "op.so").exists()


def test_a_file_that_others_could_write_to_is_named(env):
    folder = code_dir(env, "native")
    (folder / "op.so").touch()
    (folder / "op.so").chmod(0o666)
    code_dir(env, "native")  # nobody else could reach it
    folder.chmod(0o755)
    with pytest.raises(Exposed, match="op.so: others may have written to it; remove it"):
        code_dir(env, "native")
    (folder / "op.so").unlink()
    (folder / "op.so").symlink_to("elsewhere")
    code_dir(env, "native")


@pytest.mark.parametrize("where", ["native", ".", "..", "../.."])
@pytest.mark.parametrize("bits", [0o770, 0o707])
def test_a_folder_that_others_may_write_to_is_refused_and_so_is_one_above(env, where, bits):
    wrong = (code_dir(env, "native").parent / where).resolve()
    wrong.chmod(bits)
    with pytest.raises(Exposed, match=f"others may put files there.*{wrong if '..' in where else ''}.*XDG_CACHE_HOME"):
        code_dir(env, "native")
    wrong.chmod(0o755)
    code_dir(env, "native")


def test_others_may_write_to_a_folder_above_that_is_sticky(env, tmp_path):
    folder = code_dir(env, "native")
    (tmp_path / "home").chmod(0o1777)
    assert code_dir(env, "native") == folder
    folder.chmod(0o1777)  # here they could put files, though not rename any
    with pytest.raises(Exposed):
        code_dir(env, "native")


def test_a_link_is_refused_and_one_above_is_followed_to_the_folders_that_it_names(env, tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "open" / "cache").mkdir(parents=True)
    (tmp_path / "home" / ".cache").symlink_to(tmp_path / "open" / "cache")
    code_dir(env, "native")
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(Exposed, match=f"rename what is in {tmp_path / 'open'}"):
        code_dir(env, "native")
    (tmp_path / "open").chmod(0o700)
    (cache_dir(env) / "simulate").symlink_to("native")
    with pytest.raises(Exposed, match="simulate: others may put files there"):
        code_dir(env, "simulate")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_another_users_folder_is_refused_and_so_is_what_is_below_it(env, monkeypatch):
    folder = code_dir(env, "native")
    for each in (folder, folder.parents[1]):
        os.chown(each, 4711, -1)
        with pytest.raises(Exposed, match=str(folder)):
            own_folder(folder)
        os.chown(each, 0, -1)
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    assert own_folder(folder) == folder  # root's are trusted


def test_it_is_an_error_of_use_and_one_of_the_system(env):
    code_dir(env, "native").chmod(0o777)
    for kind in (UsageError, OSError, PermissionError):
        with pytest.raises(kind, match="native: others may put files there; remove it"):
            code_dir(env, "native")
