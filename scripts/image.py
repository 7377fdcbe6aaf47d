"""Runs the Dockerfile's steps without Docker, and a job in what they make. Called by scripts/image, which says more."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dockerfile import Dockerfile, Ignored, Stage, Step, context_files, expand, read
from rootfs import (
    CACHE,
    PATH,
    Failed,
    NotHere,
    base_root,
    discard,
    inside,
    mounted,
    network_variables,
    say,
    sh,
    unmount,
)

ROOT = Path(__file__).resolve().parents[1]
VARIANT, TARGET = "cpu", "image"
JOB_LIMIT_S = 240
ADDRESS = "10.0.0.2"

# As SageMaker starts it: a host name, an interface eth0, and the image's entry point as PID 1.
CONTAINER = f"""
set -e
hostname algo-1
ip link set lo up
ip link add eth0 type veth peer name peer0
ip addr add {ADDRESS}/24 dev eth0
ip link set eth0 up
ip link set peer0 up
mount -t proc proc "$0/proc"
exec "$@"
"""
# sshd lets mpirun in, and paramiko, by which the toolkit looks whether the other hosts are there.
SSH = """
/usr/sbin/sshd
ssh algo-1 'mpirun --version && command -v orted' | grep -q 'Open MPI'
python -c 'import paramiko
client = paramiko.SSHClient()
client.set_missing_host_key_policy(paramiko.AutoAddPolicy())
client.connect("algo-1")'
"""
HYPERPARAMETERS = {
    "sagemaker_program": "launcher.py",
    "sagemaker_submit_directory": "/opt/ml/code",
    "sagemaker_container_log_level": 20,
    "sagemaker_job_name": "image-check",
    "sagemaker_region": "us-east-1",
    "sagemaker_mpi_enabled": True,
    "sagemaker_mpi_num_of_processes_per_host": 2,
    "sagemaker_mpi_custom_mpi_options": "-x TFHET_SECRET",
    "sagemaker_distribution_instance_groups": ["dnn_group"],
    "data": "synthetic:64:4",
    "model": "small_cnn",
    "chain": "none",
    "batch_size": 8,
    "epochs": 1,
    "dnn_host_workers": 1,
}


@dataclass
class Built:
    """A stage that was built: its layers, the top one first, and what later steps and containers start with."""

    layers: list[Path]
    env: dict[str, str] = field(default_factory=lambda: {"PATH": PATH})
    shell: list[str] = field(default_factory=lambda: ["/bin/sh", "-c"])
    folder: str = "/"
    entry: list[str] = field(default_factory=list)
    command: list[str] = field(default_factory=list)


class Builder:
    """Builds the stages that are asked for, below a scratch folder."""

    def __init__(self, dockerfile: Dockerfile, arguments: Mapping[str, str], scratch: Path, wheels: Path | None):
        self._dockerfile = dockerfile
        self._arguments = {**dockerfile.arguments, **arguments}
        self._scratch = scratch
        self._wheels = wheels
        self._built: dict[str, Built] = {}
        self._ignored = Ignored((ROOT / ".dockerignore").read_text())

    def build(self, name: str) -> Built:
        """A stage, or the stand-in of an image that is not one."""
        if name not in self._built:
            stage = self._dockerfile.stage(name)
            self._built[name] = self._stage(stage) if stage else Built([base_root(name)])
        return self._built[name]

    def _stage(self, stage: Stage) -> Built:
        base = self.build(expand(stage.base, self._arguments))
        if not stage.steps:
            return base
        for step in stage.steps:  # before our own layer is mounted
            if source := step.flags()[0].get("from") or dict(_mount(step)).get("from"):
                self.build(source)
        upper = self._scratch / stage.name / "upper"
        here = Built([upper, *base.layers], dict(base.env), list(base.shell), base.folder)
        root = mounted(here.layers, self._scratch / stage.name)
        arguments: dict[str, str] = {}
        for step in stage.steps:
            began = time.monotonic()
            self._step(step, here, root, arguments)
            if step.word == "RUN":
                say(f"{stage.name}, line {step.line}: {step.text[:60]}... {time.monotonic() - began:.0f} s")
        unmount(root)
        return here

    def _step(self, step: Step, here: Built, root: Path, arguments: dict[str, str]) -> None:
        variables = {**arguments, **here.env}
        if step.word == "ARG":
            arguments.update(
                {name: value or self._arguments.get(name, "") for name, value in step.pairs(variables).items()}
            )
        elif step.word == "ENV":
            here.env.update(step.pairs(variables))
        elif step.word == "SHELL":
            here.shell = step.words()
        elif step.word == "WORKDIR":
            here.folder = os.path.join(here.folder, expand(step.text, variables))
            (root / here.folder.lstrip("/")).mkdir(parents=True, exist_ok=True)
        elif step.word == "ENTRYPOINT":
            here.entry, here.command = step.words(), []
        elif step.word == "CMD":
            here.command = step.words()
        elif step.word == "COPY":
            self._copy(step, here, root)
        elif step.word == "RUN":
            self._run(step, here, root, arguments)

    def _copy(self, step: Step, here: Built, root: Path) -> None:
        flags, rest = step.flags()
        if flags:
            raise Failed(f"line {step.line}: COPY with {', '.join(flags)} is not known here")
        *sources, target = shlex.split(rest)
        folder = root / os.path.join(here.folder, target).lstrip("/")
        for source in sources:
            whole = (ROOT / source).is_dir()
            into = folder if whole or target.endswith(("/", ".")) or len(sources) > 1 else folder.parent
            for path in context_files(ROOT, source, self._ignored):
                place = into / (Path(path).relative_to(source) if whole else Path(path).name)
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / path, place)

    def _run(self, step: Step, here: Built, root: Path, arguments: Mapping[str, str]) -> None:
        flags, text = step.flags()
        places = []
        if mount := dict(_mount(step)):
            place = root / mount["target"].lstrip("/")
            place.mkdir(parents=True)
            source = mounted(self.build(mount["from"]).layers, self._scratch / f"{mount['from']}-seen", read_only=True)
            sh("mount", "--bind", source / mount["source"].lstrip("/"), place)
            places = [place, source]
        env = {**network_variables(), **arguments, **here.env}
        if self._wheels:
            env["PIP_FIND_LINKS"] = "/run/horovod"
            (root / "run/horovod").mkdir(parents=True, exist_ok=True)
            sh("mount", "--bind", self._wheels, root / "run/horovod")
            places.append(root / "run/horovod")
        try:
            sh(*inside(root, env, here.folder), *here.shell, text, stdin=subprocess.DEVNULL)
        except subprocess.CalledProcessError as error:
            raise Failed(f"line {step.line}: RUN ended with exit code {error.returncode}") from None
        finally:
            for place in places:
                sh("umount", place)
            for place in places:
                if place.is_relative_to(root):
                    place.rmdir()


def _mount(step: Step) -> list[tuple[str, str]]:
    text = step.flags()[0].get("mount", "")
    return [(name, value) for name, _, value in (part.partition("=") for part in text.split(",") if part)]


def container(image: Built, scratch: Path, ml: Path, command: list[str], variables: Mapping[str, str]) -> int:
    """Runs a command under the image's entry point, in a container without network; its exit code."""
    upper = scratch / "upper"
    for name, text in {"hosts": f"127.0.0.1 localhost\n{ADDRESS} algo-1\n", "resolv.conf": ""}.items():
        (upper / "etc").mkdir(parents=True, exist_ok=True)
        (upper / "etc" / name).write_text(text)
    root = mounted([upper, *image.layers], scratch, network=False)
    (root / "opt/ml").mkdir(parents=True, exist_ok=True)
    sh("mount", "--bind", ml, root / "opt/ml")
    words = [
        "unshare",
        "--mount",
        "--net",
        "--uts",
        "--ipc",
        "--pid",
        "--fork",
        "--kill-child",
        "sh",
        "-c",
        CONTAINER,
        root,
    ]
    enter = inside(root, {**image.env, **variables}, image.folder)
    try:
        return subprocess.run(
            [str(word) for word in [*words, *enter, *image.entry, *command]],
            check=False,
            timeout=JOB_LIMIT_S,
            stdin=subprocess.DEVNULL,
        ).returncode
    finally:
        unmount(root)


def job_folder(place: Path) -> None:
    """What a container finds in /opt/ml: one host, two ranks under MPI, the code that scripts/source_dir makes."""
    configuration = place / "input/config"
    configuration.mkdir(parents=True)
    for name in ("model", "output/data", "input/data", "checkpoints"):
        (place / name).mkdir(parents=True)
    sh(ROOT / "scripts/source_dir", place / "code")
    group = {"instance_group_name": "dnn_group", "instance_type": "ml.c5.xlarge", "hosts": ["algo-1"]}
    files = {
        "hyperparameters": {name: json.dumps(value) for name, value in HYPERPARAMETERS.items()},
        "inputdataconfig": {},
        "resourceconfig": {
            "current_host": "algo-1",
            "current_instance_type": "ml.c5.xlarge",
            "current_group_name": "dnn_group",
            "hosts": ["algo-1"],
            "instance_groups": [group],
            "network_interface_name": "eth0",
        },
    }
    for name, content in files.items():
        (configuration / f"{name}.json").write_text(json.dumps(content))


def run_job(image: Built, scratch: Path) -> None:
    """Starts the image as SageMaker does. Raises Failed."""
    ml = scratch / "ml"
    job_folder(ml)
    variables = {
        "TRAINING_JOB_NAME": "image-check",
        "AWS_REGION": "us-east-1",
        "TFHET_SECRET": "of-the-image-check",
        "TFHET_NATIVE": "off",
    }
    if code := container(image, scratch / "ssh", ml, ["bash", "-euo", "pipefail", "-c", SSH], variables):
        raise Failed(f"no way in by ssh: exit code {code}")
    say("ssh lets mpirun and the toolkit in")
    began = time.monotonic()
    code = container(image, scratch / "job", ml, image.command, variables)
    failure = ml / "output/failure"
    if code or not (ml / "output/success").exists():
        raise Failed(f"the job ended with exit code {code}" + (f": {failure.read_text()}" if failure.exists() else ""))
    if not (ml / "model/1/saved_model.pb").is_file():
        raise Failed("the job left no model")
    say(f"{' '.join([*image.entry, *image.command])}: two ranks under MPI trained in {time.monotonic() - began:.0f} s")


def horovod_wheel() -> Path | None:
    """The folder of the wheel that scripts/setup built for MPI, or None."""
    found = sorted((CACHE / "wheels").glob("horovod-*-cp311-mpi-*/horovod-*.whl"))
    return found[-1].parent if found else None


def check(build_horovod: bool, keep: bool) -> None:
    """Builds the CPU variant and runs a job in it. Raises NotHere, Failed."""
    for tool in ("mount", "chroot", "ip", "dpkg-deb"):
        if not shutil.which(tool):
            raise NotHere(f"{tool} is not installed")
    dockerfile = read((ROOT / "Dockerfile").read_text())
    wheels = None if build_horovod else horovod_wheel()
    scratch = Path(tempfile.mkdtemp(prefix="check-", dir=_made(CACHE / "image")))
    try:
        image = Builder(dockerfile, {"DEVICE": VARIANT}, scratch, wheels).build(TARGET)
        run_job(image, scratch)
    except subprocess.TimeoutExpired as error:
        raise Failed(f"no end after {error.timeout:.0f} s: {str(error.cmd)[-200:]}") from None
    finally:
        if keep:
            say(f"the layers are in {scratch}")
        else:
            discard(scratch)
    if wheels:
        say(f"not checked: whether Horovod builds there (its wheel came from {wheels}; see --build-horovod)")
    say("not checked: the GPU variant (CUDA, NCCL), and the base image itself, for which a stand-in was made")


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/image")
    parser.add_argument("--check", action="store_true", required=True)
    parser.add_argument("--build-horovod", action="store_true")
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args()
    began = time.monotonic()
    try:
        check(options.build_horovod, options.keep)
    except NotHere as error:
        say(f"not checked: {error}")
        return 77
    except (Failed, OSError, ValueError, subprocess.SubprocessError) as error:
        say(f"failed: {error}")
        return 1
    say(f"the {VARIANT} variant is good, after {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
