"""Names of the kernels, those that this process may use, and libraries that are there already: those that were built
here before, and those that came with the wheel. Needs no TensorFlow."""

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

_V3 = frozenset({"abm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe", "xsave"})
_V4 = _V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
LEVELS: Mapping[str, frozenset[str]] = {"x86-64-v4-vbmi": _V4 | {"avx512vbmi"}, "x86-64-v4": _V4, "x86-64-v3": _V3}
"""Levels of CPUs for which a wheel has kernels, the highest first, and the CPU features that each needs, as Linux names
them. Levels 3 and 4 are those of the x86-64 psABI."""


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


def of_wheels() -> Path:
    """Returns the folder in the package where a wheel has its kernels for the installed TensorFlow. Need not exist."""
    return HERE / "ahead" / f"tensorflow-{_tensorflow()}"


def of_wheel(name: str) -> Path | None:
    """Returns the library of a kernel that came with the wheel, for the highest level that this CPU has; or None.

    It was compiled against the very version of TensorFlow that is installed.
    """
    features = set(cpu().split())
    paths = (of_wheels() / level / f"{name}.so" for level, needed in LEVELS.items() if needed <= features)
    return next((path for path in paths if path.is_file()), None)


def built(env: Mapping[str, str]) -> Mapping[str, Path] | None:
    """Returns the libraries of the permitted kernels by name, as `remember` saved them or as the wheel has them; None
    when one is missing, or when a name is wrong, which is for whoever loads them to say."""
    try:
        wanted = permitted(env)
    except UsageError:
        return None
    found = {name: path for name in wanted if (path := of_wheel(name))}
    with contextlib.suppress(OSError, ValueError, TypeError, AttributeError):
        index = json.loads(_index(env).read_text(encoding="utf-8"))
        saved = {name: folder(env) / Path(file).name for name, file in index.items() if name in wanted}
        found |= {name: path for name, path in saved.items() if path.is_file()}
    return found if found.keys() == set(wanted) else None


def remember(env: Mapping[str, str], libraries: Mapping[str, Path]) -> None:
    """Saves those of the libraries that were built here for `built`, which processes without TensorFlow ask, unless the
    folder cannot be used."""
    with contextlib.suppress(OSError):
        saved = {name: path.name for name, path in libraries.items() if path.parent == folder(env)}
        if saved:
            part = _index(env).with_suffix(f".{os.getpid()}")
            part.write_text(json.dumps(saved), encoding="utf-8")
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
    parts = [*sources, _tensorflow().encode(), compiler.encode(), cpu().encode()]
    return hashlib.blake2b(b"\0".join(parts), digest_size=12).hexdigest()


def _tensorflow() -> str:
    """Returns the version of the installed TensorFlow."""
    for package in ("tensorflow", "tensorflow-cpu"):
        with contextlib.suppress(PackageNotFoundError):
            return version(package)
    return "unknown"


def cpu() -> str:
    """Returns the instruction set that `-march=native` stands for."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().split("\n"):
            if line.startswith(("flags", "Features")):
                return platform.machine() + line
    return platform.machine() + platform.processor()
