"""A slow disk: reads of the channels' files, by the processes of one host, that take longer while a switch is on.

A small library, slow_disk.cc, is preloaded into them; it is built once, into the user's cache.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tfhet.cluster import cache_dir
from tfhet.errors import UsageError

SOURCE = Path(__file__).with_name("slow_disk.cc")
FLAGS = ("-O2", "-fPIC", "-shared", "-Wall", "-D_GNU_SOURCE")
READ_MS = 50
"""What a read takes longer: a disk whose queue is full."""
BUILD_LIMIT_S = 120.0


@dataclass(frozen=True)
class SlowDisk:
    """The disk of one host. It is slow while the file `switch` exists."""

    library: Path
    switch: Path

    def variables(self, env: Mapping[str, str], folders: Iterable[Path]) -> dict[str, str]:
        """What the host's processes have in their environment, beside `env`, for slow reads below `folders`."""
        return {
            "LD_PRELOAD": ":".join(filter(None, (str(self.library), env.get("LD_PRELOAD", "")))),
            "TFHET_SLOW_DISK_SWITCH": str(self.switch),
            "TFHET_SLOW_DISK_FOLDERS": ":".join(str(folder.resolve()) for folder in folders),
            "TFHET_SLOW_DISK_MS": str(READ_MS),
        }

    def slow(self) -> None:
        self.switch.touch()

    def heal(self) -> None:
        self.switch.unlink(missing_ok=True)


def build(env: Mapping[str, str]) -> Path:
    """The library, made unless it is in the cache. Raises UsageError where it cannot be."""
    given = env.get("CXX", "").split()
    compiler = (
        shutil.which(given[0]) if given else shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
    )
    if compiler is None:
        raise UsageError("a slow disk needs a C++ compiler, and there is none (Debian: g++); leave slow-disk out")
    words = [compiler, *given[1:], *FLAGS]
    key = hashlib.blake2b(SOURCE.read_bytes() + repr([words, platform.machine()]).encode(), digest_size=12).hexdigest()
    library = cache_dir(env) / "simulate" / f"slow_disk-{key}.so"
    if library.exists():
        return library
    try:
        library.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".build-", dir=library.parent) as scratch:
            made = Path(scratch) / library.name
            done = subprocess.run(
                [*words, "-o", str(made), str(SOURCE), "-ldl"],
                capture_output=True,
                text=True,
                timeout=BUILD_LIMIT_S,
                stdin=subprocess.DEVNULL,
            )
            if done.returncode:
                raise UsageError(f"a slow disk: {compiler} failed: " + " | ".join(done.stderr.strip().split("\n")[:4]))
            os.replace(made, library)
    except (OSError, subprocess.SubprocessError) as error:
        raise UsageError(f"a slow disk: its library cannot be built in {library.parent}: {error}") from None
    return library
