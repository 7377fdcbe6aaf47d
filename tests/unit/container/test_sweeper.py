"""The remains of a simulator that died are found and removed; what belongs to a living one is left alone."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
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

needs_cgroups = pytest.mark.skipif(
    sys.platform != "linux" or os.getuid() != 0 or not hierarchies(), reason="needs root, and cgroups mounted"
)


@pytest.fixture
def locks(tmp_path: Path) -> Path:
    folder = tmp_path / "locks"
    folder.mkdir()
    return folder


class Other:
    """Another simulator, in a process of its own."""

    def __init__(self, locks: Path, folder: Path, *has: str):
        folder.mkdir()
        self.folder = folder
        self.process = subprocess.Popen(
            [sys.executable, "-c", OWNER, str(locks), str(folder), *has], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self.process.stdout is not None
        self.tag, *pids = self.process.stdout.readline().decode().split()
        self.pids = [int(pid) for pid in pids]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(LIMIT_S)
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()


@pytest.fixture
def others(locks: Path) -> Iterator[list[Other]]:
    made: list[Other] = []
    yield made
    for other in made:
        if other.process.poll() is None:
            other.kill()
    sweeper.sweep(locks)


def is_alive(pid: int) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


def test_tags_are_short_words_of_their_own(locks: Path):
    owners = [sweeper.claim(locks) for _ in range(20)]
    assert len({owner.tag for owner in owners}) == 20
    assert all(re.fullmatch("[a-z0-9]{4}", owner.tag) for owner in owners)
    for owner in owners:
        owner.release()
    assert list(locks.iterdir()) == []


def test_folders_of_the_dead_are_removed_with_their_lock(locks: Path, others: list[Other], tmp_path: Path):
    others.append(dead := Other(locks, tmp_path / "dead"))
    dead.kill()
    assert sweeper.sweep(locks) == [f"left by a simulator that died ({dead.tag}): folder {tmp_path}/dead: removed"]
    assert not dead.folder.exists()
    assert list(locks.iterdir()) == []
    assert sweeper.sweep(locks) == []


def test_what_belongs_to_the_living_is_left_alone(locks: Path, others: list[Other], tmp_path: Path):
    others.append(living := Other(locks, tmp_path / "living"))
    with sweeper.claim(locks) as mine:
        mine.register(locks.parent / "living")
        assert sweeper.sweep(locks) == []
        assert (living.folder / "upper").is_dir()
        assert {path.stem for path in locks.iterdir()} == {living.tag, mine.tag}


@needs_cgroups
def test_cgroups_of_the_dead_are_removed_with_their_processes(locks: Path, others: list[Other], tmp_path: Path):
    others += [dead := Other(locks, tmp_path / "dead", "cgroup"), living := Other(locks, tmp_path / "living", "cgroup")]
    dead.kill()
    assert is_alive(dead.pids[0])
    lines = sweeper.sweep(locks)
    assert any(f"cgroup tfhet-{dead.tag}-algo-1: removed, 1 processes killed" in line for line in lines)
    assert not is_alive(dead.pids[0]) and is_alive(living.pids[0])
    names = {path.name for tree in hierarchies() for path in tree.top.glob("tfhet-*-algo-1")}
    assert f"tfhet-{living.tag}-algo-1" in names and f"tfhet-{dead.tag}-algo-1" not in names
    living.kill()
    assert sweeper.sweep(locks)
    assert not is_alive(living.pids[0])


@pytest.mark.skipif(sys.platform != "linux" or os.getuid() != 0, reason="mounting needs root")
def test_what_is_mounted_in_a_folder_of_the_dead_is_not_removed_with_it(
    locks: Path, others: list[Other], tmp_path: Path
):
    others.append(dead := Other(locks, tmp_path / "dead"))
    (precious := tmp_path / "precious").mkdir()
    (precious / "file").write_text("x")
    (dead.folder / "in").mkdir()
    subprocess.run(["mount", "--bind", str(precious), str(dead.folder / "in")], check=True, timeout=LIMIT_S)
    dead.kill()
    sweeper.sweep(locks)
    assert not dead.folder.exists()
    assert (precious / "file").read_text() == "x"
    assert str(dead.folder) not in Path("/proc/self/mountinfo").read_text()


def test_a_folder_that_is_another_by_now_is_left_alone(locks: Path, others: list[Other], tmp_path: Path):
    others.append(dead := Other(locks, tmp_path / "dead"))
    dead.folder.rename(tmp_path / "elsewhere")
    dead.folder.mkdir()
    dead.kill()
    sweeper.sweep(locks)
    assert dead.folder.is_dir() and (tmp_path / "elsewhere").is_dir()


def test_a_lock_with_half_a_line_is_read_as_far_as_it_goes(locks: Path, others: list[Other], tmp_path: Path):
    others.append(dead := Other(locks, tmp_path / "dead"))
    with open(locks / f"{dead.tag}.lock", "a") as lock:
        lock.write('{"folder": "/et')
    dead.kill()
    assert len(sweeper.sweep(locks)) == 1
    assert not dead.folder.exists()


@pytest.mark.parametrize("path", ["/", "/tmp", "nowhere/at/all"])
def test_only_a_folder_of_ones_own_can_be_registered(locks: Path, path: str):
    with sweeper.claim(locks) as owner, pytest.raises(UsageError, match="can be registered"):
        owner.register(Path(path))


@needs_cgroups
def test_what_cannot_be_removed_is_said_and_tried_again(locks: Path, others: list[Other], tmp_path: Path, monkeypatch):
    others.append(dead := Other(locks, tmp_path / "dead", "cgroup"))
    dead.kill()
    with monkeypatch.context() as patch:
        patch.setattr(Cgroup, "remove", lambda self: [4711])
        assert any("processes 4711 do not die" in line for line in sweeper.sweep(locks))
    assert [path.stem for path in locks.iterdir()] == [dead.tag]
    assert any("removed, 1 processes killed" in line for line in sweeper.sweep(locks))
    assert list(locks.iterdir()) == []


def test_the_machines_folder_is_ones_own(monkeypatch, tmp_path: Path):
    monkeypatch.setattr(sweeper, "SYSTEM_FOLDER", tmp_path / "run" / "tfhet")
    (tmp_path / "run").mkdir()
    with sweeper.claim() as owner:
        assert owner.lock.parent == tmp_path / "run" / "tfhet"
        assert owner.lock.parent.stat().st_mode & 0o777 == 0o700
    (tmp_path / "run" / "tfhet").chmod(0o777)  # anybody could put a lock there that names a folder of ours
    monkeypatch.setattr(sweeper.tempfile, "gettempdir", lambda: str(tmp_path))
    with sweeper.claim() as owner:
        assert owner.lock.parent != tmp_path / "run" / "tfhet"


def test_a_killed_process_gives_its_lock_back_by_itself(locks: Path, others: list[Other], tmp_path: Path):
    others.append(dead := Other(locks, tmp_path / "dead"))
    os.kill(dead.process.pid, signal.SIGSTOP)
    assert sweeper.sweep(locks) == []  # as long as it is there at all
    dead.kill()
    assert sweeper.sweep(locks) != []
