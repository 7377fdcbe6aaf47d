"""tests/conftest.py finds what tests leave behind, says whose it is, removes it, and lets tidy tests pass.

In one process, and in the workers of pytest-xdist.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.conftest import in_turn

HEADER = """
import os, subprocess, sys, tempfile, time, pytest
SLEEP = "import time; time.sleep(60)  # {folder}"
"""

UNTIDY = {
    "a_child": """
def test_it():
    subprocess.Popen([sys.executable, "-c", SLEEP, "-m", "tfhet.planes.tf_service"])

def test_that_is_tidy():
    pass
""",
    "an_orphan": """
def test_it():
    orphan = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {SLEEP!r}])"
    subprocess.run([sys.executable, "-c", orphan])
""",
    "a_child_of_an_orphan": """
def test_it():
    code = "import subprocess, sys; subprocess.{}([sys.executable, '-c', {!r}])"
    subprocess.run([sys.executable, "-c", code.format("Popen", code.format("run", SLEEP))])
    time.sleep(0.5)
""",
    "a_folder": """
def test_it():
    tempfile.mkdtemp(prefix="tfhet-")
""",
    "a_folder_of_a_child": """
def test_it():
    subprocess.run([sys.executable, "-c", "import tempfile; tempfile.mkdtemp(prefix='tfhet-')"])
""",
    "a_child_of_a_fixture": """
@pytest.fixture(scope="module")
def server():
    yield subprocess.Popen([sys.executable, "-c", SLEEP, "scripts/launcher.py"])

def test_it(server):
    pass
""",
}

TIDY = """
def test_a_child_that_ends():
    child = subprocess.Popen([sys.executable, "-c", SLEEP, "-m", "tfhet"])
    child.kill()

def test_a_child_that_is_not_ours(request):
    child = subprocess.Popen(["sleep", "100"])
    request.session.config.add_cleanup(child.kill)

def test_a_folder_that_goes():
    with tempfile.TemporaryDirectory(prefix="tfhet-"):
        pass

@pytest.fixture(scope="module")
def server():
    child = subprocess.Popen([sys.executable, "-c", SLEEP, "scripts/launcher.py"])
    yield
    child.kill()
    child.wait()

def test_a_child_of_the_module(server):
    pass
"""

BESIDE = """
def test_something_starts_beside_it():
    open(os.environ["BEGUN"], "w").close()
    child = subprocess.Popen([sys.executable, "-c", SLEEP, "-m", "tfhet"])
    orphan = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {SLEEP!r}])"
    subprocess.run([sys.executable, "-c", orphan.replace("time.sleep(60)", "time.sleep(3)")])
    with tempfile.TemporaryDirectory(prefix="tfhet-"):
        time.sleep(3)
    child.kill()
"""
"""Has a child, an orphan and a folder while the module of the other worker ends."""

MEANWHILE = """
def test_it():
    while not os.path.exists(os.environ["BEGUN"]):
        time.sleep(0.05)
    time.sleep(1)
"""

CRASHES = """
def test_it():
    subprocess.Popen([sys.executable, "-c", SLEEP])
    os._exit(3)

def test_another():
    pass
"""

STUCK = """
import ctypes

@pytest.mark.timeout(1)
def test_it():
    mutex, library = ctypes.create_string_buffer(64), ctypes.CDLL(None)
    while True:
        library.pthread_mutex_lock(mutex)

def test_after_it():
    pass
"""


class Session:
    """A pytest session over made-up test modules, under a copy of our conftest.

    It has no plug-in but pytest-xdist: each of its processes would load all that are installed.
    """

    def __init__(self, folder: Path, modules: dict[str, str], repository: Path, *arguments: str, grace_s: float):
        conftest = (repository / "tests/conftest.py").read_text()
        for name, value in {"GRACE_S": grace_s, "STUCK_S": 1.0}.items():
            conftest, found = re.subn(rf"(?m)^{name} = .*", f"{name} = {value}", conftest)
            assert found == 1
        (folder / "conftest.py").write_text(conftest)
        (folder / "pytest.ini").write_text("[pytest]\n")
        for name, body in modules.items():
            path = folder / f"{name}.py"
            path.parent.mkdir(exist_ok=True)
            path.write_text(HEADER.format(folder=folder) + body)
        plugins = ["-p", "no:cacheprovider", "-p", "pytest_timeout", *(["-p", "xdist"] if arguments else [])]
        command = [sys.executable, "-m", "pytest", "-q", *plugins, *arguments, str(folder)]
        env = {**os.environ, "BEGUN": str(folder / "begun"), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        result = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=240, check=False)
        self.code, self.output = result.returncode, result.stdout + result.stderr
        self.living = [
            process.pid
            for process in psutil.process_iter(["cmdline"])
            if any(str(folder) in word for word in process.info["cmdline"] or [])
        ]
        """Processes that it left."""


@pytest.fixture
def session(tmp_path, repository):
    """`session({module: text}, *pytest_arguments, grace_s=)`; a test whose modules leave something waits it out."""

    def run(modules: dict[str, str], *arguments: str, grace_s: float = 0.2) -> Session:
        return Session(tmp_path, modules, repository, *arguments, grace_s=grace_s)

    return run


def test_what_a_module_leaves_behind_fails_it_and_is_removed(session):
    pytest.importorskip("xdist")
    ended = session({f"test_{kind}": body for kind, body in UNTIDY.items()}, "-n", "2", "--dist", "loadfile")
    assert ended.code == 1, ended.output
    blamed = re.findall(r"left behind by (\S+):\n\s+(process|folder)", ended.output)
    assert dict(blamed) == {f"test_{kind}.py": "folder" if "folder" in kind else "process" for kind in UNTIDY}
    assert "(of test_a_child.py::test_it (call))" in ended.output
    assert ended.living == []


def test_a_test_that_starts_clusters_is_blamed_itself(session):
    ended = session({"integration/test_it": UNTIDY["a_child"]})
    assert re.findall(r"ERROR at teardown of (\w+)", ended.output) == ["test_it"], ended.output
    assert "left behind by this test:\n" in ended.output
    assert ended.living == []


def test_tidy_tests_pass(session):
    ended = session({"test_made_up": TIDY, "integration/test_tidy": TIDY}, grace_s=5.0)
    assert ended.code == 0, ended.output
    assert ended.living == []


def test_a_worker_is_not_blamed_for_what_another_has_running(session):
    pytest.importorskip("xdist")
    ended = session({"test_beside": BESIDE, "test_meanwhile": MEANWHILE}, "-n", "2", "--dist", "loadfile", grace_s=1.0)
    assert ended.code == 0, ended.output


def test_a_worker_that_crashes_fails_the_session_and_what_it_started_is_removed(session):
    pytest.importorskip("xdist")
    ended = session({"test_it": CRASHES}, "-n", "2", "--dist", "loadfile")
    assert ended.code == 1, ended.output
    assert re.search(r"worker gw\d crashed: ", ended.output)
    assert "left behind by the session" in ended.output and "(of test_it.py::test_it (call))" in ended.output
    assert ended.living == []


def test_a_test_that_is_stuck_in_a_library_is_named_and_ended(session):
    pytest.importorskip("xdist")
    ended = session({"test_it": STUCK, "test_tidy": TIDY}, "-n", "2", "--dist", "loadfile", grace_s=5.0)
    assert ended.code == 1, ended.output
    assert re.search(r"worker 'gw\d' crashed while running '\S*test_it.py::test_it'", ended.output), ended.output
    assert 'test_it.py", line' in ended.output and "in test_it" in ended.output, ended.output
    assert re.search(r"[12] failed, 5 passed", ended.output), ended.output


@pytest.mark.parametrize("turn", ["", "0/2", "3/2", "1", "a/b"])
def test_a_turn_that_there_is_not_is_refused(turn: str) -> None:
    with pytest.raises(pytest.UsageError, match="K/N"):
        in_turn(["one"], turn)


def test_all_turns_together_have_every_test_once_whatever_their_order() -> None:
    names = [f"test_{number}" for number in range(11)]
    turns = [in_turn(names[::-1], f"{turn}/4") for turn in range(1, 5)]
    assert sorted(name for turn in turns for name in turn) == sorted(names)
    assert {len(turn) for turn in turns} == {2, 3}
    assert in_turn(names, "2/4") == turns[1]
