"""Damage before a job starts: a damaged data file, a port that is in use."""

from __future__ import annotations

import contextlib
import shutil
import socket
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

from tfhet.cluster import cache_dir, environment
from tfhet.errors import unknown
from tfhet.simulate.host import SimulatedHost

DAMAGED = (5, 1)
"""The record that is damaged, as numbers of its file and in it."""
_HEADER = struct.Struct("<QI")  # of a TFRecord: length, checksum of the length


def damaged_digits(folder: Path, damage: str) -> Path:
    """The digits' training files in `folder`, one of them `truncated` in its last record or with a `corrupt` one.

    The corrupt record is the second of its file: one bit of its data is wrong, its length is right.
    """
    from tfhet.source import digits

    shutil.copytree(digits.digits(cache_dir(environment()) / "digits" / "16-shards") / "train", folder)
    file = sorted(folder.glob("*.tfrecord*"))[DAMAGED[0]]
    content = bytearray(file.read_bytes())
    if damage == "truncated":
        del content[-10:]
    elif damage == "corrupt":
        length, _ = _HEADER.unpack_from(content)
        content[length + 4 + 2 * _HEADER.size + 100] ^= 1
    else:
        unknown("damage", damage, ("truncated", "corrupt"))
    file.write_bytes(content)
    return folder


@contextlib.contextmanager
def taken(hosts: Sequence[SimulatedHost], chief: SimulatedHost, what: str) -> Iterator[int]:
    """Somebody listens on the `control` or `dispatcher` port of the chief, or a `worker`'s; yields which it is."""
    served = next(host for host in hosts if host.serves)
    ports = {
        "control": chief.ports.control,
        "dispatcher": chief.ports.plane["dispatcher"][0],
        "worker": served.ports.plane["workers"][0],
    }
    if what not in ports:
        unknown("port to take", what, ports)
    with socket.socket() as somebody:
        somebody.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        somebody.bind(("0.0.0.0", ports[what]))
        somebody.listen()
        yield ports[what]
