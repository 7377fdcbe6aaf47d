"""Faults that the processes of a host bring about themselves, by a library that they preload: host_faults.cc."""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path

from tfhet.native import compiled
from tfhet.simulate.fault import PRELOADED

READ_MS, WRITE_MS = 50, 200
"""Delays of one read and one write of a slow disk, as if its queue were full."""
CONTROL = Path("/etc/tfhet-host-faults")
"""The control file, and the list of what each process preloads, where no variables name them: in a container."""
PRELOAD = Path("/etc/ld.so.preload")
_FLAGS = ("-O2", "-fPIC", "-shared", "-D_GNU_SOURCE", "-fno-exceptions", "-fno-threadsafe-statics", "-Wl,--as-needed")


def library(env: Mapping[str, str]) -> Path:
    """The library, compiled unless it is in the cache. Raises UsageError where it cannot be had."""
    what = f"the library of the faults {', '.join(PRELOADED)}"
    return compiled(Path(__file__).with_suffix(".cc"), env, what, "omit them", _FLAGS, ".so")


class HostFaults:
    """The control file of one host: what its processes, which have all preloaded the library, do wrong now. It begins
    with a number for each kind in PRELOADED, in their order."""

    def __init__(self, path: Path):
        self.path = path

    def open(self, reads: Iterable[Path], writes: Iterable[Path]) -> None:
        """Writes the file, with nothing wrong yet. reads, writes: the real folders whose reads or writes are meant."""
        lines = [*(f"r{folder}\n" for folder in reads), *(f"w{folder}\n" for folder in writes)]
        self.path.write_bytes(bytes(8 * len(PRELOADED)) + os.fsencode("".join(lines)) + b"\0")

    def set(self, kind: str, amount: float | None = None, *, is_on: bool = True) -> None:
        """Begins, or ends, a fault of a kind in PRELOADED, with the amount of a Fault."""
        place = PRELOADED.index(kind)
        numbers = (READ_MS, WRITE_MS, errno.ENOSPC, errno.EIO, (amount or 0.0) * 1e3, (amount or 0.0) * 1e9)
        with open(self.path, "r+b", buffering=0) as file:
            file.seek(8 * place)
            file.write(struct.pack("=q", round(is_on * numbers[place])))

    def variables(self, env: Mapping[str, str]) -> dict[str, str]:
        """Variables, in addition to `env`, of the host's processes."""
        preload = ":".join(filter(None, (str(library(env)), env.get("LD_PRELOAD", ""))))
        return {"LD_PRELOAD": preload, "TFHET_HOST_FAULTS": str(self.path)}
