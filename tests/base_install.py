"""What the base install must do alone, without a framework: commands, `tfhet.batches`, and errors that name the extra.

Run by `scripts/test --base`, and by any Python that has tfhet and no TensorFlow.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from PIL import Image

import tfhet
from tfhet.extras import MissingPackage

COMMANDS = ("simulate", "report", "timeline", "top", "runs", "doctor", "convert", "prices", "profile", "plan", "init")
COMMANDS += ("package", "submit", "follow", "diagnose", "launch")
NEED_TENSORFLOW = ("distribute", "StepCallback")
LIMIT_S = 120.0


def tfhet_command(*words: object, where: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tfhet", *map(str, words)]
    return subprocess.run(command, cwd=where, capture_output=True, text=True, timeout=LIMIT_S, check=False)


def numbers(shard: object) -> list[int]:
    return list(range(10))


def missing(name: str) -> Iterator[str]:
    try:
        getattr(tfhet, name)
    except MissingPackage as error:
        yield error.module


def convert(folder: str) -> None:
    """Converts a folder of JPEG files; the tests of `tests/unit/source` read such files with TensorFlow."""
    for name in ("cat", "dog"):
        Path(folder, "photos", name).mkdir(parents=True)
        for index in range(3):
            Image.new("RGB", (8 + index, 6), (index, 0, 200)).save(Path(folder, "photos", name, f"{index}.jpg"))
    for options in ([], ["--size", "4", "4"]):
        target = "records" + "-".join(options)
        converted = tfhet_command("convert", "photos", target, "--shards", "2", *options, where=folder)
        assert converted.returncode == 0, converted.stderr
        described = json.loads(Path(folder, target, "tfhet.json").read_text())
        assert (described["classes"], sum(described["files"].values())) == (["cat", "dog"], 6), described


def augment(folder: str) -> None:
    """Runs a chain of stages on the photos of `convert`, on NumPy arrays."""
    files = [path.read_bytes() for path in sorted(Path(folder, "photos").rglob("*.jpg"))]
    chain = tfhet.stages.compile("decode(); random_resized_crop(4, 5); random_flip(); normalize()")
    images = chain(files, ids=range(len(files)), seed=1, epoch=2)
    assert (images.shape, images.dtype) == ((6, 4, 5, 3), np.float32), images


def main() -> None:
    assert find_spec("tensorflow") is None, "this is not the base install: it has TensorFlow"
    assert [each for name in NEED_TENSORFLOW for each in missing(name)] == ["tensorflow"] * len(NEED_TENSORFLOW)
    batches = list(tfhet.batches(numbers, batch_size=4))
    assert sorted(np.concatenate(batches).tolist()) == list(range(10)), batches
    train, validation = tfhet.split(list(range(10)), 0.8)
    assert (len(train), len(validation)) == (8, 2)

    with tempfile.TemporaryDirectory(prefix="base-") as folder:
        Path(folder, "job.py").write_text("print('trained')\n")
        for command in COMMANDS:
            shown = tfhet_command(command, "--help", where=folder)
            assert shown.returncode == 0, shown.stderr
        convert(folder)
        for target in ("photos", "records"):
            words = ("profile", target, "--stages", "decode(); resize(8, 8)", "--budget_s", "0.1", "--repeats", "1")
            profiled = tfhet_command(*words, where=folder)
            assert profiled.returncode == 0 and "resize" in profiled.stdout, profiled
        augment(folder)
        words = ("simulate", "homogeneous", "--quiet", "--", "--strategy", "torch", "--train_script", "job.py")
        trained = tfhet_command(*words, where=folder)
        assert trained.returncode == 0, trained.stdout + trained.stderr
        examined = tfhet_command("doctor", "--brief", where=folder)
        assert "Traceback" not in examined.stderr, examined.stderr
    print("base install: 1 passed, 0 failed")


if __name__ == "__main__":
    main()
