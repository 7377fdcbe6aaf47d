"""Remains of simulators that died are removed; things of running simulators are left alone."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tfhet.container import sweeper
from tfhet.container.cgroup import Cgroup
from tfhet.container.hierarchy import hierarchies
from tfhet.errors import UsageError

LIMIT_S = 60.0
OWNER = """
import subprocess, sys
from pathlib import Path
from tfhet.container import sweeper
from tfhet.container.cgroup import Cgroup

owner = sweeper.claim(Path(sys.argv[1]))
folder = Path(sys.argv[2])
(folder / "upper" / "deep").mkdir(parents=True)
(folder / "upper" / "deep" / "file").write_text("x")
owner.register(folder)
words = [owner.tag]
if "cgroup" in sys.argv[3:]:
    child = subprocess.Popen(["sleep", "300"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    Cgroup.create(f"tfhet-{owner.tag}-algo-1").add(child.pid)
    words.append(str(child.pid))
print(*words, flush=True)
input()
"""

is_root = sys.platform == "linux" and os.getuid() == 0
needs_cgroups = pytest.mark.skipif(not is_root or not hierarchies(), reason="needs root, and cgroups mounted")


@pytest.fixture
def locks(tmp_path: Path) -> Path:
    (folder := tmp_path / "locks").mkdir()
    return folder


class Other:
    """Another simulator, in its own process."""

    def __init__(self, locks: Path, folder: Path, *has: str):
        folder.mkdir()
        self.folder = folder
        words = [sys.executable, "-c", OWNER, str(locks), str(folder), *has]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.process.stdout is not None
        self.tag, *pids = self.process.stdout.readline().decode().split()
        self.pids = [int(pid) for pid in pids]

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate(timeout=LIMIT_S)

    def lives(self) -> bool:
        with contextlib.suppress(psutil.NoSuchProcess):
            return psutil.Process(self.pids[0]).status() != psutil.STATUS_ZOMBIE
        return False


@pytest.fixture
def start(locks: Path, tmp_path: Path) -> Iterator[Callable[..., Other]]:
    """`start(name, *has)`: another simulator, which registers the folder `name`."""
    made: list[Other] = []

    def begin(name: str, *has: str) -> Other:
        made.append(Other(locks, tmp_path / name, *has))
        return made[-1]

    yield begin
    for other in made:
        if other.process.poll() is None:
            other.kill()
    sweeper.sweep(locks)


def test_tags_differ_and_are_released(locks: Path):
    owners = [sweeper.claim(locks) for _ in range(20)]
    assert len({owner.tag for owner in owners}) == 20
    assert all(re.fullmatch("[a-z0-9]{4}", owner.tag) for owner in owners)
    for owner in owners:
        owner.release()
    assert list(locks.iterdir()) == []


def test_folder_of_a_dead_simulator_is_removed(locks, start, tmp_path):
    dead, living = start("dead"), start("living")
    os.kill(dead.process.pid, signal.SIGSTOP)
    with sweeper.claim(locks) as mine:
        mine.register(living.folder)
        assert sweeper.sweep(locks) == [], "of running simulators, one of them stopped"
        with open(locks / f"{dead.tag}.lock", "a") as lock:
            lock.write('{"folder": "/et')  # the line that it was writing
        dead.kill()
        (line,) = sweeper.sweep(locks)
        assert dead.tag in line and str(dead.folder) in line
        assert not dead.folder.exists() and (living.folder / "upper").is_dir()
        assert {path.stem for path in locks.iterdir()} == {living.tag, mine.tag}
        assert sweeper.sweep(locks) == []


@needs_cgroups
def test_cgroup_of_a_dead_simulator_is_removed(locks, start, monkeypatch):
    dead, living = start("dead", "cgroup"), start("living", "cgroup")
    dead.kill()
    assert dead.lives()
    with monkeypatch.context() as patch:
        patch.setattr(Cgroup, "remove", lambda self: [4711])
        assert any("4711" in line for line in sweeper.sweep(locks))
    assert (locks / f"{dead.tag}.lock").exists(), "the next sweep tries again"
    assert any(f"tfhet-{dead.tag}-algo-1" in line for line in sweeper.sweep(locks))
    assert not dead.lives() and living.lives()
    names = {path.name for tree in hierarchies() for path in tree.top.glob("tfhet-*-algo-1")}
    assert f"tfhet-{living.tag}-algo-1" in names and f"tfhet-{dead.tag}-algo-1" not in names
    assert [path.stem for path in locks.iterdir()] == [living.tag]


@pytest.mark.skipif(not is_root, reason="mounting needs root")
def test_mounted_folder_keeps_its_files(locks, start, tmp_path):
    dead = start("dead")
    (precious := tmp_path / "precious").mkdir()
    (precious / "file").write_text("x")
    (dead.folder / "in").mkdir()
    subprocess.run(["mount", "--bind", str(precious), str(dead.folder / "in")], check=True, timeout=LIMIT_S)
    dead.kill()
    sweeper.sweep(locks)
    assert not dead.folder.exists() and (precious / "file").read_text() == "x"
    assert str(dead.folder) not in Path("/proc/self/mountinfo").read_text()


def test_replaced_folder_is_left_alone(locks, start, tmp_path):
    dead = start("dead")
    dead.folder.rename(tmp_path / "elsewhere")
    dead.folder.mkdir()
    dead.kill()
    sweeper.sweep(locks)
    assert dead.folder.is_dir() and (tmp_path / "elsewhere").is_dir()


@pytest.mark.parametrize("path", ["/", "/tmp", "nowhere/at/all"])
def test_only_own_folders_can_be_registered(locks: Path, path: str):
    with sweeper.claim(locks) as owner, pytest.raises(UsageError):
        owner.register(Path(path))


def test_folder_of_locks_is_private(monkeypatch, tmp_path: Path):
    monkeypatch.setattr(sweeper, "SYSTEM_FOLDER", tmp_path / "run" / "tfhet")
    (tmp_path / "run").mkdir()
    with sweeper.claim() as owner:
        assert owner.lock.parent == tmp_path / "run" / "tfhet"
        assert owner.lock.parent.stat().st_mode & 0o777 == 0o700
    (tmp_path / "run" / "tfhet").chmod(0o777)  # anyone could put a lock there that names a folder of ours
    monkeypatch.setattr(sweeper.tempfile, "gettempdir", lambda: str(tmp_path))
    with sweeper.claim() as owner:
        assert owner.lock.parent != tmp_path / "run" / "tfhet"
