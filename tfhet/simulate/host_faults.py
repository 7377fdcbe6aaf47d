"""Faults inside the processes of a host, caused by a library that they preload (host_faults.cc)."""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path

from tfhet.native import compiled
from tfhet.simulate.fault import PRELOADED

READ_MS, WRITE_MS = 50, 200
"""Delays of a read and of a write of a slow disk, in milliseconds."""
CONTROL = Path("/etc/tfhet-host-faults")
"""Control file and preload list of a container; process hosts use variables instead."""
PRELOAD = Path("/etc/ld.so.preload")
_FLAGS = ("-O2", "-fPIC", "-shared", "-D_GNU_SOURCE", "-fno-exceptions", "-fno-threadsafe-statics", "-Wl,--as-needed")


def library(env: Mapping[str, str]) -> Path:
    """Path of the library, compiled unless it is in the cache. Raises UsageError if it cannot be compiled."""
    what = f"the library of the faults {', '.join(PRELOADED)}"
    return compiled(Path(__file__).with_suffix(".cc"), env, what, "omit them", _FLAGS, ".so")


class HostFaults:
    """The control file of one host. It begins with a number for each kind in PRELOADED; 0: the fault is off."""

    def __init__(self, path: Path):
        self.path = path

    def open(self, reads: Iterable[Path], writes: Iterable[Path]) -> None:
        """Writes the file with all faults off. reads, writes: the real folders whose reads or writes are affected."""
        lines = [*(f"r{folder}\n" for folder in reads), *(f"w{folder}\n" for folder in writes)]
        self.path.write_bytes(bytes(8 * len(PRELOADED)) + os.fsencode("".join(lines)) + b"\0")

    def set(self, kind: str, amount: float | None = None, *, is_on: bool = True) -> None:
        """Starts or ends a fault of a kind in PRELOADED. amount: the amount of a Fault."""
        place = PRELOADED.index(kind)
        numbers = (READ_MS, WRITE_MS, errno.ENOSPC, errno.EIO, (amount or 0.0) * 1e3, (amount or 0.0) * 1e9)
        with open(self.path, "r+b", buffering=0) as file:
            file.seek(8 * place)
            file.write(struct.pack("=q", round(is_on * numbers[place])))

    def variables(self, env: Mapping[str, str]) -> dict[str, str]:
        """Variables of the host's processes, in addition to `env`."""
        preload = ":".join(filter(None, (str(library(env)), env.get("LD_PRELOAD", ""))))
        return {"LD_PRELOAD": preload, "TFHET_HOST_FAULTS": str(self.path)}
