"""A program or library compiled from one C++ file, kept in the user's cache under a hash of all that decides it."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tfhet.cluster import cache_dir
from tfhet.errors import UsageError

BUILD_LIMIT_S = 120.0


def compiler(env: Mapping[str, str]) -> list[str]:
    """Command of the C++ compiler: the variable CXX, or the first found of c++, g++, clang++; [] without one."""
    given = env.get("CXX", "").split()
    found = shutil.which(given[0]) if given else shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
    return [] if found is None else [found, *given[1:]]


def compiled(
    source: Path, env: Mapping[str, str], what: str, instead: str, flags: Sequence[str] = (), suffix: str = ""
) -> Path:
    """Path of the compiled `source`, compiled with `flags` unless it is in the cache already.

    Raises UsageError, which says that `what` (like "a slow disk") cannot be had and what to do `instead`.
    """
    words = [*compiler(env), *flags]
    if not compiler(env):
        raise UsageError(f"{what} needs a C++ compiler, and there is none (Debian: g++); {instead}")
    key = hashlib.blake2b(source.read_bytes() + repr([words, platform.machine()]).encode(), digest_size=12).hexdigest()
    result = cache_dir(env) / "simulate" / f"{source.stem}-{key}{suffix}"
    if result.exists():
        return result
    try:
        result.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".build-", dir=result.parent) as scratch:
            made = Path(scratch) / result.name
            done = subprocess.run(
                [*words, "-o", str(made), str(source), "-ldl"],
                capture_output=True,
                text=True,
                timeout=BUILD_LIMIT_S,
                stdin=subprocess.DEVNULL,
            )
            if done.returncode:
                said = " | ".join(done.stderr.strip().split("\n")[:4])
                raise UsageError(f"{what}: {words[0]} failed: {said}")
            os.replace(made, result)
    except (OSError, subprocess.SubprocessError) as error:
        raise UsageError(f"{what}: {source.name} cannot be built in {result.parent}: {error}") from None
    return result
