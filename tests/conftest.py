"""What holds for every test: it leaves no process and no temporary folder of tfhet behind.

Fixtures: `nothing_left_behind` (automatic, per module), `repository` (the checkout's path).

A module is checked as a whole, when its last fixture has ended; in the folders of `CHECKED_PER_TEST` each test is
checked too. Sessions on one machine, and the workers of one session (pytest-xdist), do not blame each other: each has a
temporary folder of its own, and a mark in the environment of all that it starts.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import importlib.metadata
import importlib.util
import os
import shutil
import signal
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

GRACE_S = 5.0
"""Seconds that processes and folders may take to disappear: signals and reaping are not instant on a loaded machine."""

STUCK_S = 60.0
"""Seconds after its limit that a test has to end, before its process does. pytest-timeout's signal reaches Python code
only, so a thread that waits inside a library would otherwise hold the session for ever."""

CHECKED_PER_TEST = ("integration", "faults")
"""Folders below this one whose tests start whole clusters: there, a check costs little in comparison."""

SHOWN_VERSIONS = (
    "tensorflow",
    "keras",
    "horovod",
    "torch",
    "ray",
    "tensorflow-addons",
    "sagemaker-training",
    "numpy",
    "protobuf",
)
MARK = "TFHET_TEST_SESSION"
"""This variable names the sessions that a process belongs to, outermost first, with a slash after each.

What a session starts inherits it, so its orphans differ from other sessions' orphans. What a pytest-xdist worker
leaves when it crashes belongs to the session that started the worker, too.
"""


TURN = "TFHET_TEST_TURN"
"""This variable, such as `2/3` for the second of three turns, says whose turn it is among the tests with a mark of
TAKE_TURNS; the others of these are left out. Empty or unset: all run."""
TAKE_TURNS = ("slow", "matrix")


@dataclass(frozen=True)
class Process:
    """A line of the process table."""

    pid: int
    parent: int
    state: str
    """One letter, as in proc(5); Z: it has ended, and its parent has not asked for its exit code."""

    @classmethod
    def read(cls, pid: int) -> Process:
        """Raises OSError when it is gone."""
        _, _, fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")  # the name before may hold anything
        state, parent = fields.split()[:2]
        return cls(pid, int(parent), state.decode())

    def words(self, file: str) -> list[str]:
        """The command line (`cmdline`) or the environment (`environ`); empty when it is gone, or another user's."""
        try:
            return os.fsdecode(Path(f"/proc/{self.pid}/{file}").read_bytes()).split("\0")[:-1]
        except OSError:
            return []

    def variable(self, name: str) -> str:
        """A variable that it was started with, "" when there is none."""
        found = (word.partition("=")[2] for word in self.words("environ") if word.startswith(f"{name}="))
        return next(found, "")

    def __str__(self) -> str:
        test = self.variable("PYTEST_CURRENT_TEST")  # pytest sets it, and children inherit it
        return f"process {self.pid}: {' '.join(self.words('cmdline'))[:200]}" + (f" (of {test})" if test else "")


def process_table() -> dict[int, Process]:
    """All processes of this machine that can be seen, by number."""
    found = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                found[int(entry.name)] = Process.read(int(entry.name))
    return found


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


def living_processes() -> set[int]:
    """Numbers of the processes that this session started and could leave behind; no zombies.

    These are its descendants that run tfhet, and everything that has lost its parent. An orphan's new parent is
    process 1 or another ancestor of this session, so the environment of other processes need not be read.
    """
    table = process_table()
    children: dict[int, list[Process]] = {}
    for process in table.values():
        children.setdefault(process.parent, []).append(process)

    def below(pid: int) -> Iterator[Process]:
        for child in children.get(pid, ()):
            yield child
            yield from below(child.pid)

    me = os.getpid()
    line = {me}
    ancestors = set()
    parent = table[me].parent
    while parent in table:
        ancestors.add(parent)
        line.add(parent)
        parent = table[parent].parent
    found = {child.pid for child in below(me) if child.state != "Z" and looks_like_tfhet(child.words("cmdline"))}
    for ancestor in ancestors | {1}:
        for child in children.get(ancestor, ()):
            if child.pid not in line and child.variable(MARK).startswith(_mark):
                found |= {orphan.pid for orphan in (child, *below(child.pid)) if orphan.state != "Z"}
    return found


def temporary_folders() -> set[str]:
    """The folders tfhet-* in the session's temporary folder."""
    return {str(path) for path in Path(tempfile.gettempdir()).glob("tfhet-*")}


def left_since(processes: set[int], folders: set[str]) -> list[str]:
    """Removes new processes and folders that are not gone after GRACE_S seconds; returns a description of each."""
    deadline = time.monotonic() + GRACE_S
    while True:
        new_processes, new_folders = living_processes() - processes, temporary_folders() - folders
        if not (new_processes or new_folders) or time.monotonic() >= deadline:
            break
        time.sleep(0.1)
    left = []
    for pid in sorted(new_processes):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            left.append(str(Process.read(pid)))
            os.kill(pid, signal.SIGKILL)
    for folder in new_folders:
        shutil.rmtree(folder, ignore_errors=True)
    return left + [f"folder {path}" for path in sorted(new_folders)]


@contextlib.contextmanager
def nothing_left_by(who: str) -> Iterator[None]:
    """Fails when the body leaves a process of tfhet, an orphan, or a temporary folder tfhet-*; and removes it."""
    processes, folders = living_processes(), temporary_folders()
    yield
    if left := left_since(processes, folders):
        pytest.fail(f"left behind by {who}:\n  " + "\n  ".join(left), pytrace=False)


@pytest.fixture(autouse=True, scope="module")
def nothing_left_behind(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fails the last test of a module that leaves something behind. Fixtures of the module have ended by then."""
    with nothing_left_by(request.node.nodeid):
        yield


@pytest.fixture(autouse=True)
def nothing_left_by_the_test(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fails the very test, in the folders of `CHECKED_PER_TEST`."""
    here = Path(__file__).parent
    is_checked = any(here / folder in request.path.parents for folder in CHECKED_PER_TEST)
    with nothing_left_by("this test") if is_checked else contextlib.nullcontext():
        yield


@pytest.fixture(scope="session")
def repository() -> Path:
    """The checkout that the tests are part of."""
    return Path(__file__).resolve().parents[1]


def in_turn(names: list[str], turn: str) -> set[str]:
    """The names whose turn it is, `2/3` being the second of three. Raises pytest.UsageError."""
    first, _, of = turn.partition("/")
    if not (first.isdigit() and of.isdigit() and 1 <= int(first) <= int(of)):
        raise pytest.UsageError(f"{TURN}={turn}: give K/N, like 1/3 for the first of three turns")
    return set(sorted(names)[int(first) - 1 :: int(of)])


def load_hypothesis_profile() -> None:
    """Makes Hypothesis draw the same examples in every run, except in the fuzz lane, at any speed of the machine."""
    if importlib.util.find_spec("hypothesis"):
        from hypothesis import HealthCheck, settings

        is_fuzz = os.environ.get("TFHET_FUZZ") == "full"
        slow = [HealthCheck.too_slow]
        settings.register_profile("tfhet", deadline=None, derandomize=not is_fuzz, suppress_health_check=slow)
        settings.load_profile("tfhet")


def pytest_configure(config: pytest.Config) -> None:
    global _mark
    load_hypothesis_profile()
    _mark = os.environ[MARK] = f"{os.environ.get(MARK, '')}{os.getpid()}-{uuid.uuid4().hex[:8]}/"
    outer = tempfile.gettempdir()
    os.environ.setdefault(
        "PYTEST_DEBUG_TEMPROOT", outer
    )  # tmp_path stays where pytest has it, to be looked at afterwards
    config.stash[_TEMPORARY] = tempfile.mkdtemp(prefix="pytest-", dir=outer)
    config.stash[_OUTER_TMPDIR] = os.environ.get("TMPDIR")
    config.stash[_OF_THE_SESSION] = []
    config.stash[_STDERR] = os.dup(2)  # which pytest captures
    os.environ["TMPDIR"] = tempfile.tempdir = config.stash[_TEMPORARY]


def pytest_unconfigure(config: pytest.Config) -> None:
    tempfile.tempdir = None
    outer = config.stash.get(_OUTER_TMPDIR, None)
    if outer is None:
        os.environ.pop("TMPDIR", None)
    else:
        os.environ["TMPDIR"] = outer
    os.environ[MARK] = _mark[: _mark[:-1].rfind("/") + 1]
    shutil.rmtree(config.stash[_TEMPORARY], ignore_errors=True)
    os.close(config.stash[_STDERR])


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[object]:
    """Ends the process with the stacks of its threads when a test is stuck inside a library; see STUCK_S."""
    if limit_s := limit_of(item):
        faulthandler.dump_traceback_later(limit_s + STUCK_S, exit=True, file=item.config.stash[_STDERR])
    result = yield
    faulthandler.cancel_dump_traceback_later()
    return result


def limit_of(item: pytest.Item) -> float:
    """Limit of a test in seconds, as pytest-timeout finds it; 0 without pytest-timeout."""
    if not hasattr(item.config.option, "timeout"):
        return 0.0
    mark = item.get_closest_marker("timeout")
    if mark is not None:
        return float(mark.args[0])
    option = item.config.option.timeout
    return float(item.config.getini("timeout") or 0.0) if option is None else float(option)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """A worker of pytest-xdist has ended: takes over what it found at its end, and that it crashed."""
    of_the_session = node.config.stash[_OF_THE_SESSION]
    if error:
        of_the_session.append(f"worker {node.gateway.id} crashed: {error}")
    of_the_session += getattr(node, "workeroutput", {}).get("left", [])


@pytest.hookimpl(optionalhook=True)
def pytest_handlecrashitem(crashitem: str, sched: Any) -> None:
    """Takes a test that ended its worker out of its file, which pytest-xdist would otherwise repeat whole, for ever."""
    for file, tests in list(getattr(sched, "workqueue", {}).items()):
        if crashitem in tests:
            tests[crashitem] = True
            if all(tests.values()):
                del sched.workqueue[file]


def pytest_sessionfinish(session: pytest.Session) -> None:
    left = left_since(set(), set())
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left"] = left
        return
    of_the_session = session.config.stash[_OF_THE_SESSION]
    of_the_session += left
    if of_the_session and session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if of_the_session := terminalreporter.config.stash[_OF_THE_SESSION]:
        terminalreporter.section("left behind by the session", red=True)
        for line in of_the_session:
            terminalreporter.line(line)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(call: pytest.CallInfo[None]) -> Iterator[None]:
    """Shows the last lines of a job that a test saw fail."""
    report = yield
    if call.excinfo is not None and (tail := getattr(call.excinfo.value, "log_tail", ())):
        report.sections.append(("the last lines of the job", "\n".join(tail)))
    return report


def longest_first(items: list[pytest.Item]) -> None:
    """Sorts the files: those with slow tests first, then by how long their tests may take.

    Workers of pytest-xdist take files in this order, so none is left with long ones when the others have no more.
    """
    slow: set[Path] = set()
    limits_s: Counter[Path] = Counter()
    for item in items:
        limits_s[item.path] += limit_of(item)
        if item.get_closest_marker("slow"):
            slow.add(item.path)
    items.sort(key=lambda item: (item.path not in slow, -limits_s[item.path]))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skips what the machine cannot do, saying so; the header shows it too. Workers begin with the longest."""
    if turn := os.environ.get(TURN):
        long = [item.nodeid for item in items if any(item.get_closest_marker(mark) for mark in TAKE_TURNS)]
        waiting = set(long) - in_turn(long, turn)
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid in waiting])
        items[:] = [item for item in items if item.nodeid not in waiting]
    if hasattr(config, "workerinput"):
        longest_first(items)
    horovod, mpirun = importlib.util.find_spec("horovod") is not None, shutil.which("mpirun") is not None
    torch, ray = (importlib.util.find_spec(name) is not None for name in ("torch", "ray"))
    for item in items:
        if not torch and item.get_closest_marker("torch"):
            item.add_marker(pytest.mark.skip(reason="PyTorch is not installed: scripts/test --torch has it"))
        elif not ray and item.get_closest_marker("ray"):
            item.add_marker(pytest.mark.skip(reason="Ray is not installed: scripts/test --ray has it"))
        elif not horovod and (item.get_closest_marker("horovod") or item.get_closest_marker("mpi")):
            item.add_marker(pytest.mark.skip(reason="Horovod is not installed"))
        elif not mpirun and item.get_closest_marker("mpi"):
            item.add_marker(pytest.mark.skip(reason="mpirun is not installed"))


def pytest_collection_finish() -> None:
    """Takes what the test modules import (a million objects with TensorFlow) out of all later garbage collections.

    Tests that collect garbage themselves take 0.05 s so, instead of 0.6 s.
    """
    gc.collect()
    gc.freeze()


def pytest_report_header() -> list[str]:
    shown = []
    for name in SHOWN_VERSIONS:
        try:
            shown.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            shown.append(f"{name} missing")
    tools = ", ".join(f"{tool} {'found' if shutil.which(tool) else 'missing'}" for tool in ("mpirun", "ip", "sshd"))
    return ["versions: " + ", ".join(shown), f"machine: {os.cpu_count()} CPUs, {tools}"]


_mark = "of no session"
_TEMPORARY = pytest.StashKey[str]()
_OUTER_TMPDIR = pytest.StashKey["str | None"]()
_OF_THE_SESSION = pytest.StashKey[list[str]]()
_STDERR = pytest.StashKey[int]()
"""Things that no module is to blame for: left behind at the end, and workers that crashed."""
