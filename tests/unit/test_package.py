from __future__ import annotations

import email
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import yaml

import tfhet

ROOT = Path(__file__).parents[2]
BUILD = "import sys; from flit_core import buildapi; print(buildapi.build_wheel(sys.argv[1]))"
LIMIT_S = 120.0


def test_wheel_has_the_whole_package(tmp_path):
    checkout = tmp_path / "checkout"
    shutil.copytree(ROOT / "tfhet", checkout / "tfhet", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "setup.cfg", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, checkout)
    for host in ("algo-1", "algo-2", "algo-3"):
        folder = checkout / "runs" / "demo" / "hosts" / host
        folder.mkdir(parents=True)
        (folder / "code").symlink_to(checkout)
    command = [sys.executable, "-c", BUILD, str(tmp_path)]
    done = subprocess.run(command, cwd=checkout, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(tmp_path / done.stdout.split()[-1]) as wheel:
        packed = {name for name in wheel.namelist() if name.startswith("tfhet/")}
        (about,) = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
        metadata = email.message_from_bytes(wheel.read(about))
    assert packed == {str(path.relative_to(checkout)) for path in (checkout / "tfhet").rglob("*") if path.is_file()}
    assert metadata["Version"] == tfhet.__version__
    assert metadata["License-Expression"] == "Apache-2.0" and metadata.get_all("License-File") == ["LICENSE"]


def test_citation_names_the_version():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert (cited["title"].split(":")[0], cited["version"]) == ("tfhet", tfhet.__version__)
