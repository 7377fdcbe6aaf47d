"""Compares the core of a wheel for aarch64, under QEMU, with the core of this machine: the bytes of each chain.

`scripts/test --aarch64` runs it:

    python tests/wheel_aarch64.py SYSTEM PACKAGES

SYSTEM: a folder of scripts/sysroot with python3. PACKAGES: a folder with the installed wheel and its dependencies.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from PIL import Image
from sanitized_core import CHAINS, FILE_CHAINS

from tfhet.kernels import loader
from tfhet.stages import compile as compile_chain

LIMIT_S = 900.0
FILES = (*FILE_CHAINS, "decode(); random_resized_crop(224, 224); random_flip()")


def write_files(folder: Path) -> None:
    """Writes image files of each format and JPEG variant: a smooth image, and noise."""
    random = np.random.default_rng(1)
    y, x = np.mgrid[:211, :333]
    waves = np.stack([127 + 120 * np.sin(x / 17 + y / 31), 127 + 120 * np.cos(x / 9), x * y % 256], -1)
    variants = (
        ("JPEG", {"quality": 90}),
        ("JPEG", {"quality": 60, "progressive": True}),
        ("JPEG", {"quality": 95, "subsampling": 0}),
        ("JPEG", {"quality": 80, "subsampling": 1}),
        ("PNG", {}),
        ("WEBP", {"quality": 80}),
        ("WEBP", {"lossless": True}),
        ("GIF", {}),
        ("BMP", {}),
    )
    for name, values in (("waves", waves), ("noise", random.integers(0, 256, waves.shape))):
        for index, (kind, options) in enumerate(variants):
            file = io.BytesIO()
            Image.fromarray(values.astype(np.uint8)).save(file, kind, **options)
            (folder / f"{name}-{index}.{kind.lower()}").write_bytes(file.getvalue())


def digests(folder: Path) -> Mapping[str, str]:
    """Returns the hash of each chain's result on images and on the files of a folder, by a name of the chain."""
    random = np.random.default_rng(7)
    shape = (8, 37, 45, 3)
    images = (random.integers(0, 256, shape, np.uint8), random.random(shape, np.float32))
    made = {}
    for text in CHAINS:
        for batch in images:
            chain = compile_chain(text, float_range=(0, 1))
            made[f"{text} {batch.dtype}"] = chain(batch, ids=range(8), seed=3, epoch=2)
    for text in FILES:
        for index, path in enumerate(sorted(folder.iterdir())):
            made[f"{text} {path.name}"] = compile_chain(text)([path.read_bytes()], ids=[index], seed=1)
    return {name: hashlib.sha256(result.tobytes()).hexdigest() for name, result in made.items()}


def check(system: Path, packages: Path, folder: Path) -> int:
    """Returns the number of equal results. Raises AssertionError with the chains that differ."""
    write_files(folder)
    python = (system / "usr/bin/python3").resolve()
    # Without a compiler and with an empty home, there is no core but the wheel's.
    env = {"PATH": "", "HOME": str(folder.parent), "LANG": "C.UTF-8", "PYTHONPATH": str(packages)}
    command = ["qemu-aarch64-static", "-L", str(system), str(python), __file__, str(folder)]
    command[0] = next(str(path) for each in os.get_exec_path() if (path := Path(each) / command[0]).exists())
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, f"exit code {done.returncode}\n{done.stderr[-4000:]}"
    there, here = json.loads(done.stdout), digests(folder)
    assert there.keys() == here.keys()
    different = [name for name in here if here[name] != there[name]]
    assert not different, f"{len(different)} of {len(here)} results differ, like {different[:3]}"
    return len(here)


if __name__ == "__main__":
    if len(sys.argv) == 2:
        assert loader.of_wheel() == loader.WHEEL / "aarch64" / "core.so", loader.of_wheel()
        print(json.dumps(digests(Path(sys.argv[1]))))
    else:
        with tempfile.TemporaryDirectory(prefix="aarch64-") as scratch:
            (Path(scratch) / "files").mkdir()
            equal = check(Path(sys.argv[1]), Path(sys.argv[2]), Path(scratch) / "files")
        print(f"aarch64: {equal} results equal this machine's")
