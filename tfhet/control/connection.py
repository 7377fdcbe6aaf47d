"""One TCP connection, and the messages that it carries: one JSON object per line, of a known type with known fields.

hello, join, welcome, refused     the handshake (handshake.py)
facts, joined                     a member joins, or returns after a broken connection
lease, alive                      renewals, from the server and from a client
message                           numbered; carries the messages of the rooms that use the link
end, left                         the job is over; a member leaves on purpose
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import socket
from collections.abc import Mapping
from typing import Any

from tfhet.deadline import Deadline
from tfhet.errors import TfhetError, shown
from tfhet.units import KIB, MIB

MAX_LINE_BYTES = 64 * KIB
"""Maximum length of a line, newline included."""
MAX_CODE = 255
"""Exit codes lie within +-255: the operating system cuts a larger one, and 256 would become success."""
MAX_NUMBER = 2**53
"""Numbers on the link lie within +-2**53, which every JSON reader keeps exact."""
MAX_UNSENT_BYTES = 8 * MIB
"""Maximum of unsent bytes; the connection to a peer that does not read ends beyond it."""

Message = dict[str, Any]

_FIELDS: Mapping[str, Mapping[str, type]] = {
    "hello": {"version": int, "nonce": str},
    "join": {"name": str, "instance": str, "nonce": str, "proof": str},
    "welcome": {"proof": str},
    "refused": {"reason": str},
    "facts": {"facts": dict, "seen": int},
    "joined": {"lease_s": float, "seen": int},
    "lease": {"seen": int},
    "alive": {"seen": int},
    "message": {"n": int, "body": dict},
    "end": {"code": int, "cause": str},
    "left": {"code": int},
}


class ProtocolError(TfhetError, ValueError):
    """Something that is not a message: too long, not JSON, of an unknown type, or with a field of the wrong type."""


def encode(message: Mapping[str, Any]) -> bytes:
    """The line for a message, newline included. Raises ProtocolError for a message that `decode` would refuse."""
    try:
        line = json.dumps(message, allow_nan=False, separators=(",", ":")).encode("ascii") + b"\n"
    except (TypeError, ValueError, RecursionError) as error:
        raise ProtocolError(f"not a message: {error}") from error
    if len(line) > MAX_LINE_BYTES:
        raise ProtocolError(f"a message of {len(line)} bytes; at most {MAX_LINE_BYTES} fit on a line")
    check(message)
    return line


def decode(line: bytes) -> Message:
    """The message in a line. Raises ProtocolError, and nothing else, for any other line."""
    if len(line) > MAX_LINE_BYTES:
        raise ProtocolError(f"a line of more than {MAX_LINE_BYTES} bytes")
    try:
        message = json.loads(line, parse_constant=_finite, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"a line that is not JSON: {line[:40]!r}") from error
    check(message)
    return dict(message)


def valid_code(code: int) -> int:
    """The exit code, or 1 where it is out of range."""
    return code if -MAX_CODE <= code <= MAX_CODE else 1


def check(message: object) -> None:
    """Raises ProtocolError unless `message` has a known type and the fields of that type."""
    if not isinstance(message, Mapping):
        raise ProtocolError(f"expected an object, got {type(message).__name__}")
    kind = message.get("type")
    wanted = _FIELDS.get(kind) if isinstance(kind, str) else None
    if wanted is None:
        raise ProtocolError(f"unknown message type {shown(kind)}; known: {', '.join(_FIELDS)}")
    for name, type_ in wanted.items():
        value = message.get(name)
        good = isinstance(value, (int, float) if type_ is float else type_) and not isinstance(value, bool)
        if good and isinstance(value, (int, float)):
            limit = MAX_CODE if name == "code" else MAX_NUMBER
            good = -limit <= value <= limit
        if not good:
            raise ProtocolError(f"{kind}: field {name!r} must be {type_.__name__}, not {shown(value)}")
    if kind == "message" and not isinstance(message["body"].get("type"), str):
        raise ProtocolError("message: its body needs a 'type'")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:40]} is not a finite number")
    return number


class Connection:
    """Reads and writes messages; `write` never waits."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter):
        self._reader = reader
        self._writer = writer
        peer = writer.get_extra_info("peername")
        self.peer = f"{peer[0]}:{peer[1]}" if peer else "unknown"
        """Address of the other side."""
        self.address = str(peer[0]) if peer else ""
        """IP address of the other side."""

    @classmethod
    async def dial(cls, address: str, port: int) -> Connection:
        """Connects. Raises OSError when nothing listens there."""
        try:
            reader, writer = await asyncio.open_connection(address, port, limit=MAX_LINE_BYTES)
        except UnicodeError as error:
            raise OSError(f"{address!r} is no name of a host ({error})") from error
        connection = cls(reader, writer)
        if writer.get_extra_info("sockname") == writer.get_extra_info("peername"):
            # TCP's simultaneous open: a dialler whose own ephemeral port is the dialled one is connected to itself.
            connection.abort()
            raise ConnectionRefusedError(f"nothing listens at {address}:{port}")
        return connection

    @classmethod
    async def accept(cls, sock: socket.socket) -> Connection:
        """Takes over an accepted socket, and closes it if that fails."""
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=MAX_LINE_BYTES)
        protocol = asyncio.StreamReaderProtocol(reader)
        try:
            sock.setblocking(False)
            transport, _ = await loop.connect_accepted_socket(lambda: protocol, sock)
        except BaseException:
            sock.close()
            raise
        return cls(reader, asyncio.StreamWriter(transport, protocol, reader, loop))

    async def read(self) -> Message:
        """Returns the next message. Raises ConnectionError at the end, ProtocolError for a line that is not one."""
        try:
            line = await self._reader.readuntil(b"\n")
        except asyncio.IncompleteReadError as error:
            if error.partial:
                raise ProtocolError("the connection ended in the middle of a line") from error
            raise ConnectionAbortedError("the other side closed the connection") from error
        except asyncio.LimitOverrunError as error:
            raise ProtocolError(f"a line of more than {MAX_LINE_BYTES} bytes") from error
        return decode(line)

    def write(self, message: Mapping[str, Any]) -> None:
        """Hands a message to the operating system. A peer that has stopped reading loses its connection, without an
        error here. Raises ProtocolError for values that are not a message."""
        line = encode(message)
        transport = self._writer.transport
        if transport.is_closing():
            return
        if transport.get_write_buffer_size() > MAX_UNSENT_BYTES:
            self.abort()
            return
        self._writer.write(line)

    def abort(self) -> None:
        """Ends the connection at once; unsent messages are lost."""
        self._writer.transport.abort()

    async def close(self, flush_s: float = 0.5) -> None:
        """Sends the unsent messages, for at most `flush_s` seconds, and ends the connection."""
        self._writer.close()
        with contextlib.suppress(OSError, asyncio.TimeoutError):
            async with Deadline(flush_s):
                await self._writer.wait_closed()
        self.abort()
