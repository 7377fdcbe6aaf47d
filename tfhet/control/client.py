"""The client of the link, in every follower's launcher: joins the leader, holds a lease, hears of its end."""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
from collections.abc import Callable, Mapping
from typing import Any

from tfhet.clock import SYSTEM, Clock
from tfhet.control.connection import Connection, Refused
from tfhet.control.lease import beats
from tfhet.control.message import Alive, End, Join, Joined, Left, Refused as GivenUp, valid_code
from tfhet.control.outbox import Inbox, Outbox
from tfhet.control.secret import Secret
from tfhet.coroutines import in_thread
from tfhet.errors import ClusterError, NotReady, UsageError
from tfhet.schema import MessageError
from tfhet.secure import Unauthenticated

logger = logging.getLogger(__name__)

FIRST_RETRY_S, LAST_RETRY_S = 0.05, 1.0
"""Backoff between attempts to connect: from the first to the last, growing by 1.6."""


class LinkClient:
    """Dials the server at `address`:`port` under a name that the server expects.

    Callbacks are called one after another: `on_message(message)` for each message, and then one of two, once:
    `on_end(code, cause)` when the job is over, or `on_lease_lost(reason)` when the server was silent for the length of
    the lease, or took this member for lost. Call `leave` in every case: it ends the tasks."""

    def __init__(
        self,
        name: str,
        address: str,
        port: int,
        secret: Secret,
        lease_s: float = 10.0,
        *,
        on_message: Callable[[dict[str, Any]], None] | None = None,
        on_end: Callable[[int, str], None] | None = None,
        on_lease_lost: Callable[[str], None] | None = None,
        handshake_s: float = 5.0,
        clock: Clock = SYSTEM,
    ):
        self.name = name
        self.lease_s = lease_s
        """Seconds; the server's, once joined."""
        self.clock_offset: tuple[float, float] | None = None
        """Seconds that the server's clock is ahead, and their error, from the quickest handshake; None before it."""
        self._address, self._port, self._secret = address, port, secret
        self._on_message, self._on_end, self._on_lease_lost = on_message, on_end, on_lease_lost
        self._handshake_s, self._clock = handshake_s, clock
        self._instance = secrets.token_hex(8)
        self._facts: dict[str, Any] = {}
        self._outbox, self._inbox = Outbox(), Inbox()
        self._connection: Connection | None = None
        self._heard_s = 0.0
        self.end_reason = ""
        """Why this client holds no lease any more: "ended", "lease lost" or "left"; "" while it does, and before."""
        self._tasks: list[asyncio.Task[None]] = []
        self._leaving: asyncio.Task[None] | None = None

    async def join(self, facts: Mapping[str, Any], deadline_s: float) -> None:
        """Joins with `facts` (JSON values) about this host; retries for `deadline_s` seconds. Raises NotReady with the
        last reason at the deadline, and ClusterError when the server refuses this member."""
        if self._tasks or self.end_reason:
            raise UsageError(f"client {self.name!r} has joined already; make a new one")
        self._facts = dict(facts)
        try:
            connection = await self._dial(self._clock.monotonic() + deadline_s, f"{deadline_s:g} s")
        except Refused as error:
            raise ClusterError(f"the leader at {self._address}:{self._port} refused {self.name!r}: {error}") from error
        self._tasks = [
            asyncio.create_task(self._stay(connection), name="tfhet-member"),
            asyncio.create_task(self._renew(), name="tfhet-alive"),
        ]

    def send(self, message: object) -> None:
        """As `LinkServer.send`. Raises MessageError for a message that does not fit, or when 4 MiB are unconfirmed."""
        if not self._tasks or self._leaving is not None:
            raise UsageError("a client sends between join and leave")
        if self._outbox.is_full:
            raise MessageError("the leader does not confirm what this client sends")
        packed = self._outbox.pack(message)
        if self._connection is not None:
            self._connection.write(packed)

    async def leave(self, code: int = 0, flush_s: float = 1.0) -> None:
        """Tells the server that this member leaves on purpose, for which it waits at most `flush_s` seconds, and ends
        connection and tasks; drops callbacks that are still to be called. Only the first call's exit code counts."""
        if self._leaving is None:
            self._leaving = asyncio.create_task(self._leave(code, flush_s), name="tfhet-leave")
        await asyncio.shield(self._leaving)
        self._inbox.close()

    async def _leave(self, code: int, flush_s: float) -> None:
        self.end_reason = self.end_reason or "left"
        if self._tasks and self._connection is not None:
            self._connection.write(Left(valid_code(code)))
            await asyncio.wait(self._tasks[:1], timeout=flush_s)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _dial(self, until_s: float, allowed: str) -> Connection:
        retry_s, why, tries = FIRST_RETRY_S, "no answer", 0
        while (remaining_s := until_s - self._clock.monotonic()) > 0:
            found: list[str] = []
            try:
                async with asyncio.timeout(remaining_s):
                    found = await _addresses_of(self._address)  # may take longer than a handshake
                    async with asyncio.timeout(self._handshake_s):
                        return await self._dial_once(found[tries % len(found)])
            except TimeoutError:
                if not found:
                    why = "the name service does not answer"
                elif remaining_s > self._handshake_s:  # a last try cut short hides no better reason
                    why = "no answer"
            except ConnectionRefusedError:
                why = "nothing listens there"
            except (OSError, MessageError, Unauthenticated) as error:
                why = str(error)
            await asyncio.sleep(max(0.0, min(retry_s, until_s - self._clock.monotonic())))
            retry_s, tries = min(retry_s * 1.6, LAST_RETRY_S), tries + 1
        raise NotReady(f"the leader at {self._address}:{self._port} was not reached within {allowed}: {why}")

    async def _dial_once(self, address: str) -> Connection:
        connection = await Connection.dial(address, self._port, self._secret.key)
        asked_s = self._clock.monotonic()
        try:
            connection.write(Join(self.name, self._instance, self._facts, self._outbox.seen))
            joined = await connection.expect(Joined)
            self._compare_clocks(joined.wall_s, self._clock.monotonic() - asked_s)
            self._outbox.confirm(joined.seen)
        except BaseException:
            connection.abort()
            raise
        for message in self._outbox.unconfirmed():
            connection.write(message)
        self.lease_s = joined.lease_s
        self._address = connection.address  # no name service is needed to reconnect
        self._heard_s = self._clock.monotonic()
        self._connection = connection
        return connection

    def _compare_clocks(self, theirs_s: float | None, took_s: float) -> None:
        """theirs_s: of the server's clock within the last `took_s` seconds; their middle is off by half of them at most
        (as in NTP, RFC 5905)."""
        if theirs_s is not None:
            offset_s, error_s = theirs_s - (self._clock.wall() - took_s / 2), took_s / 2
            if self.clock_offset is None or error_s <= self.clock_offset[1]:
                self.clock_offset = offset_s, error_s

    async def _stay(self, connection: Connection) -> None:
        while True:
            try:
                await self._listen(connection)
            except (MessageError, OSError) as error:
                why = str(error)
            finally:
                self._connection = None
                connection.abort()
            if self.end_reason:
                break
            logger.warning("%s: the connection to the leader broke: %s", self.name, why)
            try:
                connection = await self._dial(self._heard_s + self.lease_s, "the lease")
            except Refused as error:
                self._lose(f"the leader refused to take it back: {error}")
                break
            except NotReady as error:
                self._lose(f"the connection broke ({why}) and {error}")
                break

    async def _listen(self, connection: Connection) -> None:
        while True:
            message = await connection.read()
            self._heard_s = self._clock.monotonic()
            if self._outbox.receive(message, self._inbox, self._on_message):
                continue
            if isinstance(message, GivenUp):
                self._lose(f"the leader has given it up: {message.reason}")
                return
            if not isinstance(message, End):
                raise MessageError(f"a server does not send {type(message).__name__}")
            if not self.end_reason:
                self.end_reason = "ended"
                self._inbox.put(self._on_end, message.code, message.cause)

    async def _renew(self) -> None:
        async for now_s, stood_still_s in beats(lambda: self.lease_s, self._clock, self._send_renewal, self._heard_s):
            self._heard_s = min(now_s, self._heard_s + stood_still_s)  # it may have heard something since
            silent_s = now_s - self._heard_s
            if silent_s > self.lease_s and not self.end_reason and self._connection is not None:
                self._lose(f"the leader was silent for {silent_s:.1f} s, the lease is {self.lease_s:g} s")

    def _send_renewal(self) -> None:
        if self._connection is not None:
            self._connection.write(Alive(self._outbox.seen))

    def _lose(self, reason: str) -> None:
        if not self.end_reason:
            self.end_reason = "lease lost"
            self._inbox.put(self._on_lease_lost, reason)
            if self._connection is not None:
                self._connection.abort()


async def _addresses_of(host: str) -> list[str]:
    """The IP addresses of a host. Raises OSError for an unknown name."""
    try:
        found = await in_thread(socket.getaddrinfo, host, None, 0, socket.SOCK_STREAM)
    except UnicodeError as error:
        raise OSError(f"{host!r} is no name of a host ({error})") from error
    return list(dict.fromkeys(str(each[4][0]) for each in found))
