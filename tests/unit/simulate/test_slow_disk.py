from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tfhet.errors import UsageError
from tfhet.simulate.process_hosts import READ_MS, SlowDisk, build

pytestmark = pytest.mark.timeout(120)
READS = """
import os, sys, time
file = os.open(sys.argv[1], os.O_RDONLY)
began = time.monotonic()
assert os.pread(file, 4, 0) == os.read(file, 4) == b"data"
print(time.monotonic() - began)
"""
AN_HOUR_MS = 3_600_000


def seconds(disk: SlowDisk, folders: list[Path], file: Path, ms: int) -> float:
    """How long two reads of `file` take; with an hour for each they must not be delayed at all to end."""
    env = {**os.environ, **disk.variables(os.environ, folders), "TFHET_SLOW_DISK_MS": str(ms)}
    command = [sys.executable, "-c", READS, str(file)]
    return float(subprocess.run(command, env=env, capture_output=True, text=True, check=True, timeout=60).stdout)


@pytest.fixture
def disk(tmp_path: Path) -> SlowDisk:
    for folder in ("channel", "channel-2"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "file").write_text("data")
    (tmp_path / "link").symlink_to(tmp_path / "channel")
    return SlowDisk(build(os.environ), tmp_path / "switch")


def test_reads_below_the_folders_take_longer_while_the_switch_is_on(disk: SlowDisk, tmp_path: Path):
    folders = [tmp_path / "elsewhere", tmp_path / "link"]  # a channel's directory is a link, its files' names are real
    file = tmp_path / "channel" / "file"
    disk.slow()
    assert seconds(disk, folders, file, 100) >= 0.2
    disk.heal()
    seconds(disk, folders, file, AN_HOUR_MS)
    disk.heal()


def test_other_files_are_read_as_ever(disk: SlowDisk, tmp_path: Path):
    disk.slow()
    seconds(disk, [tmp_path / "channel"], tmp_path / "channel-2" / "file", AN_HOUR_MS)


def test_without_its_variables_the_library_does_nothing(disk: SlowDisk, tmp_path: Path):
    env = {"LD_PRELOAD": str(disk.library)}
    command = [sys.executable, "-c", READS, str(tmp_path / "channel" / "file")]
    subprocess.run(command, env=env, check=True, capture_output=True, timeout=60)


def test_what_is_preloaded_already_stays(disk: SlowDisk):
    variables = disk.variables({"LD_PRELOAD": "/lib/other.so"}, [])
    assert variables["LD_PRELOAD"] == f"{disk.library}:/lib/other.so"
    assert int(variables["TFHET_SLOW_DISK_MS"]) == READ_MS


def test_it_is_built_once(tmp_path: Path):
    env = {"XDG_CACHE_HOME": str(tmp_path)}
    library = build(env)
    made = library.stat().st_mtime_ns
    assert build(env) == library
    assert library.stat().st_mtime_ns == made
    assert list(library.parent.iterdir()) == [library]


def test_without_a_compiler_it_is_refused(tmp_path: Path):
    with pytest.raises(UsageError, match="needs a C\\+\\+ compiler"):
        build({"XDG_CACHE_HOME": str(tmp_path), "CXX": str(tmp_path / "none")})


def test_a_compiler_that_fails_is_said(tmp_path: Path):
    with pytest.raises(UsageError, match="/false .* failed"):
        build({"XDG_CACHE_HOME": str(tmp_path), "CXX": "false"})
    assert not list((tmp_path / "tfhet" / "simulate").iterdir())
