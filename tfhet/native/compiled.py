"""Programs and libraries of one C++ file that need no TensorFlow, compiled at first use into the user's cache."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path

from tfhet.cluster import code_dir
from tfhet.errors import UsageError
from tfhet.native.kernels import BuildError, compile_into, compiler


def compiled(
    source: Path, env: Mapping[str, str], what: str, instead: str, flags: Sequence[str] = (), suffix: str = ""
) -> Path:
    """Path of the program or library made of one C++ file, compiled with `flags` unless it is in the user's cache.
    Raises UsageError, which says that `what` (like "a delay") cannot be had and what to do `instead`."""
    if not (command := compiler(env)):
        raise UsageError(f"{what} needs a C++ compiler, and there is none (Debian: g++); {instead}")
    words = [*command, *flags]
    key = hashlib.blake2b(source.read_bytes() + repr([words, platform.machine()]).encode(), digest_size=12).hexdigest()
    try:
        result = code_dir(env, "programs") / f"{source.stem}-{key}{suffix}"
        if not result.exists():
            compile_into(result, [*words, str(source), "-ldl"])
    except (OSError, BuildError) as error:
        raise UsageError(f"{what}: {source.name} cannot be built: {error}") from None
    return result
