"""tests/conftest.py finds what a test leaves behind, removes it, and lets tidy tests pass."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

UNTIDY = {
    "a_child": """
def test_it():
    subprocess.Popen([sys.executable, "-c", SLEEP, "-m", "tfhet.planes.tf_service"])
""",
    "an_orphan": """
def test_it():
    orphan = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {SLEEP!r}])"
    subprocess.run([sys.executable, "-c", orphan])
""",
    "a_folder": """
def test_it():
    tempfile.mkdtemp(prefix="tfhet-")
""",
    "a_folder_of_a_child": """
def test_it():
    subprocess.run([sys.executable, "-c", "import tempfile; tempfile.mkdtemp(prefix='tfhet-')"])
""",
    "a_child_of_a_module": """
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


def outcome(folder: Path, repository: Path, body: str) -> tuple[int, str, list[int]]:
    """Runs a made-up test module under our conftest; returns exit code, output, and the processes that it left."""
    shutil.copy(repository / "tests" / "conftest.py", folder)
    (folder / "pytest.ini").write_text("[pytest]\n")
    header = f"""
import subprocess, sys, tempfile, pytest, conftest
conftest.GRACE_S = 1.0
SLEEP = "import time; time.sleep(60)  # {folder}"
"""
    (folder / "test_made_up.py").write_text(header + body)
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(folder)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    left = []
    for process in psutil.process_iter(["cmdline"]):
        if any(str(folder) in word for word in process.info["cmdline"] or []):
            left.append(process.pid)
    return result.returncode, result.stdout + result.stderr, left


@pytest.mark.parametrize("kind", UNTIDY)
def test_what_a_test_leaves_behind_fails_it_and_is_removed(kind, tmp_path, repository):
    code, output, left = outcome(tmp_path, repository, UNTIDY[kind])
    assert code == 1, output
    assert "left behind by" in output
    assert left == []


def test_tidy_tests_pass(tmp_path, repository):
    code, output, left = outcome(tmp_path, repository, TIDY)
    assert code == 0, output
    assert left == []
