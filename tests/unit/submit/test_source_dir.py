"""`tfhet init` and `tfhet package`: the files of a first job, and its code directory with the installed package."""

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
from tfhet import simulate, submit
from tfhet.__main__ import main
from tfhet.errors import UsageError
from tfhet.submit import source_dir

pytestmark = pytest.mark.timeout(120)

ROOT = Path(__file__).resolve().parents[3]
FILES = ["cluster.yaml", "job.yaml", "train.py"]


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


def test_directory_has_launcher_script_and_wheel(made):
    names = sorted(path.name for path in made.iterdir())
    assert names == ["launcher.py", "my_train.py", "requirements.txt", wheel_of(made).name]
    launchers = {path.read_text() for path in (made / "launcher.py", submit.LAUNCHER, ROOT / "scripts/launcher.py")}
    assert len(launchers) == 1 and (made / "my_train.py").read_text() == "print('trains')\n"


def test_requirements_are_wheel_mpi4py_and_own(made):
    (mpi4py,) = [line for line in metadata.requires("tfhet") if line.startswith("mpi4py")]
    assert required(made) == [f"./{wheel_of(made).name}", mpi4py.partition(";")[0].strip(), "einops"]
    horovod = (made / "requirements.txt").read_text().partition("# horovod")[2]
    assert horovod.startswith("==0.28.1\n"), "a comment: it is built in the image"


def test_wheel_has_the_whole_package(made):
    with zipfile.ZipFile(wheel_of(made)) as wheel:
        assert wheel.testzip() is None
        held = {name for name in wheel.namelist() if name.startswith("tfhet/")}
        (record,) = [name for name in wheel.namelist() if name.endswith(".dist-info/RECORD")]
        recorded = [line.split(",")[0] for line in wheel.read(record).decode().splitlines()]
        version = email.message_from_bytes(wheel.read(record.replace("RECORD", "METADATA")))["Version"]
    there = {path.relative_to(ROOT).as_posix() for path in (ROOT / "tfhet").rglob("*") if path.is_file()}
    assert held == {name for name in there if "__pycache__" not in name}
    assert sorted(recorded) == sorted({*held, *(name for name in recorded if ".dist-info/" in name)})
    public, _, local = version.partition("+")
    assert public == tfhet.__version__ and local.startswith("s") and len(local) == 13, "it names its content"


def test_second_run_keeps_other_files(made):
    (made / "mine.py").write_text("x = 1\n")
    before = {path.name: path.read_bytes() for path in made.iterdir()}
    (made / "tfhet-0.0.9-py3-none-any.whl").write_text("an old one")
    script, needs = made.parent / "my_train.py", made.parent / "needs.txt"
    try:
        assert make(made, "--script", script, "--requirements", needs) == 0
        assert {path.name: path.read_bytes() for path in made.iterdir()} == before
    finally:
        (made / "mine.py").unlink()


def test_pip_installs_it_without_network(made, tmp_path):
    """As SageMaker's toolkit does: `pip install -r requirements.txt`, in the directory."""
    (tmp_path / "only.txt").write_text("\n".join(required(made)[:2]))
    (tmp_path / wheel_of(made).name).symlink_to(wheel_of(made))
    pip = [sys.executable, "-m", "pip", "install", "--dry-run", "--no-index", "--disable-pip-version-check"]
    done = subprocess.run(
        [*pip, "-r", "only.txt"], cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    would = [line for line in done.stdout.splitlines() if line.startswith("Would install")]
    assert would == [f"Would install tfhet-{wheel_of(made).name.split('-')[1]}"]


@pytest.mark.parametrize("words", [[], ["a", "b"], ["a", "--script"], ["a", "--copy"]])
def test_wrong_words_make_nothing(words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert make(*words) == 2
    assert "usage: tfhet" in capsys.readouterr().err
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("option", "name"),
    [("--script", "no.py"), ("--requirements", "no.py"), ("--script", "setup.py"), ("--script", "launcher.py")],
)
def test_unusable_files_are_refused(option, name, tmp_path, capsys):
    for existing in ("setup.py", "launcher.py"):
        (tmp_path / existing).write_text("")
    assert make(tmp_path / "src", option, tmp_path / name) == 2
    assert name in capsys.readouterr().err
    assert not (tmp_path / "src").exists()


def test_foreign_directory_is_refused(tmp_path, capsys):
    (tmp_path / "requirements.txt").write_text("numpy\n")
    for target in (tmp_path, tmp_path / "requirements.txt"):
        assert make(target) == 2
        assert str(target) in capsys.readouterr().err
    assert os.listdir(tmp_path) == ["requirements.txt"]


@pytest.mark.parametrize("name", ["setup.py", "tfhet"])
def test_misleading_files_are_refused(made, name, capsys):
    path = made / name
    path.mkdir() if name == "tfhet" else path.write_text("")
    try:
        assert make(made) == 2
        assert str(path) in capsys.readouterr().err
    finally:
        path.rmdir() if name == "tfhet" else path.unlink()


def test_package_must_be_installed(tmp_path, monkeypatch):
    def missing(name: str) -> None:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", missing)
    with pytest.raises(UsageError):
        source_dir.make(tmp_path / "src")
    assert not (tmp_path / "src").exists()


@pytest.mark.parametrize("options", [[], ["--torch"]])
def test_init_writes_a_job_that_works(options, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["init", "job", *options]) == 0
    out = capsys.readouterr().out
    monkeypatch.chdir(tmp_path / "job")
    assert sorted(path.name for path in Path().iterdir()) == FILES
    for command in ("tfhet simulate cluster.yaml -- ", "tfhet package src ", "tfhet submit --dry_run job.yaml"):
        assert command in out
    hosts = {name: group.hosts for name, group in simulate.load("cluster.yaml").groups.items()}
    assert hosts == {"data_group": 1, "dnn_group": 1}
    assert main(["submit", "--dry-run", "job.yaml"]) == 2
    assert "tfhet package" in capsys.readouterr().err
    assert make("src", "--script", "train.py") == 0
    assert main(["submit", "--dry-run", "job.yaml"]) == 0
    out = capsys.readouterr().out
    assert '"train_script": "\\"train.py\\""' in out and ('"data_plane": "\\"feed\\""' in out) == bool(options)


@pytest.mark.parametrize("name", FILES)
def test_init_overwrites_nothing(name, tmp_path, capsys):
    (tmp_path / name).write_text("mine")
    assert main(["init", str(tmp_path)]) == 2
    assert name in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == [name] and (tmp_path / name).read_text() == "mine"
