"""What holds for every test: it leaves no process and no temporary folder of tfhet behind.

Fixtures: `nothing_left_behind` (automatic; per test), `repository` (the checkout's path).
Temporary files of a session, and of the processes that it starts, go to a folder of its own, so that two sessions on
one machine do not blame each other. A module- or session-scoped fixture may keep processes alive between tests: they
count as left behind at the end of the session only.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import os
import shutil
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

GRACE_S = 5.0
"""How long what is still ending may take: signals and reaping are not instant on a loaded machine."""

SHOWN_VERSIONS = ("tensorflow", "keras", "horovod", "tensorflow-addons", "sagemaker-training", "numpy", "protobuf")
MARK = "TFHET_TEST_SESSION"
"""This variable, inherited by all that a session starts, tells its orphans from those of others."""


def looks_like_tfhet(command: list[str]) -> bool:
    """Whether a command line runs tfhet: as a module, by its console script, by a file of it, or by the launcher."""
    for before, word in zip(["", *command], command, strict=False):
        module = before == "-m" and (word == "tfhet" or word.startswith(("tfhet.", "benchmarks.")))
        if (
            module
            or word.endswith(("scripts/launcher.py", "bin/tfhet"))
            or ("/tfhet/" in word and word.endswith(".py"))
        ):
            return True
    return False


def living_processes() -> dict[int, str]:
    """What this session started and could leave behind, as {pid: command line}.

    Descendants that run tfhet, and whatever lost its parent, told by the mark in its environment; no zombies.
    """
    session = os.environ[MARK]
    me = psutil.Process()
    descendants = {child.pid for child in me.children(recursive=True)}
    found = {}
    for process in psutil.process_iter():
        try:
            if process.pid == me.pid or process.create_time() < me.create_time():
                continue
            if process.status() == psutil.STATUS_ZOMBIE:
                continue
            command = process.cmdline()
            if process.pid in descendants:
                ours = looks_like_tfhet(command)
            else:
                ours = process.environ().get(MARK) == session
        except psutil.Error:  # gone meanwhile, or another user's
            continue
        if ours:
            found[process.pid] = " ".join(command)[:200]
    return found


def temporary_folders() -> set[str]:
    """The folders tfhet-* in the session's temporary folder."""
    return {str(path) for path in Path(tempfile.gettempdir()).glob("tfhet-*")}


def left_since(processes: dict[int, str], folders: set[str]) -> list[str]:
    """What is there that was not there before, after waiting up to GRACE_S seconds for it to go; and removes it."""
    deadline = time.monotonic() + GRACE_S
    while True:
        now = {pid: command for pid, command in living_processes().items() if pid not in processes}
        new_folders = temporary_folders() - folders
        if not (now or new_folders) or time.monotonic() >= deadline:
            break
        time.sleep(0.1)
    for pid in now:
        with contextlib.suppress(psutil.Error):
            psutil.Process(pid).kill()
    for folder in new_folders:
        shutil.rmtree(folder, ignore_errors=True)
    ended = [f"process {pid}: {command}" for pid, command in now.items()]
    return ended + [f"folder {path}" for path in sorted(new_folders)]


@pytest.fixture(autouse=True)
def nothing_left_behind() -> Iterator[None]:
    """Fails the test that leaves a process of tfhet, an orphan, or a temporary folder tfhet-*; and removes it."""
    processes, folders = living_processes(), temporary_folders()
    yield
    left = left_since(processes, folders)
    if left:
        pytest.fail("left behind by this test:\n  " + "\n  ".join(left), pytrace=False)


@pytest.fixture(scope="session")
def repository() -> Path:
    """The checkout that the tests are part of."""
    return Path(__file__).resolve().parents[1]


def pytest_configure(config: pytest.Config) -> None:
    os.environ[MARK] = f"{os.getpid()}-{uuid.uuid4().hex[:8]}"
    outer = tempfile.gettempdir()
    os.environ.setdefault(
        "PYTEST_DEBUG_TEMPROOT", outer
    )  # tmp_path stays where pytest has it, to be looked at afterwards
    config.stash[_TEMPORARY] = tempfile.mkdtemp(prefix="pytest-", dir=outer)
    config.stash[_OUTER_TMPDIR] = os.environ.get("TMPDIR")
    os.environ["TMPDIR"] = tempfile.tempdir = config.stash[_TEMPORARY]


def pytest_unconfigure(config: pytest.Config) -> None:
    tempfile.tempdir = None
    outer = config.stash.get(_OUTER_TMPDIR, None)
    if outer is None:
        os.environ.pop("TMPDIR", None)
    else:
        os.environ["TMPDIR"] = outer
    shutil.rmtree(config.stash[_TEMPORARY], ignore_errors=True)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    left = left_since({}, set())
    if left:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
        print("\nleft behind by the session:\n  " + "\n  ".join(left), file=sys.stderr)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skips what the machine cannot do, saying so; the header shows it too."""
    horovod, mpirun = importlib.util.find_spec("horovod") is not None, shutil.which("mpirun") is not None
    for item in items:
        if not horovod and (item.get_closest_marker("horovod") or item.get_closest_marker("mpi")):
            item.add_marker(pytest.mark.skip(reason="Horovod is not installed"))
        elif not mpirun and item.get_closest_marker("mpi"):
            item.add_marker(pytest.mark.skip(reason="mpirun is not installed"))


def pytest_report_header() -> list[str]:
    shown = []
    for name in SHOWN_VERSIONS:
        try:
            shown.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            shown.append(f"{name} missing")
    tools = ", ".join(f"{tool} {'found' if shutil.which(tool) else 'missing'}" for tool in ("mpirun", "ip", "sshd"))
    return ["versions: " + ", ".join(shown), f"machine: {os.cpu_count()} CPUs, {tools}"]


_TEMPORARY = pytest.StashKey[str]()
_OUTER_TMPDIR = pytest.StashKey["str | None"]()
