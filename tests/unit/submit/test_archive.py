from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest

from tfhet.errors import UsageError
from tfhet.submit import Archive, Code, submission


@pytest.fixture
def code(tmp_path: Path) -> Code:
    folder = tmp_path / "src"
    (folder / "package").mkdir(parents=True)
    (folder / "launcher.py").write_text("print('starts')\n")
    (folder / "package" / "b.py").write_text("")
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o700)
    return Code(folder, "launcher.py", "s3://my-bucket/some/code")


def members(packed: Archive) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(packed.content), mode="r:gz") as opened:
        return {member.name: member for member in opened.getmembers()}


def test_it_holds_the_files_of_the_directory_readable_for_everybody(code):
    found = members(Archive.of(code))
    assert {name: oct(member.mode) for name, member in found.items()} == {
        "launcher.py": "0o644",
        "package/b.py": "0o644",
        "run.sh": "0o755",
    }


def test_the_same_files_make_the_same_bytes_and_the_same_place_whenever_and_whosever_they_are(code):
    first = Archive.of(code)
    os.utime(code.directory / "launcher.py", (1, 1))
    (code.directory / "package" / "b.py").chmod(0o600)
    (code.directory / "__pycache__").mkdir()
    (code.directory / "__pycache__" / "launcher.cpython-311.pyc").write_bytes(b"x")
    assert Archive.of(code) == first


@pytest.mark.parametrize("name", [".env", ".env.local", "key.pem", ".aws/credentials"])
def test_secrets_are_not_packed(code, name):
    first = Archive.of(code)
    (code.directory / name).parent.mkdir(exist_ok=True)
    (code.directory / name).write_text("AWS_SECRET_ACCESS_KEY=x")
    assert Archive.of(code) == first


def test_other_files_go_to_another_place_so_that_a_job_that_runs_keeps_its_own(code):
    first = Archive.of(code)
    (code.directory / "launcher.py").write_text("print('starts otherwise')\n")
    second = Archive.of(code)
    assert first.uri != second.uri
    assert second.place == {"Bucket": "my-bucket", "Key": second.uri.removeprefix("s3://my-bucket/")}
    assert second.place["Key"].startswith("some/code/") and second.place["Key"].endswith("/sourcedir.tar.gz")


def test_a_link_to_a_file_is_packed_as_the_file_and_one_to_a_directory_is_refused(code, tmp_path):
    (tmp_path / "else.py").write_text("x = 1\n")
    (code.directory / "linked.py").symlink_to(tmp_path / "else.py")
    assert members(Archive.of(code))["linked.py"].size == 6
    (code.directory / "linked").symlink_to(tmp_path)
    with pytest.raises(UsageError, match="linked is a link to a directory"):
        Archive.of(code)


def test_a_directory_that_is_too_large_is_refused(code, monkeypatch):
    monkeypatch.setattr(submission, "MOST_BYTES", 20)
    with pytest.raises(UsageError, match="give data as a channel"):
        Archive.of(code)


def test_a_link_to_nothing_is_named(code):
    (code.directory / "gone.py").symlink_to(code.directory / "nowhere")
    with pytest.raises(UsageError, match=r"gone\.py"):
        Archive.of(code)
