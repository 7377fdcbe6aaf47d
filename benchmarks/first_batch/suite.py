"""`benchmarks.first_batch`: the first batch from a wheel, without a compiler and with an empty cache, against that from
a checkout with a warm cache.
"""

from __future__ import annotations

import argparse
import functools
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import ROOT, child_environment
from tfhet.bench.harness import in_rounds
from tfhet.bench.suite import JOB, Suite
from tfhet.errors import JobFailed
from tfhet.events import Observer
from tfhet.record import Figure, Record
from tfhet.source.photos import photos

CHILD = Path(__file__).with_name("child.py")
MOST_RATIO = 1.1
CHILD_LIMIT_S, WHEEL_LIMIT_S = 300.0, 1200.0
CHAIN = "imagenet-train"
"""The last chain of the child: its batch is there once all kernels were loaded."""


def _options(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(repeats=9, warmup=1)


def _run(options: argparse.Namespace, observer: Observer, command: Sequence[str]) -> Record:
    data = photos()
    with tempfile.TemporaryDirectory(prefix="tfhet-bench-first-batch-") as folder:
        place = Path(folder)
        package = unpacked_wheel(place)
        programs = place / "bin"
        programs.mkdir()
        bare = {"PATH": str(programs), "PYTHONPATH": str(package)}

        def wheel(index: int) -> dict[str, Any]:
            cache = Path(tempfile.mkdtemp(dir=place))
            found = first_batch(data, {**bare, "HOME": str(cache)})
            if not found["from_wheel"] or not found["tfhet"].startswith(str(package)):
                raise JobFailed(f"the kernels are not those of the wheel: {found}")
            shutil.rmtree(cache)
            return found

        cases: dict[str, Callable[[int], Any]] = {
            "wheel": wheel,
            "warm": functools.partial(lambda index: first_batch(data, child_environment())),
        }
        taken = in_rounds(
            cases,
            lambda name, found: f"{found['chains_s'][CHAIN]:.2f} s",
            warmup=options.warmup,
            repeats=options.repeats,
            observer=observer,
        )
    samples = {name: [each["chains_s"] for each in found] for name, found in taken.items()}
    return Record.of("first_batch", figures_of(samples), details={"samples": samples}, command=command)


def unpacked_wheel(place: Path) -> Path:
    """The folder with the package of a wheel for this machine, which is built. Raises JobFailed."""
    package = place / "package"
    _done(["bash", str(ROOT / "scripts" / "wheel"), str(place / "dist")], dict(child_environment()), WHEEL_LIMIT_S)
    (wheel,) = (place / "dist").glob("tfhet-*manylinux*.whl")
    shutil.unpack_archive(wheel, package, "zip")
    _done([sys.executable, "-m", "compileall", "-q", str(package)], dict(child_environment()), CHILD_LIMIT_S)
    return package


def first_batch(data: Path, env: Mapping[str, str]) -> dict[str, Any]:
    """The figures that a process in this environment prints. data: photos as TFRecords. Raises JobFailed."""
    words = [sys.executable, str(CHILD), str(data)]
    found: dict[str, Any] = json.loads(
        _done(words, {**env, "TF_CPP_MIN_LOG_LEVEL": "3"}, CHILD_LIMIT_S).splitlines()[-1]
    )
    return found


def _done(words: Sequence[str], env: Mapping[str, str], limit_s: float) -> str:
    try:
        done = subprocess.run(
            words,
            cwd="/",
            env=env,
            capture_output=True,
            text=True,
            timeout=limit_s,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        raise JobFailed(f"not done within {limit_s:g} s: {words}") from None
    if done.returncode:
        raise JobFailed(
            f"exit code {done.returncode}: {words}", log_tail=(done.stdout + done.stderr).splitlines()[-20:]
        )
    return done.stdout


def figures_of(samples: Mapping[str, Sequence[Mapping[str, float]]]) -> dict[str, Figure]:
    """The flat table, of the seconds of both chains by case."""
    seconds = {name: [each[CHAIN] for each in found] for name, found in samples.items()}
    ratios = [wheel / warm for wheel, warm in zip(seconds["wheel"], seconds["warm"], strict=True)]
    against = "a checkout with a warm cache"
    return {
        "first_batch.wheel_s": Figure.of(seconds["wheel"], unit="s", against=against),
        "first_batch.warm_s": Figure.of(seconds["warm"], unit="s"),
        "first_batch.ratio": Figure.of(ratios, unit="x", against=against),
    }


SUITE = Suite(
    name="first_batch",
    does="the first batch from a wheel without a compiler and a cache, against one with a warm cache",
    measures=(*JOB, "benchmarks/first_batch"),
    options=_options,
    run=_run,
    is_kept=lambda record: record.figures["first_batch.ratio"].value <= MOST_RATIO,
)
