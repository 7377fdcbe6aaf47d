"""Names of the kernels, those that this process may use, and libraries that were built before. Needs no TensorFlow."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import platform
import shutil
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tfhet.cluster import code_dir, environment
from tfhet.errors import UsageError

HERE = Path(__file__).parent
SWITCH = "TFHET_NATIVE"
"""The environment variable that switches compiled ops: `auto` uses those that can be built, `off` none, `on` raises an
error where one cannot be built. Names with commas select kernels: a rank gets those that every data worker has."""
CHOICES = ("auto", "off", "on")


def names() -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in HERE.glob("*.cc")))


def permitted(env: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """Returns the kernels that `TFHET_NATIVE` lets this process use. Raises UsageError for an unknown name in it."""
    given = (environment() if env is None else env).get(SWITCH) or "auto"
    if given in CHOICES:
        return () if given == "off" else names()
    chosen = tuple(given.split(","))
    if not set(chosen) <= set(names()):
        raise UsageError(f"{SWITCH} is {', '.join(CHOICES)} or some of {','.join(names())}; not {given!r}")
    return chosen


def folder(env: Mapping[str, str]) -> Path:
    """Returns the folder of built libraries. Raises OSError where other users may put libraries there."""
    return code_dir(env, "native")


def built(env: Mapping[str, str]) -> Mapping[str, Path] | None:
    """Returns the libraries of the permitted kernels by name, as `remember` saved them; None when one is missing."""
    try:
        index = json.loads(_index(env).read_text(encoding="utf-8"))
        found = {name: folder(env) / Path(index[name]).name for name in permitted(env) if name in index}
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found if all(path.is_file() for path in found.values()) else None


def remember(env: Mapping[str, str], libraries: Mapping[str, Path]) -> None:
    """Saves the libraries for `built`, which processes without TensorFlow ask, unless the folder cannot be used."""
    with contextlib.suppress(OSError):
        part = _index(env).with_suffix(f".{os.getpid()}")
        part.write_text(json.dumps({name: path.name for name, path in libraries.items()}), encoding="utf-8")
        part.replace(_index(env))


def compiler(env: Mapping[str, str]) -> list[str]:
    """Words of the C++ compiler's command: the variable CXX, or the first of c++, g++, clang++; [] without one."""
    given = env.get("CXX", "").split()
    found = shutil.which(given[0]) if given else shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
    return [] if found is None else [found, *given[1:]]


def _index(env: Mapping[str, str]) -> Path:
    return folder(env) / f"index-{_key(env.get('CXX', ''))}.json"


@functools.cache
def _key(compiler: str) -> str:
    """Hash of what a library depends on (sources, TensorFlow, this CPU) except what only a compiler can tell."""
    sources = [path.read_bytes() for path in sorted((*HERE.glob("*.cc"), *HERE.glob("*.h")))]
    try:
        tensorflow = version("tensorflow")
    except PackageNotFoundError:
        tensorflow = "unknown"
    parts = [*sources, tensorflow.encode(), compiler.encode(), cpu().encode()]
    return hashlib.blake2b(b"\0".join(parts), digest_size=12).hexdigest()


def cpu() -> str:
    """Returns the instruction set that `-march=native` stands for."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().split("\n"):
            if line.startswith(("flags", "Features")):
                return platform.machine() + line
    return platform.machine() + platform.processor()
