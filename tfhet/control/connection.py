"""One TCP connection, which carries the messages of the link."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import socket

from tfhet.control.message import MAX_LINE_BYTES, AnyMessage, decode, encode
from tfhet.schema import MessageError
from tfhet.units import MIB

MAX_UNSENT_BYTES = 8 * MIB
"""Maximum of unsent bytes; the connection to a peer that does not read ends beyond it."""
_LIMIT = MAX_LINE_BYTES + 64


class Seal:
    """Marks the lines of one direction of one connection, so that none can be changed, added, left out or repeated."""

    def __init__(self, key: str):
        self._key = key.encode("ascii")
        self._lines = 0

    def mark(self, line: bytes) -> bytes:
        """The HMAC-SHA256 of the number of the next line and its text, 64 hexadecimal digits."""
        self._lines += 1
        return hmac.new(self._key, b"%d " % self._lines + line, hashlib.sha256).hexdigest().encode("ascii")


class Connection:
    """Reads and writes messages; `write` never waits."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter):
        self._reader, self._writer = reader, writer
        self._seals: tuple[Seal, Seal] | None = None
        peer = writer.get_extra_info("peername")
        self.peer = f"{peer[0]}:{peer[1]}" if peer else "unknown"
        self.address = str(peer[0]) if peer else ""  # of the other side

    @classmethod
    async def dial(cls, address: str, port: int) -> Connection:
        """Connects to an IP address. Raises OSError when nothing listens there."""
        reader, writer = await asyncio.open_connection(address, port, limit=_LIMIT)
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
        reader = asyncio.StreamReader(limit=_LIMIT)
        protocol = asyncio.StreamReaderProtocol(reader)
        try:
            sock.setblocking(False)
            transport, _ = await loop.connect_accepted_socket(lambda: protocol, sock)
        except BaseException:
            sock.close()
            raise
        return cls(reader, asyncio.StreamWriter(transport, protocol, reader, loop))

    def seal(self, sends: str, reads: str) -> None:
        """From here on every line begins with its mark, made with the key of its direction."""
        self._seals = Seal(sends), Seal(reads)

    async def read(self) -> AnyMessage:
        """The next message. Raises ConnectionError at the end, MessageError for a line that is none, or is forged."""
        try:
            line = await self._reader.readuntil(b"\n")
        except asyncio.IncompleteReadError as error:
            if error.partial:
                raise MessageError("the connection ended in the middle of a line") from error
            raise ConnectionAbortedError("the other side closed the connection") from error
        except asyncio.LimitOverrunError as error:
            raise MessageError(f"a line of more than {MAX_LINE_BYTES} bytes") from error
        if self._seals is not None:
            mark, line = line[:64], line[64:]
            if not hmac.compare_digest(mark, self._seals[1].mark(line)):
                raise MessageError("a line without the mark of the other side: somebody else wrote or changed it")
        return decode(line)

    def write(self, message: object) -> None:
        """Hands a message to the operating system. A peer that has stopped reading loses its connection, without an
        error here. Raises MessageError for values that are not a message."""
        line = encode(message)
        transport = self._writer.transport
        if transport.is_closing():
            return
        if transport.get_write_buffer_size() > MAX_UNSENT_BYTES:
            self.abort()
            return
        self._writer.write(self._seals[0].mark(line) + line if self._seals is not None else line)

    def abort(self) -> None:
        """Ends the connection at once; unsent messages are lost."""
        self._writer.transport.abort()

    async def close(self, flush_s: float = 0.5) -> None:
        """Sends the unsent messages, for at most `flush_s` seconds, and ends the connection."""
        self._writer.close()
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(flush_s):
                await self._writer.wait_closed()
        self.abort()
