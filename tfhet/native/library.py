"""Builds and loads compiled ops: each `*.cc` of this folder becomes a library of its own at its first use.

A library lies in the user's cache under the hash of all that it was made of (source, flags, compiler, TensorFlow, this
CPU's features), so that it is never stale and never used on another kind of machine. Compiled ops are optional: without
a compiler, or with `TFHET_NATIVE=off`, plain TensorFlow operations do the same work.
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
from collections.abc import Iterator, Mapping
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
    "-march=native",
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
LINKED: Mapping[str, str] = {"jpeg": "-ljpeg"}
"""The flag that links the library that a kernel needs beside TensorFlow (Debian: libjpeg-dev)."""
BUILD_LIMIT_S = 300.0
"""Maximum time of one build, and of waiting for another process's build, in seconds."""

log = logging.getLogger(__name__)


class BuildError(Exception):
    """A kernel cannot be built on this host; the message says why."""


def ops(name: str) -> Any | None:
    """Returns the ops of a kernel as Python functions, or None where they are switched off or cannot be built.

    The first call builds the library unless it is in the cache. A failure is logged once per process; with
    `TFHET_NATIVE=on` it raises UsageError instead.
    """
    return _loaded(name, environment().get(SWITCH) == "on") if name in permitted() else None


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
        with contextlib.suppress(BuildError, OSError, subprocess.SubprocessError):
            kernels.remember(environment(), {name: build(name) for name in loaded})
    return loaded


@functools.cache
def _loaded(name: str, strict: bool) -> Any | None:
    try:
        library = build(name)
        try:
            return tf.load_op_library(str(library))
        except tf.errors.OpError:  # damaged, or linked with a libjpeg that is gone: build again
            library.unlink(missing_ok=True)
            return tf.load_op_library(str(build(name)))
    except (BuildError, OSError, RuntimeError, subprocess.SubprocessError, tf.errors.OpError) as error:
        if strict:
            raise UsageError(f"{SWITCH}=on, but the compiled op {name!r} cannot be used: {error}") from None
        log.warning("compiled op %r cannot be used, plain TensorFlow does its work: %s", name, error)
        return None


def build(name: str) -> Path:
    """Returns the library of one kernel, which it builds unless it is in the cache. Raises BuildError."""
    source = kernels.HERE / f"{name}.cc"
    compiler = _compiler()
    after = [LINKED[name]] if name in LINKED else []
    # As a system folder, because TensorFlow's own headers raise many warnings of -Wall.
    flags = [flag.replace("-I", "-isystem", 1) for flag in tf.sysconfig.get_compile_flags()]
    abi = [flag for flag in flags if not flag.startswith("-isystem")]
    headers = [header.read_bytes() for header in sorted(kernels.HERE.glob("*.h"))]
    parts = [source.read_bytes(), *headers, repr([*FLAGS, after, abi]).encode()]
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
                command = [*compiler, *FLAGS, *flags, f"-I{kernels.HERE}", str(source)]
                _compile([*command, *tf.sysconfig.get_link_flags(), *after], library)
    except OSError as error:
        raise BuildError(f"cannot use the cache: {error}") from None
    return library


def _compile(command: list[str], library: Path) -> None:
    kernel = library.stem.rpartition("-")[0]
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
