"""bench/code.py: which code a record measures, and whether it has changed since."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tfhet.bench.code import MeasuredCode, changed, digest

BEFORE = '"""A module."""\n\n\ndef two():\n    """Returns 2."""\n    return 1 + 1  # so far\n'


@pytest.fixture
def part(tmp_path: Path) -> Path:
    """A folder with a module and a kernel."""
    folder = tmp_path / "part"
    folder.mkdir()
    (folder / "two.py").write_text(BEFORE)
    (folder / "op.cc").write_text("int two() { return 2; }\n")
    return folder


@pytest.mark.parametrize(
    ("file", "text", "is_other"),
    [
        ("two.py", BEFORE.replace("Returns 2", "Returns two").replace("# so far", "# still"), False),
        ("two.py", BEFORE.replace("1 + 1", "1+1"), False),
        ("two.py", BEFORE.replace("1 + 1", "3 - 1"), True),
        ("op.cc", "int two() { return 1 + 1; }\n", True),
        ("three.py", "THREE = 3\n", True),
        ("test_two.py", "assert True\n", False),
        ("README.md", "# part\n", False),
        ("costs.py", "COSTS = 1\n", False),
    ],
)
def test_a_part_is_another_one_when_what_it_does_has_changed(part: Path, file: str, text: str, is_other: bool) -> None:
    before = digest(part)
    (part / file).write_text(text)
    assert (digest(part) != before) == is_other


def test_a_module_of_another_name_is_another_part(part: Path) -> None:
    before = digest(part)
    (part / "two.py").rename(part / "deux.py")
    assert digest(part) != before


def test_the_parts_that_have_changed_since_are_named(part: Path) -> None:
    root = part.parent
    (root / "one.py").write_text("ONE = 1\n")
    noted = MeasuredCode.of(["part", "one.py"], root).to_json()
    assert changed(noted, root) == []
    (root / "one.py").write_text("ONE = 2\n")
    assert changed(noted, root) == ["one.py"]
    (part / "two.py").unlink()
    (part / "op.cc").unlink()
    part.rmdir()
    assert changed(noted, root) == ["one.py", "part"]
    assert changed({}, root) is None


def test_the_commit_is_clean_until_a_part_is_edited(part: Path) -> None:
    root = part.parent
    assert (MeasuredCode.of(["part"], root).commit, MeasuredCode.of(["part"], root).is_clean) == (
        "",
        False,
    )  # no repository

    def git(*words: str) -> str:
        identity = ("-c", "user.name=a", "-c", "user.email=a@b")
        command = ["git", "-C", str(root), *identity, *words]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout.strip()

    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "all")
    (root / "beside.py").write_text("")  # not measured
    made = MeasuredCode.of(["part"], root)
    assert (made.commit, made.is_clean) == (git("rev-parse", "HEAD"), True)
    (part / "two.py").write_text(BEFORE + "\n")
    assert not MeasuredCode.of(["part"], root).is_clean


def test_a_part_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere: there is no such part"):
        MeasuredCode.of(["nowhere"], tmp_path)
