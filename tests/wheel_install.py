"""What a wheel must do in an environment of its own: no checkout, no compiler, an empty cache. `scripts/test --base`.

Run by the environment's Python in a folder without tfhet. With the name of a level of CPUs, as this script runs itself:
prints the hash of what that level's kernels make of some images.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import tfhet
from tfhet import native
from tfhet.native import kernels
from tfhet.stages import compile as compile_chain

CHAINS = (
    "autocontrast(); equalize(); posterize(3); solarize(100); sharpen()",
    "dilate(); erode(); gaussian_blur(); random_affine()",
    "random_resized_crop(24, 24); random_flip(horizontal=True)",
    "color_jitter(0.4, 0.4, 0.4, 0.1); grayscale()",
    "gaussian_noise(0.1); gamma(1.7); random_erasing()",
    "rescale(); gaussian_blur(); random_saturation(0.4); random_hue(0.2); random_rotation(0.1); gamma(1.7); sharpen()",
)
LIMIT_S = 300.0


def digest(level: str) -> str:
    """Returns the hash of what the kernels of a level, or those below it where it has none, make of some images.

    Raises AssertionError for a kernel that the wheel does not have."""
    import tensorflow as tf

    below = list(kernels.LEVELS).index(level)
    kernels.LEVELS = dict(list(kernels.LEVELS.items())[below:])
    assert native.load_all() == native.names()
    made = hashlib.sha256()
    for chain in CHAINS:
        pipeline = tfhet.Pipeline(tfhet.SyntheticSource(64, 4, (37, 45, 3)), chain, batch_size=16, shuffle=0, seed=1)
        batches = list(pipeline.dataset().as_numpy_iterator())  # in any order; an example is always the same
        order = np.argsort(np.concatenate([batch["id"] for batch in batches]))
        for name in sorted(batches[0]):
            made.update(np.concatenate([batch[name] for batch in batches])[order].tobytes())
    noise = tf.cast(tf.random.stateless_uniform([90, 70, 3], [0, 1], 0, 256, tf.int32), tf.uint8)
    files = [encode(noise).numpy() for encode in (tf.io.encode_jpeg, tf.io.encode_png)]
    made.update(compile_chain("decode(); random_resized_crop(24, 32)")(files, ids=[1, 2]).tobytes())
    return made.hexdigest()


def run(*words: object, where: Path, env: dict[str, str]) -> str:
    """Runs a command to its end and returns what it printed. Raises AssertionError when it fails."""
    done = subprocess.run(
        [str(word) for word in words], cwd=where, env=env, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    said = f"{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    assert done.returncode == 0, f"{' '.join(map(str, words))}: exit code {done.returncode}\n{said}"
    return done.stdout


def check(folder: Path) -> None:
    """Raises AssertionError for what does not hold. folder: an empty one."""
    programs = Path(sys.executable).parent
    assert Path(tfhet.__file__).is_relative_to(sys.prefix), f"this is no installed wheel: {tfhet.__file__}"
    env = {"PATH": str(programs), "HOME": str(folder), "TF_CPP_MIN_LOG_LEVEL": "3", "LANG": "C.UTF-8"}
    tfhet_, python = programs / "tfhet", programs / "python"
    features = set(kernels.cpu().split())
    levels = [level for level, needed in kernels.LEVELS.items() if needed <= features]
    hashes = {level: run(python, Path(__file__), level, where=folder, env=env) for level in levels}
    assert len(set(hashes.values())) <= 1, hashes

    run(tfhet_, "init", "job", where=folder, env=env)
    job = folder / "job"
    words = ("--quiet", "--json", "run.json")
    run(tfhet_, "simulate", "cluster.yaml", *words, "--", "--train_script", "train.py", where=job, env=env)
    assert '"mode": "heterogeneous"' in (job / "run.json").read_text()
    run(tfhet_, "package", "src", "--script", "train.py", where=job, env=env)
    run(tfhet_, "submit", "--dry-run", "job.yaml", where=job, env=env)
    run(python, "-m", "zipfile", "-t", *(job / "src").glob("tfhet-*.whl"), where=job, env=env)
    if levels:  # elsewhere kernels would be built
        assert not list(folder.glob(".cache/tfhet/native/*")), "a kernel was built, or its library remembered"


if __name__ == "__main__":
    if sys.argv[1:]:
        print(digest(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory(prefix="wheel-") as made_for_it:
            check(Path(made_for_it))
        print("wheel: 1 passed, 0 failed")
