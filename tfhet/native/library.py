"""Loads compiled ops: the library of a kernel that came with the wheel (`kernels.of_wheel`) or, if none of them loads,
a library that is built from its `*.cc` at first use, in the user's cache (`kernels.of_here`)."""

from __future__ import annotations

import contextlib
import functools
import logging
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf

from tfhet import kernels as core
from tfhet.cluster import environment
from tfhet.errors import UsageError
from tfhet.kernels import BuildError, compile_into
from tfhet.native import kernels
from tfhet.native.kernels import CHAIN, FLAGS, LINKED, SWITCH, names, permitted

NATIVE = ("-march=native",)
log = logging.getLogger(__name__)


def ops(name: str) -> Any | None:
    """Returns the ops of a kernel as Python functions, or None if they are switched off or cannot be built. The
    first call builds the library unless the wheel or the cache has it. A failure is logged once per process; with
    `TFHET_NATIVE=on` it raises UsageError instead."""
    return _loaded(name, environment().get(SWITCH) == "on") if name in permitted() else None


def chain_ops() -> Any:
    """Returns the ops of the compiled core. No setting switches them off. Raises UsageError if they cannot be built."""
    return _loaded(CHAIN, True)


def available(name: str) -> bool:
    return ops(name) is not None


def shaped(result: tf.Tensor, shape: Any) -> tf.Tensor:
    """Returns the result of an op with its static shape, which compiled ops do not state."""
    result.set_shape(shape)
    return result


def load_all() -> tuple[str, ...]:
    """Loads every kernel that it can and returns their names, for a process that runs other processes' graphs."""
    return tuple(name for name in names() if available(name))


def wire_library() -> Path | None:
    """Returns the library of the data service's wire, built if it is missing; None if it cannot be built."""
    try:
        return kernels.ready(kernels.WIRE, environment()) or build(kernels.WIRE)
    except (BuildError, OSError) as error:
        log.error("the wire of tf.data service cannot be built: %s", error)
        return None


@functools.cache
def _loaded(name: str, strict: bool) -> Any | None:
    try:
        if name == CHAIN:
            core.library()  # the op finds the functions of the core by name
        if ready := kernels.of_wheel(name):
            with contextlib.suppress(tf.errors.OpError):  # it needs a newer C library than this host has: build
                return tf.load_op_library(str(ready))
        library = build(name)
        try:
            return tf.load_op_library(str(library))
        except tf.errors.OpError:  # damaged, of another build of TensorFlow, or linked with a libjpeg that is gone
            library.unlink(missing_ok=True)
            return tf.load_op_library(str(build(name)))
    except (BuildError, OSError, RuntimeError, UsageError, tf.errors.OpError) as error:
        if strict:
            raise UsageError(f"the compiled op {name!r} cannot be used: {error}") from None
        log.warning("compiled op %r cannot be used, plain TensorFlow does its work: %s", name, error)
        return None


def build(name: str) -> Path:
    """Returns the library of one kernel, which it builds unless it is in the cache. Raises BuildError."""
    try:
        library = kernels.of_here(name, environment())
        if library.exists():
            return library
        command = build_command(name, NATIVE)
        with core.locked(library.with_name(f"{name}.lock")):
            for old in library.parent.glob(f".build-{name}-*"):  # left by a builder that was killed, which had the lock
                shutil.rmtree(old, ignore_errors=True)
            if not library.exists():
                compile_into(library, command)
    except OSError as error:
        raise BuildError(f"cannot use the cache: {error}") from None
    return library


def build_command(name: str, cpu: Sequence[str]) -> list[str]:
    """Returns the compiler's command for a kernel, without its output. cpu: flags. Raises BuildError."""
    if not (compiler := kernels.compiler(environment())):
        raise BuildError("no C++ compiler (Debian: g++)")
    # As a system folder, because TensorFlow's own headers raise many warnings of -Wall.
    flags = [flag.replace("-I", "-isystem", 1) for flag in tf.sysconfig.get_compile_flags()]
    command = [*compiler, *cpu, *FLAGS, *flags, f"-I{kernels.HERE}", f"-I{kernels.CORE}", str(kernels.source(name))]
    return [*command, *tf.sysconfig.get_link_flags(), *LINKED.get(name, ())]
