"""What a SageMaker user gives as source_dir, as scripts/source_dir makes it."""

from __future__ import annotations

import email
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import tfhet

pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="scripts/source_dir is for Linux"),
]

ROOT = Path(__file__).resolve().parents[2]


def make(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [ROOT / "scripts" / "source_dir", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    (folder / "my_train.py").write_text("print('trains')\n")
    (folder / "needs.txt").write_text("einops\n")
    told = make(folder / "src", "--script", folder / "my_train.py", "--requirements", folder / "needs.txt")
    assert told.returncode == 0, told.stderr
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


def test_the_requirements_are_the_wheel_beside_them_mpi4py_as_locked_and_the_users_own(made):
    (locked,) = [line for line in (ROOT / "requirements.lock").read_text().splitlines() if line.startswith("mpi4py==")]
    assert required(made) == [f"./{wheel_of(made).name}", locked, "einops"]


def test_the_wheel_has_every_file_that_the_package_needs(made):
    with zipfile.ZipFile(wheel_of(made)) as wheel:
        held = {name for name in wheel.namelist() if name.startswith("tfhet/")}
    there = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "tfhet").rglob("*")
        if path.is_file() and path.suffix in (".py", ".cc", ".h", ".yaml", ".html", ".j2", ".typed")
    }
    assert there <= held, sorted(there - held)
    assert not [name for name in held if "__pycache__" in name]


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
        assert make(made, "--script", script, "--requirements", needs).returncode == 0
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


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "which directory"),
        (["a", "b"], "one directory"),
        (["a", "--script"], "--script needs a file"),
        (["a", "--script", "no.py"], "no such file"),
        (["a", "--copy"], "unknown argument --copy"),
    ],
)
def test_wrong_use_is_said_and_makes_nothing(arguments, told, tmp_path):
    words = [str(tmp_path / word) if word in ("a", "b") else word for word in arguments]
    result = make(*words)
    assert result.returncode == 2 and told in result.stderr
    assert not (tmp_path / "a").exists()


def test_a_folder_of_somebody_elses_is_refused_and_left_as_it_is(tmp_path):
    (tmp_path / "requirements.txt").write_text("numpy\n")
    result = make(tmp_path)
    assert result.returncode == 2 and "was not made by this script" in result.stderr
    assert os.listdir(tmp_path) == ["requirements.txt"]


@pytest.mark.parametrize("name", ["setup.py", "tfhet"])
def test_what_would_change_how_the_toolkit_starts_it_is_refused(made, name):
    path = made / name
    path.mkdir() if name == "tfhet" else path.write_text("")
    try:
        result = make(made)
        assert result.returncode == 2 and name in result.stderr
    finally:
        path.rmdir() if name == "tfhet" else path.unlink()


@pytest.mark.parametrize("name", ["setup.py", "launcher.py"])
def test_a_script_whose_name_means_something_else_is_refused(tmp_path, name):
    (tmp_path / name).write_text("")
    result = make(tmp_path / "src", "--script", tmp_path / name)
    assert result.returncode == 2 and name in result.stderr
    assert not (tmp_path / "src").exists()
