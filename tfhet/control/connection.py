"""One authenticated connection (`tfhet.secure`), which carries the messages of the link. They are not encrypted."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import TypeVar

from tfhet.control import message
from tfhet.control.message import MAX_MESSAGE_BYTES, AnyMessage, decode, encode
from tfhet.errors import TfhetError
from tfhet.schema import MessageError
from tfhet.secure import TAG_BYTES, Purpose, Records, as_client, perform_handshake_async
from tfhet.units import MIB

M = TypeVar("M")
MAX_UNSENT_BYTES = 8 * MIB
"""Maximum of unsent bytes; the connection to a peer that does not read ends beyond it."""
_LIMIT = MAX_MESSAGE_BYTES + Records.HEAD + TAG_BYTES


class Refused(TfhetError):
    """The server knows the secret and refuses this member; the text says why."""


class Connection:
    """Reads and writes messages; `write` never waits."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, records: Records):
        self._reader, self._writer, self._records = reader, writer, records
        peer = writer.get_extra_info("peername")
        self.peer = f"{peer[0]}:{peer[1]}" if peer else "unknown"
        self.address = str(peer[0]) if peer else ""  # of the other side

    @classmethod
    async def dial(cls, address: str, port: int, key: bytes) -> Connection:
        """Connects to the server at an IP address, and authenticates both sides. Raises OSError when nothing listens
        there, Unauthenticated, and MessageError for another version."""
        end = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
        try:
            end.setblocking(False)
            await asyncio.get_running_loop().sock_connect(end, (address, port))
            if end.getsockname() == end.getpeername():
                # TCP's simultaneous open: a dialler whose own ephemeral port is the dialled one is connected to itself.
                raise ConnectionRefusedError(f"nothing listens at {address}:{port}")
            records = await perform_handshake_async(end, as_client(key, Purpose.LINK))
        except BaseException:
            end.close()
            raise
        return await cls.take(end, records)

    @classmethod
    async def take(cls, end: socket.socket, records: Records) -> Connection:
        """Takes over a socket after the handshake, and closes it if that fails."""
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=_LIMIT)
        protocol = asyncio.StreamReaderProtocol(reader)
        try:
            transport, _ = await loop.connect_accepted_socket(lambda: protocol, end)
        except BaseException:
            end.close()
            raise
        return cls(reader, asyncio.StreamWriter(transport, protocol, reader, loop), records)

    async def read(self) -> AnyMessage:
        """The next message. Raises ConnectionError at the end, Forged for a record that was changed on the way, and
        MessageError for other records that are no message."""
        try:
            size, data = self._records.lengths(await self._reader.readexactly(Records.HEAD), MAX_MESSAGE_BYTES)
            body = await self._reader.readexactly(size + TAG_BYTES)
        except asyncio.IncompleteReadError as error:
            if error.partial:
                raise MessageError("the connection ended in the middle of a message") from error
            raise ConnectionAbortedError("the other side closed the connection") from error
        text = self._records.opened(body)
        if data:
            raise MessageError(f"a message of the link with {data} bytes of data")
        return decode(text)

    async def expect(self, kind: type[M]) -> M:
        """The next message, of one kind. Raises as `read`, MessageError for another kind, and Refused for a refusal."""
        found = await self.read()
        if isinstance(found, kind):
            return found
        if isinstance(found, message.Refused):
            raise Refused(found.reason)
        raise MessageError(f"expected {kind.__name__}, got {type(found).__name__}")

    def write(self, message: object) -> None:
        """Hands a message to the operating system. A peer that has stopped reading loses its connection, without an
        error here. Raises MessageError for values that are not a message."""
        text = encode(message)
        transport = self._writer.transport
        if transport.is_closing():
            return
        if transport.get_write_buffer_size() > MAX_UNSENT_BYTES:
            self.abort()
            return
        self._writer.write(self._records.sealed(text))

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
