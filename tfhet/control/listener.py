"""Accepts connections, and passes on those whose peer proves that it knows the secret."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
from collections.abc import Awaitable, Callable

from tfhet.cluster import busy
from tfhet.control.connection import Connection
from tfhet.control.handshake import JoinRequest, Refused, Unauthenticated, admit
from tfhet.control.secret import Secret
from tfhet.errors import UsageError
from tfhet.schema import MessageError

logger = logging.getLogger(__name__)

MAX_UNAUTHENTICATED = 256
"""Maximum number of connections in the handshake; beyond it the oldest is dropped, and a member dials again."""
BACKLOG = 1024
"""Maximum number of connections that the kernel holds; beyond it a client waits a second before its next attempt."""
LOGGED_DROPS = 10
"""Number of drops that are all logged; after them only those whose number is a power of two."""
_OUT_OF_RESOURCES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Listener:
    """One listening socket. Calls `serve` with every authenticated connection, in a task of its own, and `dropped(peer,
    reason)` for those that failed, among them handshakes of more than `handshake_s` seconds. objection: see `admit`."""

    def __init__(
        self,
        secret: Secret,
        objection: Callable[[str, str], str | None],
        serve: Callable[[JoinRequest, Connection], Awaitable[None]],
        dropped: Callable[[str, str], None],
        handshake_s: float,
    ):
        self._secret, self._handshake_s = secret, handshake_s
        self._objection, self._serve_member, self._dropped = objection, serve, dropped
        self._socket: socket.socket | None = None
        self._accepting: asyncio.Task[None] | None = None
        self._unproved: dict[Connection, None] = {}
        self._dropped_for: dict[Connection, str] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.drops = 0
        self.last_drop = ""

    def start(self, host: str, port: int) -> int:
        """Listens and returns the port; 0 takes a free one. Raises UsageError for a port in use, naming its user."""
        sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind((host, port))
            sock.listen(BACKLOG)
            sock.setblocking(False)
        except (OSError, OverflowError) as error:
            sock.close()
            raise UsageError(busy(port, host, error)) from error
        self._socket = sock
        self._accepting = asyncio.create_task(self._accept(sock), name="tfhet-accept")
        bound: int = sock.getsockname()[1]
        return bound

    async def close(self) -> None:
        """Stops listening and ends every connection that was accepted here."""
        current = asyncio.current_task()
        ending = [task for task in (*self._tasks, self._accepting) if task is not None and task is not current]
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)
        for connection in self._unproved:  # whose task was cancelled before it began
            connection.abort()
        if self._socket is not None:
            self._socket.close()

    async def _accept(self, sock: socket.socket) -> None:
        # asyncio.start_server would accept a whole backlog, a thousand descriptors, before it serves the first one.
        loop = asyncio.get_running_loop()
        while True:
            try:
                client, _ = await loop.sock_accept(sock)
                connection = await Connection.accept(client)
            except OSError as error:
                self._drop("a peer", str(error))
                exhausted = error.errno in _OUT_OF_RESOURCES
                if exhausted:
                    self._drop_oldest("no file descriptors are left")
                await asyncio.sleep(0.05 if exhausted else 0)
                continue
            while len(self._unproved) >= MAX_UNAUTHENTICATED:
                self._drop_oldest("too many connections are in the handshake")
            self._unproved[connection] = None
            task = asyncio.create_task(self._serve(connection), name=f"tfhet-peer-{connection.peer}")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _drop_oldest(self, reason: str) -> None:
        if self._unproved:
            connection = next(iter(self._unproved))
            del self._unproved[connection]
            self._dropped_for[connection] = reason
            connection.abort()

    async def _serve(self, connection: Connection) -> None:
        try:
            try:
                async with asyncio.timeout(self._handshake_s):
                    request = await admit(connection, self._secret, self._objection)
            finally:
                self._unproved.pop(connection, None)
            await self._serve_member(request, connection)
        except TimeoutError:
            self._drop(connection.peer, f"no handshake within {self._handshake_s:g} s")
        except (Unauthenticated, Refused, MessageError, OSError) as error:
            self._drop(connection.peer, self._dropped_for.get(connection, str(error)))
        finally:
            self._dropped_for.pop(connection, None)
            with contextlib.suppress(asyncio.CancelledError):
                await connection.close()

    def _drop(self, peer: str, reason: str) -> None:
        self.drops += 1
        self.last_drop = f"{peer}: {reason}"
        if self.drops <= LOGGED_DROPS or self.drops & (self.drops - 1) == 0:
            logger.warning("dropped a connection from %s: %s (%d so far)", peer, reason, self.drops)
            self._dropped(peer, reason)
