"""The server of the link, in the leader's launcher: who belongs to the job, who holds a lease, and the job's end."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import socket
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tfhet.clock import SYSTEM, Clock
from tfhet.control.connection import Connection, Refused
from tfhet.control.lease import Session, Standstill, beats
from tfhet.control.message import Alive, End, Join, Joined, Left, Refused as GivenUp, valid_code
from tfhet.control.outbox import Inbox
from tfhet.control.secret import Secret
from tfhet.errors import NotReady, UsageError
from tfhet.events import Event, Observer, ignore
from tfhet.schema import MessageError
from tfhet.secure import Listener, Purpose, Records, as_server, listening

logger = logging.getLogger(__name__)


class LinkServer:
    """Keeps a lease for each of the members named in `expected`, the other launchers.

    Callbacks are called one after another: `on_message(member, message)` for each message; `on_left(member, code)` when
    a member leaves on purpose; `on_lost(member, reason)`, once, for a member that was silent for `lease_s` seconds, or
    whose connection broke and was not restored within `grace_s` (a quarter of the lease). A lost member is refused when
    it dials again. After `end` no member is lost any more."""

    def __init__(
        self,
        expected: Iterable[str],
        secret: Secret,
        lease_s: float = 10.0,
        *,
        on_message: Callable[[str, dict[str, Any]], None] | None = None,
        on_lost: Callable[[str, str], None] | None = None,
        on_left: Callable[[str, int], None] | None = None,
        grace_s: float | None = None,
        handshake_s: float = 5.0,
        clock: Clock = SYSTEM,
        observer: Observer = ignore,
    ):
        if not lease_s > 0:
            raise UsageError(f"lease_s must be positive, got {lease_s!r}")
        self.expected = frozenset(expected)
        self._lease_s = lease_s
        self._grace_s = lease_s / 4 if grace_s is None else grace_s
        self._on_message, self._on_lost, self._on_left = on_message, on_lost, on_left
        self._clock, self._observer = clock, observer
        self._sessions: dict[str, Session] = {}
        self._end: End | None = None
        self._closed = False
        self._standstill = Standstill(lease_s, clock.monotonic())
        self._changed = asyncio.Event()
        self._inbox = Inbox()
        self._renewing: asyncio.Task[None] | None = None
        self._confirming: asyncio.Task[None] | None = None
        self._handshake_s = handshake_s
        side = functools.partial(as_server, secret.key, {Purpose.LINK})
        self._listener = Listener(side, self._serve, self._dropped, handshake_s)

    @property
    def facts(self) -> Mapping[str, Mapping[str, Any]]:
        """Facts of the members that have joined, by name."""
        return {name: session.request.facts for name, session in self._sessions.items()}

    @property
    def missing(self) -> frozenset[str]:
        """Members that never joined."""
        return self.expected - set(self._sessions)

    @property
    def here(self) -> frozenset[str]:
        """Members that hold a lease."""
        return frozenset(name for name, session in self._sessions.items() if session.is_here)

    @property
    def left(self) -> Mapping[str, int]:
        """Exit codes of the members that left on purpose, by name."""
        return {name: session.left_code for name, session in self._sessions.items() if session.left_code is not None}

    @property
    def lost(self) -> Mapping[str, str]:
        """Reasons why members were lost, by name."""
        return {name: session.lost_why for name, session in self._sessions.items() if session.lost_why is not None}

    @property
    def addresses(self) -> frozenset[str]:
        """IP addresses from which members have joined, which have proved that they belong to the job."""
        return frozenset(session.address for session in self._sessions.values())

    async def start(self, host: str, port: int) -> int:
        """Listens at `host` and returns the port; 0 takes a free one. Raises UsageError for a port in use."""
        sock = listening(host, port)
        bound: int = sock.getsockname()[1]
        self._listener.start(sock)
        self._renewing = asyncio.create_task(self._renew(), name="tfhet-lease")
        return bound

    async def wait_joined(self, deadline_s: float) -> None:
        """Returns once every expected member has joined. Raises NotReady, naming the missing members, after
        `deadline_s` seconds, or when one is lost or the job ends."""
        await self._until(lambda: not self.missing or bool(self.lost or self._end), deadline_s)
        if self.lost:
            raise NotReady("lost while waiting for the others: " + "; ".join(f"{n}: {w}" for n, w in self.lost.items()))
        if not self.missing:
            return
        why = f"the job ended ({self._end.cause})" if self._end else f"not joined after {deadline_s:g} s"
        text = f"{why}: missing {', '.join(sorted(self.missing))}; there: {', '.join(sorted(self._sessions)) or 'none'}"
        drops, last = self._listener.drops, self._listener.last_drop
        raise NotReady(f"{text}; {drops} connections dropped, last {last}" if drops else text)

    def send(self, member: str, message: object) -> None:
        """Sends a message, or JSON values, of less than 64 KiB to a member that holds a lease. It arrives once and in
        order, also over a new connection. A member that leaves 4 MiB unconfirmed is lost. Raises MessageError for a
        message that does not fit, UsageError for a name that is not expected."""
        if member not in self.expected:
            raise UsageError(f"no member {member!r}; expected: {', '.join(sorted(self.expected)) or 'none'}")
        session = self._sessions.get(member)
        if session is not None and session.is_here:
            if session.outbox.is_full:
                self._give_up(session, "it does not read its messages")
                return
            packed = session.outbox.pack(message)
            if session.connection is not None:
                session.connection.write(packed)

    def broadcast(self, message: object) -> None:
        """Sends a message to every member that holds a lease; members that join later do not get it."""
        for member in sorted(self.here):
            self.send(member, message)

    def confirm(self, message: object, then: Callable[[], None]) -> None:
        """Calls `then` once no member can have lost its lease unnoticed: at once, unless this process has just stood
        still. Else the first call broadcasts `message`, and each member confirms it within two leases or is lost."""
        now_s = self._clock.monotonic()
        if not self._standstill.is_recent(now_s) and not self._standstill.is_unnoticed(now_s):
            then()
        elif self._confirming is None:
            self.broadcast(message)
            self._confirming = asyncio.create_task(self._confirm(then), name="tfhet-confirm")

    async def _confirm(self, then: Callable[[], None]) -> None:
        def missing() -> list[Session]:
            return [session for session in self._sessions.values() if session.is_here and session.outbox.unconfirmed()]

        await self._until(lambda: not missing(), 2 * self._lease_s)
        for session in missing():
            self._give_up(session, "it did not confirm its lease")
        self._inbox.put(then)

    async def end(self, code: int, cause: str, linger_s: float = 2.0, late_s: float = 0.0) -> frozenset[str]:
        """Sends every member the end of the job, waits at most `linger_s` seconds until they have left, and closes.
        Returns the members that had not left by then. A member that joins or returns meanwhile gets the end too;
        members that never joined are awaited first, for `late_s` seconds. The first call's code and cause count."""
        if self._end is None:
            self._end = End(valid_code(code), cause[:4000])
            for session in self._sessions.values():
                if session.is_here and session.connection is not None:
                    session.connection.write(self._end)
            self._tell("link.ended", code=code, cause=cause)
            self._changed.set()
        if self.missing and late_s > 0:
            await self._until(lambda: not self.missing or self._closed, late_s)
        await self._until(lambda: not self.here or self._closed, linger_s)
        staying = self.here
        await self.close()
        return staying

    async def close(self) -> None:
        """Closes every connection, task and socket. Members that did not hear of the end lose their lease."""
        self._closed = True
        self._changed.set()
        tasks = [task for task in (self._renewing, self._confirming) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._listener.close()
        self._inbox.close()

    async def _until(self, predicate: Callable[[], bool], limit_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                while not predicate():
                    self._changed.clear()
                    await self._changed.wait()

    def _objection(self, name: str, instance: str) -> str | None:
        """The reason to refuse a member that has proved that it knows the secret, or None."""
        session = self._sessions.get(name)
        if name not in self.expected:
            reason = f"not a member of this job; its members: {', '.join(sorted(self.expected))}"
        elif session is not None and session.request.instance != instance:
            reason = "another process has joined under this name"
        elif session is not None and not session.is_here:
            reason = "it has left" if session.left_code is not None else f"it was lost: {session.lost_why}"
        else:
            return None
        self._tell("link.member_refused", member=name, reason=reason, is_expected=name in self.expected)
        return reason

    async def _serve(self, end: socket.socket, records: Records, peer: str) -> None:
        connection = await Connection.take(end, records)
        try:
            async with asyncio.timeout(self._handshake_s):
                request = await connection.expect(Join)
            if (reason := self._objection(request.name, request.instance)) is not None:
                connection.write(GivenUp(reason[:2000]))
                raise Refused(f"{request.name}: {reason}")
            await self._serve_member(request, connection)
        finally:
            with contextlib.suppress(asyncio.CancelledError):
                await connection.close()

    async def _serve_member(self, request: Join, connection: Connection) -> None:
        session, event = self._sessions.get(request.name), "link.member_joined"
        now = self._clock.monotonic()
        if session is None:
            session = self._sessions[request.name] = Session(request, connection, now)
        else:
            if session.connection is not None:
                session.connection.abort()
            session.connection, session.heard_s = connection, now
            event = "link.member_returned"
        session.address = connection.address
        self._tell(event, member=request.name, peer=connection.peer)
        try:
            session.outbox.confirm(request.seen)
            connection.write(Joined(self._lease_s, session.outbox.seen, self._clock.wall()))
            for message in session.outbox.unconfirmed():
                connection.write(message)
            if self._end is not None:
                connection.write(self._end)
            self._changed.set()
            await self._listen(session, connection)
        except (MessageError, OSError) as error:
            if session.connection is connection:
                session.connection, session.broken_s, session.broken_why = None, self._clock.monotonic(), str(error)
                if session.is_here and self._end is None:
                    logger.warning("the connection to %s broke: %s", session.name, error)

    async def _listen(self, session: Session, connection: Connection) -> None:
        on_message = None if self._on_message is None else functools.partial(self._on_message, session.name)
        while True:
            message = await connection.read()
            session.heard_s = self._clock.monotonic()
            if session.outbox.receive(message, self._inbox, on_message):
                self._changed.set()
                continue
            if not isinstance(message, Left):
                raise MessageError(f"a member does not send {type(message).__name__}")
            if session.is_here:
                session.left_code = message.code
                self._tell("link.member_left", member=session.name, code=session.left_code)
                self._inbox.put(self._on_left, session.name, session.left_code)
                self._changed.set()
            return

    async def _renew(self) -> None:
        began_s = self._standstill.beat_s = self._clock.monotonic()
        async for now_s, stood_still_s in beats(lambda: self._lease_s, self._clock, self._send_renewals, began_s):
            self._standstill.observe(now_s, stood_still_s)
            for session in self._sessions.values():
                session.heard_s = min(now_s, session.heard_s + stood_still_s)  # it may have been heard since
                session.broken_s = min(now_s, session.broken_s + stood_still_s)
                why = session.loss(now_s, self._lease_s, self._grace_s)
                if why is not None and session.is_here and self._end is None:
                    self._give_up(session, why)

    def _send_renewals(self) -> None:
        for session in self._sessions.values():
            if session.is_here and session.connection is not None:
                session.connection.write(Alive(session.outbox.seen))

    def _give_up(self, session: Session, why: str) -> None:
        if self._standstill.is_recent(self._clock.monotonic()):  # then the member has lost its lease, and ended
            seconds = self._standstill.seconds
            why = f"the leader stood still for {seconds:.1f} s, the lease is {self._lease_s:g} s; then: {why}"
        session.lost_why = why
        if session.connection is not None:  # it hears this where only what it sends is cut off
            session.connection.write(GivenUp(f"it was lost: {why}"))
            session.connection.abort()
        self._tell("link.member_lost", member=session.name, reason=why)
        self._inbox.put(self._on_lost, session.name, why)
        self._changed.set()

    def _dropped(self, peer: str, reason: str) -> None:
        self._tell("link.peer_dropped", peer=peer, reason=reason)

    def _tell(self, name: str, **fields: Any) -> None:
        try:
            self._observer(Event(name, self._clock.wall(), fields))
        except Exception:  # a full disk must not cost the members their leases
            logger.exception("the observer failed")
