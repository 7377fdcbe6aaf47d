"""Harm in addition to the simulator's faults: a damaged data file, a port in use, busy CPUs."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tfhet.simulate import Simulation
from tfhet.simulate.host import hosts_named
from tfhet.source.digits import digits

DAMAGED = (5, 1)
"""The record that is damaged, as numbers of its file and of the record in it."""
_HEADER = struct.Struct("<QI")  # of a TFRecord: length, checksum of the length
_SPIN = """
import os, sys
while os.getppid() == int(sys.argv[1]):  # it ends with its starter
    for _ in range(1_000_000):
        pass
"""


def damaged_digits(folder: Path, damage: str) -> Path:
    """Copies the digits' training files to `folder` and damages one: its last record is `truncated`, or its second one
    is `corrupt`, in one bit of the data."""
    shutil.copytree(digits() / "train", folder)
    file = sorted(folder.glob("*.tfrecord*"))[DAMAGED[0]]
    content = bytearray(file.read_bytes())
    if damage == "truncated":
        del content[-10:]
    else:
        length, _ = _HEADER.unpack_from(content)
        content[length + 4 + 2 * _HEADER.size + 100] ^= 1
    file.write_bytes(content)
    return folder


@contextlib.contextmanager
def busy_port(job: Simulation, what: str) -> Iterator[int]:
    """Listens at a port that a job needs: of `control`, `dispatcher` or `worker`. Yields its number."""
    leader = hosts_named(job.hosts, "dnn-1")[0].ports
    served = next(host.ports for host in job.hosts if host.serves)
    port = {
        "control": leader.control,
        "dispatcher": leader.plane["dispatcher"][0],
        "worker": served.plane["workers"][0],
    }[what]
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("0.0.0.0", port))
        listener.listen()
        yield port


@contextlib.contextmanager
def busy_cpus() -> Iterator[None]:
    """Keeps as many CPUs busy as this process may use, as other programs on the machine would."""
    words = [sys.executable, "-c", _SPIN, str(os.getpid())]
    processes = [subprocess.Popen(words, stdin=subprocess.DEVNULL) for _ in os.sched_getaffinity(0)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait(10.0)
