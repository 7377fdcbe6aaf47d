"""Which kernels there are, which may be used, and where those lie that were built before. Needs no TensorFlow."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tfhet.cluster import cache_dir, environment
from tfhet.errors import UsageError

HERE = Path(__file__).parent
SWITCH = "TFHET_NATIVE"
"""`auto`: compiled ops where they can be built; `off`: plain TensorFlow only; `on`: an error where they cannot be; or
the names of those to use, with commas, as a launcher tells its rank which of them every data worker has."""
CHOICES = ("auto", "off", "on")


def names() -> tuple[str, ...]:
    """All kernels that there are, sorted."""
    return tuple(sorted(path.stem for path in HERE.glob("*.cc")))


def permitted(env: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """The kernels that `TFHET_NATIVE` lets this process use. Raises UsageError for words that it does not know."""
    given = (environment() if env is None else env).get(SWITCH) or "auto"
    if given in CHOICES:
        return () if given == "off" else names()
    chosen = tuple(given.split(","))
    if not set(chosen) <= set(names()):
        raise UsageError(f"{SWITCH} is {', '.join(CHOICES)} or some of {','.join(names())}; not {given!r}")
    return chosen


def folder(env: Mapping[str, str]) -> Path:
    """Where libraries are kept."""
    return cache_dir(env) / "native"


def built(env: Mapping[str, str]) -> Mapping[str, Path] | None:
    """The libraries of the permitted kernels, by name, as `remember` was told; None when it was not, or one is gone."""
    try:
        index = json.loads(_index(env).read_text(encoding="utf-8"))
        found = {name: folder(env) / str(index[name]) for name in permitted(env) if name in index}
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found if all(path.is_file() for path in found.values()) else None


def remember(env: Mapping[str, str], libraries: Mapping[str, Path]) -> None:
    """Keeps what `built` gives, for processes that do without TensorFlow, unless the folder cannot be written."""
    with contextlib.suppress(OSError):
        part = _index(env).with_suffix(f".{os.getpid()}")
        part.write_text(json.dumps({name: path.name for name, path in libraries.items()}), encoding="utf-8")
        part.replace(_index(env))


def _index(env: Mapping[str, str]) -> Path:
    return folder(env) / f"index-{_key(env.get('CXX', ''))}.json"


@functools.cache
def _key(compiler: str) -> str:
    """Of the sources, TensorFlow and this CPU: what a library depends on, without what only a compiler can say."""
    sources = [path.read_bytes() for path in sorted((*HERE.glob("*.cc"), *HERE.glob("*.h")))]
    try:
        tensorflow = version("tensorflow")
    except PackageNotFoundError:
        tensorflow = "unknown"
    parts = [*sources, tensorflow.encode(), compiler.encode(), cpu().encode()]
    return hashlib.blake2b(b"\0".join(parts), digest_size=12).hexdigest()


def cpu() -> str:
    """The instruction set that `-march=native` stands for."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().split("\n"):
            if line.startswith(("flags", "Features")):
                return platform.machine() + line
    return platform.machine() + platform.processor()
