"""The check on small packages in the place of tfhet, its verdicts, and the commit that it compares with."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import ROOT
from benchmarks.regression import base_tree, check
from tfhet.errors import TfhetError, UsageError

pytestmark = pytest.mark.timeout(300)

PIPELINE = """
import itertools

class Epoch:
    def repeat(self):
        for _ in itertools.count():
            yield sum(range({work}))

class Pipeline:
    def __init__(self, *arguments): pass
    def dataset(self): return Epoch()
"""
SOURCE = """
class digits:
    repeated = lambda *arguments: None
"""


def package(root: Path, work: int) -> Path:
    """A package with which the case `chain_32` runs; each batch needs `work` units of CPU time."""
    (root / "tfhet").mkdir(parents=True)
    for name, text in (("__init__", PIPELINE.format(work=work)), ("source", SOURCE)):
        (root / "tfhet" / f"{name}.py").write_text(text, encoding="utf-8")
    return root


@pytest.fixture
def one_case(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "FIRST", {"chain_32": 4})
    monkeypatch.setattr(check, "ROUNDS", 5)


@pytest.mark.usefixtures("one_case")
@pytest.mark.parametrize(("head", "code"), [(400_000, 1), (100_000, 0)])
def test_slower_head_fails(head: int, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    roots = {check.HEAD: package(tmp_path / "h", head), check.BASE: package(tmp_path / "b", 200_000)}
    turns, missing = check.compared(tmp_path, roots)
    assert missing == {} and {len(taken) for taken in turns["chain_32"].values()} == {5}
    assert check.verdict("0" * 40, turns, missing) == code
    assert "chain_32" in capsys.readouterr().out


@pytest.mark.usefixtures("one_case")
def test_case_without_api_in_base_is_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = package(tmp_path / "b", 1)
    (old / "tfhet" / "__init__.py").write_text("", encoding="utf-8")
    turns, missing = check.compared(tmp_path, {check.HEAD: package(tmp_path / "h", 1), check.BASE: old})
    assert turns == {} and "Pipeline" in missing["chain_32"]
    assert check.verdict("0" * 40, turns, missing) == check.NO_BASE
    assert "chain_32" in capsys.readouterr().out


@pytest.mark.usefixtures("one_case")
def test_case_that_fails_on_head_is_an_error(tmp_path: Path) -> None:
    new = package(tmp_path / "h", 1)
    (new / "tfhet" / "source.py").unlink()
    with pytest.raises(TfhetError, match="chain_32"):
        check.compared(tmp_path, {check.HEAD: new, check.BASE: package(tmp_path / "b", 1)})


@pytest.mark.parametrize(
    ("ratios", "code"),
    [
        ([1.2] * 8, 1),
        ([1.0, 1.2, 1.3, 1.3, 1.4, 1.3, 1.2, 1.0], 0),  # the interval reaches below the limit
        ([1.05] * 8, 0),
        ([1.5] * 3, check.NO_BASE),
    ],
)
def test_only_whole_interval_above_limit_fails(ratios: list[float], code: int) -> None:
    assert check.verdict("0" * 40, {"feed": {check.HEAD: ratios, check.BASE: [1.0] * len(ratios)}}, {}) == code


def git(folder: Path, *words: str) -> str:
    command = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b.c", *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Three commits on the branch `main`."""
    folder = tmp_path / "repository"
    git(tmp_path, "init", "--quiet", "--initial-branch", "main", str(folder))
    for text in ("1", "2", "3"):
        (folder / "tfhet").mkdir(exist_ok=True)
        (folder / "tfhet" / "module.py").write_text(text, encoding="utf-8")
        git(folder, "add", ".")
        git(folder, "commit", "--quiet", "--message", text)
    return folder


def test_base_is_merge_base_or_commit_before(repository: Path, tmp_path: Path) -> None:
    assert base_tree.base_commit(repository, None) == git(repository, "rev-parse", "HEAD~1")
    assert base_tree.base_commit(repository, "HEAD~2") == git(repository, "rev-parse", "HEAD~2")
    with pytest.raises(UsageError):
        base_tree.base_commit(repository, "nothing")
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", str(repository), str(clone))
    assert base_tree.base_commit(clone, None) == git(repository, "rev-parse", "HEAD~1")
    (clone / "tfhet" / "module.py").write_text("changed", encoding="utf-8")
    assert base_tree.base_commit(clone, None) == git(repository, "rev-parse", "HEAD")
    git(clone, "commit", "--quiet", "--all", "--message", "4")
    assert base_tree.base_commit(clone, None) == git(repository, "rev-parse", "HEAD")


def test_shallow_clone_has_no_base(repository: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "--quiet", "--depth", "1", repository.as_uri(), str(tmp_path / "shallow"))
    assert base_tree.base_commit(tmp_path / "shallow", None) is None
    assert base_tree.base_commit(tmp_path, None) is None


def test_package_of_base_is_extracted(repository: Path, tmp_path: Path) -> None:
    base_tree.extract(repository, git(repository, "rev-parse", "HEAD~2"), tmp_path / "base")
    assert (tmp_path / "base" / "tfhet" / "module.py").read_text(encoding="utf-8") == "1"
    assert git(repository, "status", "--porcelain") == ""


def test_sigterm_leaves_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "tmp"
    folder.mkdir()
    env = {**os.environ, "TMPDIR": str(folder), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "benchmarks.regression", "--base", "HEAD"]
    with subprocess.Popen(command, env=env, cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
        while not list(folder.glob("tfhet-regression-*/probe")):
            if process.poll() is not None:
                pytest.skip(f"no base here: {process.stderr and process.stderr.read()}")
        process.terminate()
        assert process.wait(120) == 128 + 15
    assert list(folder.iterdir()) == []
