"""The endpoint of a launcher: answers `GET /metrics`, one request a connection, whoever asks and whatever he sends."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Callable

from tfhet.cluster.address import busy
from tfhet.deadline import Deadline
from tfhet.launch.exposition import CONTENT_TYPE

REQUEST_BYTES = 8192
"""A head that is longer is refused."""
CONNECTION_S = 5.0
"""How long a connection may last."""
CONNECTIONS = 16
"""Beyond so many at a time the next ones are closed at once."""
_PATH = "/metrics"
_REQUEST_LINE = re.compile(rb"([A-Z]{1,16}) (\S{1,2048}) HTTP/1\.[01]\r\n")
_REASONS = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    431: "Request Header Fields Too Large",
}


class Endpoint:
    """One listening socket, served by the loop of the launcher."""

    def __init__(self, text: Callable[[], str], say: Callable[[str], None] = lambda line: None):
        """text: what is answered."""
        self._text, self._say = text, say
        self._server: asyncio.Server | None = None
        self._answering: set[asyncio.Task[None]] = set()

    async def run(self, host: str, port: int) -> None:
        """Serves at `host`:`port` until it is cancelled. Ends early, and says why, where it cannot: what is to be
        trained is worth more than what is seen of it."""
        try:
            bound = await self.open(host, port)
        except (OSError, OverflowError) as error:
            self._say(f"no metrics at --metrics_port: {busy(port, host, error)}")
            return
        self._say(f"metrics for Prometheus: http://{f'[{host}]' if ':' in host else host}:{bound}{_PATH}")
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            await self.close()

    async def open(self, host: str, port: int) -> int:
        """Begins to listen; gives the port, a free one for 0. Raises OSError."""
        self._server = await asyncio.start_server(self._accept, host, port, limit=REQUEST_BYTES, backlog=CONNECTIONS)
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    async def close(self) -> None:
        """Listens no more, and drops who is still there."""
        if self._server is not None:
            self._server.close()
        for task in self._answering:
            task.cancel()
        await asyncio.gather(*self._answering, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._answering) >= CONNECTIONS:
            writer.transport.abort()
            return
        task = asyncio.create_task(self._answer(reader, writer), name="metrics")
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)
        # Cancelled before its first step, a task would not close what it was given.
        task.add_done_callback(lambda _: writer.transport.abort())

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.TimeoutError, asyncio.IncompleteReadError):
            async with Deadline(CONNECTION_S):
                writer.write(await self._response(reader))
                writer.close()
                await writer.wait_closed()

    async def _response(self, reader: asyncio.StreamReader) -> bytes:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            return _response(431)
        asked = _REQUEST_LINE.match(head)
        if asked is None:
            return _response(400)
        method, path = asked.group(1), asked.group(2).split(b"?")[0]
        if path != _PATH.encode():
            return _response(404, f"see {_PATH}\n")
        if method not in (b"GET", b"HEAD"):
            return _response(405, more="Allow: GET, HEAD\r\n")
        return _response(200, self._text(), is_head=method == b"HEAD")


def _response(code: int, text: str = "", *, is_head: bool = False, more: str = "") -> bytes:
    body = text.encode("utf-8", "replace")
    head = (
        f"HTTP/1.1 {code} {_REASONS[code]}\r\nContent-Type: {CONTENT_TYPE}\r\nContent-Length: {len(body)}\r\n"
        f"{more}Connection: close\r\n\r\n"
    )
    return head.encode() + (b"" if is_head else body)
