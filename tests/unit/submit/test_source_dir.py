"""The code directory that `tfhet package` makes, and the wheel of the installed package in it."""

from __future__ import annotations

import email
import os
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

import tfhet
from tfhet.__main__ import main
from tfhet.errors import UsageError
from tfhet.submit import source_dir

pytestmark = pytest.mark.timeout(120)

ROOT = Path(__file__).resolve().parents[3]


def make(*arguments: object) -> int:
    return main(["package", *map(str, arguments)])


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    (folder / "my_train.py").write_text("print('trains')\n")
    (folder / "needs.txt").write_text("einops\n")
    assert make(folder / "src", "--script", folder / "my_train.py", "--requirements", folder / "needs.txt") == 0
    return folder / "src"


def wheel_of(folder: Path) -> Path:
    (wheel,) = folder.glob("tfhet-*.whl")
    return wheel


def required(folder: Path) -> list[str]:
    lines = (folder / "requirements.txt").read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def test_it_holds_the_entry_point_the_script_and_tfhet_and_nothing_else(made):
    names = sorted(path.name for path in made.iterdir())
    assert names == ["launcher.py", "my_train.py", "requirements.txt", wheel_of(made).name]
    assert (made / "launcher.py").read_text() == (ROOT / "scripts" / "launcher.py").read_text()
    assert (made / "my_train.py").read_text() == "print('trains')\n"


def test_the_requirements_are_the_wheel_beside_them_the_packages_own_mpi4py_and_the_users_own(made):
    (own,) = [line for line in metadata.requires("tfhet") if line.startswith("mpi4py")]
    assert required(made) == [f"./{wheel_of(made).name}", own.partition(";")[0].strip(), "einops"]
    horovod = (made / "requirements.txt").read_text().partition("# horovod")[2]
    assert horovod.startswith("==0.28.1\n")  # as a comment: it is built in the image


def test_the_wheel_has_every_file_of_the_package_and_one_line_for_each_in_its_record(made):
    with zipfile.ZipFile(wheel_of(made)) as wheel:
        assert wheel.testzip() is None
        held = {name for name in wheel.namelist() if name.startswith("tfhet/")}
        (record,) = [name for name in wheel.namelist() if name.endswith(".dist-info/RECORD")]
        recorded = [line.split(",")[0] for line in wheel.read(record).decode().splitlines()]
    there = {path.relative_to(ROOT).as_posix() for path in (ROOT / "tfhet").rglob("*") if path.is_file()}
    assert held == {name for name in there if "__pycache__" not in name}
    assert sorted(recorded) == sorted({*held, *(name for name in recorded if ".dist-info/" in name)})


def test_the_wheels_version_is_told_apart_from_an_installed_one_by_its_content(made):
    with zipfile.ZipFile(wheel_of(made)) as wheel:
        (name,) = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
        version = email.message_from_bytes(wheel.read(name))["Version"]
    public, _, local = version.partition("+")
    assert public == tfhet.__version__
    assert local.startswith("s") and len(local) == 13


def test_again_it_gives_the_same_and_leaves_what_was_added(made):
    (made / "mine.py").write_text("x = 1\n")
    (made / "tfhet-0.0.9-py3-none-any.whl").write_text("an old one")
    before = {path.name: path.read_bytes() for path in made.iterdir() if path.name != "tfhet-0.0.9-py3-none-any.whl"}
    script, needs = made.parent / "my_train.py", made.parent / "needs.txt"
    try:
        assert make(made, "--script", script, "--requirements", needs) == 0
        assert {path.name: path.read_bytes() for path in made.iterdir()} == before
    finally:
        (made / "mine.py").unlink()


def test_pip_finds_nothing_to_fetch_where_the_dependencies_are_there(made, tmp_path):
    # As the toolkit does it, on a host without network: in the folder, `pip install -r requirements.txt`.
    (tmp_path / "only.txt").write_text("\n".join(required(made)[:2]))
    for name in (wheel_of(made).name,):
        (tmp_path / name).symlink_to(made / name)
    pip = [sys.executable, "-m", "pip", "install", "--dry-run", "--no-index", "--disable-pip-version-check"]
    told = subprocess.run(
        [*pip, "-r", "only.txt"], cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False
    )
    assert told.returncode == 0, told.stderr
    would = [line for line in told.stdout.splitlines() if line.startswith("Would install")]
    version = wheel_of(made).name.split("-")[1]
    assert would == [f"Would install tfhet-{version}"]


@pytest.mark.parametrize("words", [[], ["a", "b"], ["a", "--script"], ["a", "--copy"]])
def test_words_that_do_not_parse_make_nothing(words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert make(*words) == 2
    assert "usage: tfhet" in capsys.readouterr().err
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("option", ["--script", "--requirements"])
def test_a_file_that_is_not_there_is_named_and_nothing_is_made(option, tmp_path, capsys):
    assert make(tmp_path / "src", option, tmp_path / "no.py") == 2
    assert f"{option} {tmp_path}/no.py: no such file" in capsys.readouterr().err
    assert not (tmp_path / "src").exists()


def test_a_folder_of_somebody_elses_is_refused_and_left_as_it_is(tmp_path, capsys):
    (tmp_path / "requirements.txt").write_text("numpy\n")
    assert make(tmp_path) == 2
    assert "was not made by tfhet package" in capsys.readouterr().err
    assert os.listdir(tmp_path) == ["requirements.txt"]
    assert make(tmp_path / "requirements.txt") == 2
    assert "is a file; give a directory" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["setup.py", "tfhet"])
def test_what_would_change_how_the_toolkit_starts_it_is_refused(made, name, capsys):
    path = made / name
    path.mkdir() if name == "tfhet" else path.write_text("")
    try:
        assert make(made) == 2
        assert f"{path} would" in capsys.readouterr().err
    finally:
        path.rmdir() if name == "tfhet" else path.unlink()


@pytest.mark.parametrize("name", ["setup.py", "launcher.py"])
def test_a_script_whose_name_means_something_else_is_refused(tmp_path, name, capsys):
    (tmp_path / name).write_text("")
    assert make(tmp_path / "src", "--script", tmp_path / name) == 2
    assert f"{name} means something else" in capsys.readouterr().err
    assert not (tmp_path / "src").exists()


def test_a_package_that_is_not_installed_is_not_packed(tmp_path, monkeypatch):
    def missing(name: str) -> None:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", missing)
    with pytest.raises(UsageError, match="tfhet is not installed here"):
        source_dir.make(tmp_path / "src")
    assert not (tmp_path / "src").exists()
