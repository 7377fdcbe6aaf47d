"""Builds and loads compiled ops: each `*.cc` of this folder becomes a library of its own.

A wheel may hold the libraries, for one version of TensorFlow and several levels of CPUs (`kernels.of_wheel`). Without
them, or where they do not load, a kernel is built at its first use. Its library lies in the user's cache under the hash
of all that it was made of (source, flags, compiler, TensorFlow, this CPU's features), so that it is never stale and
never used on another kind of machine. Compiled ops are optional: without a compiler, or with `TFHET_NATIVE=off`, plain
TensorFlow operations do the same work.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import logging
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import tensorflow as tf

from tfhet.clock import SYSTEM
from tfhet.cluster import environment
from tfhet.errors import UsageError
from tfhet.native import kernels
from tfhet.native.kernels import SWITCH, folder, names, permitted

# No contraction of a product and a sum into one rounding: results are the same with every width of vector.
FLAGS = (
    "-O3",
    "-ffp-contract=off",
    # errno and the floating-point flags are unused; keeping them right would forbid vectors under a condition.
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fPIC",
    "-shared",
    "-fvisibility=hidden",
    "-Wall",
    "-Wno-unknown-pragmas",
    # No kernel computes with Eigen, and its headers in TensorFlow 2.21 do not compile for CPUs with AVX512-FP16.
    "-DEIGEN_DONT_VECTORIZE",
)
NATIVE = ("-march=native",)
VBMI = "x86-64-v4-vbmi"
LEVEL_FLAGS: Mapping[str, tuple[str, ...]] = {
    "x86-64-v3": ("-march=x86-64-v3",),
    "x86-64-v4": ("-march=x86-64-v4",),
    VBMI: ("-march=x86-64-v4", "-mavx512vbmi"),  # only of kernels with code of its own for it
}
"""The flags of each of `kernels.LEVELS`."""
LINKED: Mapping[str, tuple[str, ...]] = {"jpeg": ("-ljpeg",)}
"""The flags that link the libraries that a kernel needs beside TensorFlow (Debian: libjpeg-dev)."""
BUILD_LIMIT_S = 300.0
"""Maximum time of one build, and of waiting for another process's build, in seconds."""

log = logging.getLogger(__name__)


class BuildError(Exception):
    """A kernel cannot be built on this host; the message says why."""


def ops(name: str) -> Any | None:
    """Returns the ops of a kernel as Python functions, or None where they are switched off or cannot be built.

    The first call builds the library unless the wheel or the cache has it. A failure is logged once per process; with
    `TFHET_NATIVE=on` it raises UsageError instead.
    """
    loaded = _loaded(name, environment().get(SWITCH) == "on") if name in permitted() else None
    return None if loaded is None else loaded[0]


def available(name: str) -> bool:
    return ops(name) is not None


def shaped(result: tf.Tensor, shape: Any) -> tf.Tensor:
    """Returns the result of an op with its static shape, which compiled ops do not state."""
    result.set_shape(shape)
    return result


def load_all() -> tuple[str, ...]:
    """Loads every kernel that it can and returns their names, for a process that runs other processes' graphs."""
    loaded = tuple(name for name in names() if available(name))
    if loaded == names():  # otherwise the next process tries again
        strict = environment().get(SWITCH) == "on"
        kernels.remember(environment(), {name: found[1] for name in loaded if (found := _loaded(name, strict))})
    return loaded


@functools.cache
def _loaded(name: str, strict: bool) -> tuple[Any, Path] | None:
    """Returns the ops of a kernel, and the library that has them."""
    try:
        if ready := kernels.of_wheel(name):
            with contextlib.suppress(tf.errors.OpError):  # it needs a newer C library than this host has: build
                return tf.load_op_library(str(ready)), ready
        library = build(name)
        try:
            return tf.load_op_library(str(library)), library
        except tf.errors.OpError:  # damaged, or linked with a libjpeg that is gone: build again
            library.unlink(missing_ok=True)
            return tf.load_op_library(str(build(name))), library
    except (BuildError, OSError, RuntimeError, subprocess.SubprocessError, tf.errors.OpError) as error:
        if strict:
            raise UsageError(f"{SWITCH}=on, but the compiled op {name!r} cannot be used: {error}") from None
        log.warning("compiled op %r cannot be used, plain TensorFlow does its work: %s", name, error)
        return None


def build(name: str) -> Path:
    """Returns the library of one kernel, which it builds unless it is in the cache. Raises BuildError."""
    source, compiler = kernels.HERE / f"{name}.cc", _compiler()
    abi = [flag for flag in tf.sysconfig.get_compile_flags() if not flag.startswith("-I")]
    headers = [header.read_bytes() for header in sorted(kernels.HERE.glob("*.h"))]
    parts = [source.read_bytes(), *headers, repr([NATIVE, FLAGS, LINKED.get(name), abi]).encode()]
    parts += [tf.__version__.encode(), _version(compiler).encode(), kernels.cpu().encode()]
    key = hashlib.blake2b(b"\0".join(parts), digest_size=12).hexdigest()
    try:
        place = folder(environment())
        library = place / f"{name}-{key}.so"
        if library.exists():
            return library
        with _locked(place / f"{name}.lock"):
            for old in place.glob(f".build-{name}-*"):  # left by a builder that was killed, whose lock this process has
                shutil.rmtree(old, ignore_errors=True)
            if not library.exists():
                _compile(_command(name, NATIVE), library)
    except OSError as error:
        raise BuildError(f"cannot use the cache: {error}") from None
    return library


def build_for_wheel() -> Path:
    """Builds all kernels into the package, for every level of CPUs, and returns their folder. Raises BuildError.

    There a library looks first for what it is linked with (`LINKED`).
    """
    jobs = []
    for level, cpu in LEVEL_FLAGS.items():
        (kernels.of_wheels() / level).mkdir(parents=True, exist_ok=True)
        for name in names():
            if level != VBMI or "AVX512VBMI" in (kernels.HERE / f"{name}.cc").read_text(encoding="utf-8"):
                command = [*_command(name, cpu), "-s", "-Wl,-rpath,$ORIGIN/.."]
                jobs.append((command, kernels.of_wheels() / level / f"{name}.so"))
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        list(threads.map(lambda job: _compile(*job), jobs))
    return kernels.of_wheels()


def _command(name: str, cpu: Sequence[str]) -> list[str]:
    # As a system folder, because TensorFlow's own headers raise many warnings of -Wall.
    flags = [flag.replace("-I", "-isystem", 1) for flag in tf.sysconfig.get_compile_flags()]
    command = [*_compiler(), *cpu, *FLAGS, *flags, f"-I{kernels.HERE}", str(kernels.HERE / f"{name}.cc")]
    return [*command, *tf.sysconfig.get_link_flags(), *LINKED.get(name, ())]


def _compile(command: list[str], library: Path) -> None:
    kernel = library.stem.partition("-")[0]
    with tempfile.TemporaryDirectory(prefix=f".build-{kernel}-", dir=library.parent) as scratch:
        made = Path(scratch) / library.name
        try:
            done = subprocess.run(
                [*command, "-o", str(made)],
                capture_output=True,
                text=True,
                timeout=BUILD_LIMIT_S,
                stdin=subprocess.DEVNULL,
            )
        except subprocess.TimeoutExpired:
            raise BuildError(f"the compiler took more than {BUILD_LIMIT_S:g} s") from None
        if done.returncode:
            raise BuildError(f"{command[0]} failed: " + " | ".join(done.stderr.strip().split("\n")[:4]))
        with open(made, "rb") as file:
            os.fsync(file.fileno())  # after a power failure no half-written library may have its name
        os.replace(made, library)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Lets one process build at a time; the others find its result. Raises BuildError after BUILD_LIMIT_S."""
    until = SYSTEM.monotonic() + BUILD_LIMIT_S
    with open(path, "w") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if SYSTEM.monotonic() > until:
                    raise BuildError(f"another process holds {path}") from None
                SYSTEM.sleep(0.05)
        yield


def _compiler() -> tuple[str, ...]:
    if not (found := kernels.compiler(environment())):
        raise BuildError("no C++ compiler (Debian: g++)")
    return tuple(found)


@functools.cache
def _version(compiler: tuple[str, ...]) -> str:
    command = [*compiler, "--version"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, stdin=subprocess.DEVNULL)
    return done.stdout.split("\n")[0]
