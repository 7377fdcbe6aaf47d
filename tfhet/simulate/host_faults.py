"""Faults that the processes of a host bring about themselves, by a library that they preload: host_faults.cc.

faults = HostFaults(Path("runs/demo/hosts/algo-1.faults"))
faults.open(reads=[channel], writes=[base])
env |= faults.variables(env)  # of the processes
faults.set("full-disk")
"""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path

from tfhet.container import compiled
from tfhet.simulate.fault import PRELOADED

READ_MS, WRITE_MS = 50, 200
"""Delays of one read and one write of a slow disk, as if its queue were full."""
CONTROL = Path("/etc/tfhet-host-faults")
"""The control file, and the list of what each process preloads, where no variables name them: in a container."""
PRELOAD = Path("/etc/ld.so.preload")
_FLAGS = ("-O2", "-fPIC", "-shared", "-D_GNU_SOURCE", "-fno-exceptions", "-fno-threadsafe-statics", "-Wl,--as-needed")
_PLACES = {"slow-disk": 0, "slow-write": 1, "full-disk": 2, "failing-write": 3, "slow-dns": 4, "clock": 5}
"""By kind, the place of its number in the control file."""


def library(env: Mapping[str, str]) -> Path:
    """The library, compiled unless it is in the cache. Raises UsageError where it cannot be had."""
    source = Path(__file__).with_suffix(".cc")
    return compiled(source, env, f"the library of the faults {', '.join(PRELOADED)}", "omit them", _FLAGS, ".so")


class HostFaults:
    """The control file of one host: what its processes, which have all preloaded the library, do wrong now."""

    def __init__(self, path: Path):
        self.path = path

    def open(self, reads: Iterable[Path], writes: Iterable[Path]) -> None:
        """Writes the file, with nothing wrong yet. reads, writes: the real folders whose reads or writes are meant."""
        lines = [*(f"r{folder}\n" for folder in reads), *(f"w{folder}\n" for folder in writes)]
        self.path.write_bytes(bytes(8 * len(_PLACES)) + os.fsencode("".join(lines)) + b"\0")

    def set(self, kind: str, amount: float | None = None) -> None:
        """Begins a fault of a kind in PRELOADED. amount: as in a Fault."""
        numbers = {
            "slow-disk": READ_MS,
            "slow-write": WRITE_MS,
            "full-disk": errno.ENOSPC,
            "failing-write": errno.EIO,
            "slow-dns": (amount or 0.0) * 1e3,
            "clock": (amount or 0.0) * 1e9,
        }
        self._put(kind, round(numbers[kind]))

    def clear(self, kind: str) -> None:
        """Ends it."""
        self._put(kind, 0)

    def variables(self, env: Mapping[str, str]) -> dict[str, str]:
        """Variables, in addition to `env`, of the host's processes."""
        preload = ":".join(filter(None, (str(library(env)), env.get("LD_PRELOAD", ""))))
        return {"LD_PRELOAD": preload, "TFHET_HOST_FAULTS": str(self.path)}

    def _put(self, kind: str, number: int) -> None:
        with open(self.path, "r+b", buffering=0) as file:
            file.seek(8 * _PLACES[kind])
            file.write(struct.pack("=q", number))
