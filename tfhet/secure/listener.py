"""Accepts connections, and passes on those whose client proves that it has the job's key."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
import threading
from collections.abc import Awaitable, Callable

from tfhet.cluster import busy
from tfhet.errors import TfhetError, UsageError
from tfhet.secure.handshake import HANDSHAKE_S, Records, Steps, perform_handshake_async

logger = logging.getLogger(__name__)

MAX_UNAUTHENTICATED = 256
"""Maximum number of connections in the handshake; beyond it the oldest is dropped, and a client dials again."""
BACKLOG = 1024
"""Maximum number of connections that the kernel holds; beyond it a client waits a second before its next attempt."""
LOGGED_DROPS = 10
"""Number of drops that are all logged; after them only those whose number is a power of two."""
_OUT_OF_RESOURCES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


def listening(host: str, port: int) -> socket.socket:
    """Returns a socket that listens; port 0 takes a free one. Raises UsageError for a port in use, naming its user."""
    sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
        sock.listen(BACKLOG)
    except (OSError, OverflowError) as error:
        sock.close()
        raise UsageError(busy(port, host, error)) from error
    return sock


class Listener:
    """One listening socket, in an event loop."""

    def __init__(
        self,
        side: Callable[[], Steps],
        serve: Callable[[socket.socket, Records, str], Awaitable[None]],
        dropped: Callable[[str, str], None] | None = None,
        handshake_s: float = HANDSHAKE_S,
    ):
        """Makes a listener that `start` starts.

        Args:
            side: Makes the server's side of a handshake (`as_server`).
            serve: Serves an authenticated connection, in a task of its own: `serve(socket, records, peer)`. It must
                close the socket, which is non-blocking.
            dropped: Called, after a line in the log, as `dropped(peer, reason)` for a connection whose handshake failed
                or lasted longer than `handshake_s` seconds, and for an OSError, TfhetError or TimeoutError of `serve`.
            handshake_s: Limit in seconds.
        """
        self._side, self._serve_client, self._dropped, self._handshake_s = side, serve, dropped, handshake_s
        self._socket: socket.socket | None = None
        self._accepting: asyncio.Task[None] | None = None
        self._unproved: dict[socket.socket, None] = {}  # the oldest first
        self._dropped_for: dict[socket.socket, str] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.drops = 0
        self.last_drop = ""

    def start(self, sock: socket.socket) -> None:
        """Accepts connections at a socket that listens, and owns it from now on."""
        sock.setblocking(False)
        self._socket = sock
        self._accepting = asyncio.create_task(self._accept(sock), name="tfhet-accept")

    async def close(self) -> None:
        """Stops listening and ends every connection whose handshake or `serve` runs."""
        current = asyncio.current_task()
        ending = [task for task in (*self._tasks, self._accepting) if task is not None and task is not current]
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)
        for client in self._unproved:  # whose task was cancelled before it began
            client.close()
        if self._socket is not None:
            self._socket.close()

    async def _accept(self, sock: socket.socket) -> None:
        # asyncio.start_server would accept a whole backlog, a thousand descriptors, before it serves the first one.
        loop = asyncio.get_running_loop()
        while True:
            try:
                client, address = await loop.sock_accept(sock)
            except OSError as error:
                self._drop("a peer", str(error))
                exhausted = error.errno in _OUT_OF_RESOURCES
                if exhausted:
                    self._drop_oldest("no file descriptors are left")
                await asyncio.sleep(0.05 if exhausted else 0)
                continue
            while len(self._unproved) >= MAX_UNAUTHENTICATED:
                self._drop_oldest("too many connections are in the handshake")
            self._unproved[client] = None
            peer = f"{address[0]}:{address[1]}" if address else "this host"
            task = asyncio.create_task(self._serve(client, peer), name=f"tfhet-peer-{peer}")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _drop_oldest(self, reason: str) -> None:
        if self._unproved:
            client = next(iter(self._unproved))
            del self._unproved[client]
            self._dropped_for[client] = reason
            with contextlib.suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)  # its task notices

    async def _serve(self, client: socket.socket, peer: str) -> None:
        try:
            try:
                async with asyncio.timeout(self._handshake_s):
                    records = await perform_handshake_async(client, self._side())
            except BaseException:
                client.close()
                raise
            finally:
                self._unproved.pop(client, None)
            await self._serve_client(client, records, peer)
        except TimeoutError:
            self._drop(peer, f"no handshake within {self._handshake_s:g} s")
        except (TfhetError, OSError) as error:
            self._drop(peer, self._dropped_for.get(client, str(error)))
        finally:
            self._dropped_for.pop(client, None)

    def _drop(self, peer: str, reason: str) -> None:
        self.drops += 1
        self.last_drop = f"{peer}: {reason}"
        if self.drops <= LOGGED_DROPS or self.drops & (self.drops - 1) == 0:
            logger.warning("dropped a connection from %s: %s (%d so far)", peer, reason, self.drops)
            if self._dropped is not None:
                self._dropped(peer, reason)


class ListenerThread:
    """A listener in a thread, which serves each authenticated connection in another thread."""

    def __init__(
        self, sock: socket.socket, side: Callable[[], Steps], serve: Callable[[socket.socket, Records, str], None]
    ):
        """sock: socket that listens; the listener closes it. serve: gets a blocking socket, which it must close."""
        self._side, self._serve = side, serve
        self._loop, self._closing = asyncio.new_event_loop(), asyncio.Event()
        self._thread = threading.Thread(target=self._run, args=(sock,), name="tfhet-listen", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stops listening, within 10 seconds. Safe to call again."""
        with contextlib.suppress(RuntimeError):  # it has closed already
            self._loop.call_soon_threadsafe(self._closing.set)
        self._thread.join(10.0)

    def _run(self, sock: socket.socket) -> None:
        self._loop.run_until_complete(self._listen(sock))
        self._loop.close()

    async def _listen(self, sock: socket.socket) -> None:
        listener = Listener(self._side, self._start)
        listener.start(sock)
        await self._closing.wait()
        await listener.close()

    async def _start(self, end: socket.socket, records: Records, peer: str) -> None:
        end.setblocking(True)
        try:
            threading.Thread(target=self._serve, args=(end, records, peer), name="tfhet-peer", daemon=True).start()
        except RuntimeError as error:
            end.close()
            raise ConnectionError(f"no thread can be started for it: {error}") from None
