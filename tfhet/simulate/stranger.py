"""The fault `stranger`: a client without the job's secret that connects to its ports."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

Connect = Callable[[str, int], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]
SILENT = 270
"""Simultaneous connections that send nothing: more than a server lets wait for authentication."""
SCANS = 10
"""Connections that are closed at once."""
_DIAL_S, _LAST_S, _SLOW_S = 2.0, 1.0, 0.1
_HTTP_2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
_OPENINGS = (
    _HTTP_2,  # of gRPC, with empty settings
    bytes([22, 3, 1, 0, 200, 1, 0, 0, 196, 3, 3]),  # of TLS
    b"GET /metrics HTTP/1.1\r\n\r\n",
    b'{"type": "join", "member": "rank-1"}\n',
    *(b"tfhet-w1" + bytes([mode, 1]) + bytes(32) + b"a" + bytes(32) for mode in range(5)),
)


@dataclass(frozen=True)
class Visit:
    """The result of a visit."""

    connections: int
    most_bytes: int
    """Largest number of bytes that one connection received."""

    def __str__(self) -> str:
        return f"{self.connections} connections got {self.most_bytes} bytes at most"


async def visit(connect: Connect, address: str, port: int, seed: int = 0) -> Visit:
    """Scans a port, sends the openings of other protocols, forged proofs and random bytes, some of them slowly, and
    keeps connections open, for some seconds. Refused connections count, too."""
    draw = random.Random(seed)
    texts = [*_OPENINGS, *(draw.randbytes(draw.choice([1, 30, 5000])) for _ in range(11)), *[b""] * SILENT]
    slow = {*range(0, len(_OPENINGS) + 11, 4)}
    held: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def one(text: bytes, is_slow: bool) -> None:
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(_DIAL_S):
                reader, writer = await connect(address, port)
            held.append((reader, writer))
            for part in (text[at : at + 1] for at in range(20)) if is_slow else (text,):
                writer.write(part)
                await writer.drain()  # fails where the other side has ended the connection
                await asyncio.sleep(_SLOW_S if is_slow else 0)

    async def received(reader: asyncio.StreamReader) -> int:
        got = 0
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(_LAST_S):
                while more := await reader.read(1 << 16):
                    got += len(more)
        return got

    try:
        for _ in range(SCANS):
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(_DIAL_S):
                    (await connect(address, port))[1].close()
        await asyncio.gather(*(one(text, index in slow) for index, text in enumerate(texts)))
        most = max(await asyncio.gather(*(received(reader) for reader, _ in held)), default=0)
    finally:
        for _, writer in held:
            writer.close()
    return Visit(SCANS + len(texts), most)
