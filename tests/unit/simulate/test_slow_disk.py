from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tfhet.errors import UsageError
from tfhet.simulate.process_hosts import READ_MS, slow_disk

pytestmark = pytest.mark.timeout(120)
READS = """
import os, sys, time
file = os.open(sys.argv[1], os.O_RDONLY)
began = time.monotonic()
assert os.pread(file, 4, 0) == os.read(file, 4) == b"data"
print(time.monotonic() - began)
"""
AN_HOUR_MS = 3_600_000


def seconds(switch: Path, folders: list[Path], file: Path, ms: int) -> float:
    """How long two reads of `file` take; with an hour for each they must not be delayed at all to end."""
    env = {**os.environ, **slow_disk(os.environ, switch, folders), "TFHET_SLOW_DISK_MS": str(ms)}
    command = [sys.executable, "-c", READS, str(file)]
    return float(subprocess.run(command, env=env, capture_output=True, text=True, check=True, timeout=60).stdout)


@pytest.fixture
def switch(tmp_path: Path) -> Path:
    for folder in ("channel", "channel-2"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "file").write_text("data")
    (tmp_path / "link").symlink_to(tmp_path / "channel")
    return tmp_path / "switch"


def test_reads_below_the_folders_take_longer_while_the_switch_is_on(switch: Path, tmp_path: Path):
    folders = [tmp_path / "elsewhere", tmp_path / "link"]  # a channel's directory is a link, its files' names are real
    file = tmp_path / "channel" / "file"
    switch.touch()
    assert seconds(switch, folders, file, 100) >= 0.2
    switch.unlink()
    seconds(switch, folders, file, AN_HOUR_MS)


def test_other_files_are_read_as_ever(switch: Path, tmp_path: Path):
    switch.touch()
    seconds(switch, [tmp_path / "channel"], tmp_path / "channel-2" / "file", AN_HOUR_MS)


def test_without_its_variables_the_library_does_nothing(switch: Path, tmp_path: Path):
    env = {"LD_PRELOAD": slow_disk({**os.environ, "LD_PRELOAD": ""}, switch, [])["LD_PRELOAD"]}
    command = [sys.executable, "-c", READS, str(tmp_path / "channel" / "file")]
    subprocess.run(command, env=env, check=True, capture_output=True, timeout=60)


def test_what_is_preloaded_already_stays(switch: Path):
    variables = slow_disk({**os.environ, "LD_PRELOAD": "/lib/other.so"}, switch, [])
    assert re.fullmatch(r"/.*slow_disk.*\.so:/lib/other\.so", variables["LD_PRELOAD"])
    assert int(variables["TFHET_SLOW_DISK_MS"]) == READ_MS


def library(env: dict[str, str]) -> Path:
    return Path(slow_disk(env, Path("switch"), [])["LD_PRELOAD"])


def test_it_is_built_once(tmp_path: Path):
    env = {"XDG_CACHE_HOME": str(tmp_path)}
    built = library(env)
    made = built.stat().st_mtime_ns
    assert library(env) == built
    assert built.stat().st_mtime_ns == made
    assert list(built.parent.iterdir()) == [built]


def test_without_a_compiler_it_is_refused(tmp_path: Path):
    with pytest.raises(UsageError, match="needs a C\\+\\+ compiler"):
        library({"XDG_CACHE_HOME": str(tmp_path), "CXX": str(tmp_path / "none")})


def test_a_compiler_that_fails_is_said(tmp_path: Path):
    with pytest.raises(UsageError, match="/false .* failed"):
        library({"XDG_CACHE_HOME": str(tmp_path), "CXX": "false"})
    assert not list((tmp_path / "tfhet" / "simulate").iterdir())
