"""The centre of the link: knows who belongs to the job, who is there, and tells everybody when it is over.

It runs inside the launcher of rank 0. Every other launcher is a member (member.py) that dials it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from tfhet.clock import SYSTEM, Clock
from tfhet.control.connection import Connection
from tfhet.control.handshake import JoinRequest, refuse_for
from tfhet.control.inbox import Inbox
from tfhet.control.listener import MAX_UNAUTHENTICATED, Listener
from tfhet.control.message import Message, ProtocolError, sound_code
from tfhet.control.secret import Secret
from tfhet.control.session import Session
from tfhet.deadline import Deadline
from tfhet.errors import NotReady, UsageError
from tfhet.events import Event, Observer, ignore

logger = logging.getLogger(__name__)

STEPS_PER_LEASE = 20
"""How often per lease the members are looked at. A renewal goes out at least four times per lease."""


class LinkServer:
    """Keeps the leases of the members named in `expected`.

    Callbacks, plain or coroutine functions, are called one after another:
    `on_message(member, message)` for what a member sends; `on_left(member, code)` when one goes on purpose;
    `on_lost(member, reason)`, once, for one that was silent for `lease_s`, or whose connection broke and did not come
    back within `grace_s`. A member that was lost is not let in again. After `end` nobody is lost any more.
    """

    def __init__(
        self,
        expected: Iterable[str],
        secret: Secret,
        lease_s: float = 10.0,
        *,
        on_message: Callable[[str, Message], Awaitable[None] | None] | None = None,
        on_lost: Callable[[str, str], Awaitable[None] | None] | None = None,
        on_left: Callable[[str, int], Awaitable[None] | None] | None = None,
        grace_s: float | None = None,
        handshake_s: float = 5.0,
        max_unauthenticated: int = MAX_UNAUTHENTICATED,
        clock: Clock = SYSTEM,
        observer: Observer = ignore,
    ):
        if not lease_s > 0:
            raise UsageError(f"lease_s must be positive, got {lease_s!r}")
        self.expected = frozenset(expected)
        self._lease_s = lease_s
        self._grace_s = lease_s / 4 if grace_s is None else grace_s
        self._on_message, self._on_lost, self._on_left = on_message, on_lost, on_left
        self._clock = clock
        self._observer = observer
        self._seats: dict[str, Session] = {}
        self._end: Message | None = None
        self._closed = False
        self._changed = asyncio.Event()
        self._inbox = Inbox()
        self._renewing: asyncio.Task[None] | None = None
        self._listener = Listener(
            secret, self._objection, self._welcome, self._dropped, handshake_s, max_unauthenticated
        )

    @property
    def facts(self) -> Mapping[str, Mapping[str, Any]]:
        """What every member that ever joined said about itself, by name."""
        return {name: seat.facts for name, seat in self._seats.items()}

    @property
    def missing(self) -> frozenset[str]:
        """Members that have never joined."""
        return self.expected - set(self._seats)

    @property
    def here(self) -> frozenset[str]:
        """Members that hold a lease now."""
        return frozenset(name for name, seat in self._seats.items() if seat.is_here)

    @property
    def left(self) -> Mapping[str, int]:
        """The codes of the members that went on purpose, by name."""
        return {name: seat.left_code for name, seat in self._seats.items() if seat.left_code is not None}

    @property
    def lost(self) -> Mapping[str, str]:
        """Why members were given up, by name."""
        return {name: seat.lost_why for name, seat in self._seats.items() if seat.lost_why is not None}

    async def start(self, host: str, port: int) -> int:
        """Listens at `host` ("0.0.0.0" for every interface) and gives the port, a free one for 0.

        Raises UsageError for a port in use, saying by whom where that is known.
        """
        bound = self._listener.start(host, port)
        self._inbox.start()
        self._renewing = asyncio.create_task(self._renew(), name="tfhet-lease")
        return bound

    async def wait_joined(self, deadline_s: float) -> None:
        """Returns when every expected member has joined.

        Raises NotReady, naming the members, when that has not happened after `deadline_s`, and as soon as one of them
        is lost or the job ends.
        """
        with contextlib.suppress(asyncio.TimeoutError):
            async with Deadline(deadline_s):
                await self._until(lambda: not self.missing or bool(self.lost or self._end))
        if self.lost:
            raise NotReady("lost while waiting for the others: " + "; ".join(f"{n}: {w}" for n, w in self.lost.items()))
        if not self.missing:
            return
        there = ", ".join(sorted(self._seats)) or "nobody"
        why = f"the job ended ({self._end['cause']})" if self._end else f"not joined after {deadline_s:g} s"
        drops = f"; {self._listener.drops} connections dropped, last {self._listener.last_drop}"
        raise NotReady(
            f"{why}: missing {', '.join(sorted(self.missing))}; there: {there}{drops if self._listener.drops else ''}"
        )

    def send(self, member: str, message: Mapping[str, Any]) -> None:
        """Sends one member a message: JSON values, with a text under "type", less than 64 KiB as a line.

        It arrives once, in order, also over a new connection; nothing is sent to a member that is not here. A member
        that leaves 4 MiB unconfirmed is given up. Confirmations come with the renewals, so the link is for control,
        not for data. Raises ProtocolError for a message that does not fit, UsageError for a member never expected.
        """
        if member not in self.expected:
            raise UsageError(f"no member {member!r}; expected: {', '.join(sorted(self.expected)) or 'nobody'}")
        seat = self._seats.get(member)
        if seat is not None and seat.is_here:
            if seat.outbox.is_full:
                self._give_up(seat, "does not read what it is sent")
                return
            packed = seat.outbox.pack(message)
            if seat.connection is not None:
                seat.connection.write(packed)

    def broadcast(self, message: Mapping[str, Any]) -> None:
        """Sends a message to every member that is here. Those that join later do not get it."""
        for member in sorted(self.here):
            self.send(member, message)

    async def end(self, code: int, cause: str, linger_s: float = 2.0, late_s: float = 0.0) -> frozenset[str]:
        """Tells every member that the job is over, waits until they have left or `linger_s` has passed, and closes.

        Gives the members that have not confirmed by then. Who joins or comes back meanwhile is told too; those that
        have never joined are waited for first, for `late_s`. The first call's code and cause count.
        """
        if self._end is None:
            self._end = {"type": "end", "code": sound_code(code), "cause": cause[:4000]}
            for seat in self._seats.values():
                if seat.is_here and seat.connection is not None:
                    seat.connection.write(self._end)
            self._tell("link.ended", code=code, cause=cause)
            self._changed.set()
        if self.missing and late_s > 0:
            with contextlib.suppress(asyncio.TimeoutError):
                async with Deadline(late_s):
                    await self._until(lambda: not self.missing or self._closed)
        with contextlib.suppress(asyncio.TimeoutError):
            async with Deadline(linger_s):
                await self._until(lambda: not self.here or self._closed)
        staying = self.here
        await self.close()
        return staying

    async def close(self) -> None:
        """Ends every connection, task and socket. Members that were not told of the end lose their lease."""
        self._closed = True
        self._changed.set()
        if self._renewing is not None:
            self._renewing.cancel()
            await asyncio.gather(self._renewing, return_exceptions=True)
        await self._listener.close()
        await self._inbox.close()

    async def _until(self, predicate: Callable[[], bool]) -> None:
        while not predicate():
            self._changed.clear()
            await self._changed.wait()

    def _objection(self, name: str, instance: str) -> str | None:
        """The reason to refuse a member that has proved that it knows the secret."""
        reason = self._reason_against(name, instance)
        if reason is not None:
            self._tell("link.member_refused", member=name, reason=reason, is_expected=name in self.expected)
        return reason

    def _reason_against(self, name: str, instance: str) -> str | None:
        seat = self._seats.get(name)
        if name not in self.expected:
            return f"not a member of this job; its members: {', '.join(sorted(self.expected))}"
        if seat is None:
            return None
        if seat.newcomer.instance != instance:
            return "another process has joined under this name"
        if seat.left_code is not None:
            return "has left"
        return f"was given up: {seat.lost_why}" if seat.lost_why is not None else None

    async def _welcome(self, newcomer: JoinRequest, connection: Connection) -> None:
        refuse_for(connection, newcomer.name, self._objection(newcomer.name, newcomer.instance))
        seat = self._seats.get(newcomer.name)
        now = self._clock.monotonic()
        if seat is None:
            seat = Session(newcomer, newcomer.facts, connection, now)
            self._seats[newcomer.name] = seat
            self._tell("link.member_joined", member=newcomer.name, peer=connection.peer)
        else:
            if seat.connection is not None:
                seat.connection.abort()
            seat.connection, seat.heard_s = connection, now
            self._tell("link.member_returned", member=newcomer.name, peer=connection.peer)
        try:
            seat.outbox.confirm(newcomer.seen)
            connection.write(
                {"type": "joined", "lease_s": self._lease_s, "seen": seat.outbox.seen, "wall_s": self._clock.wall()}
            )
            for message in seat.outbox.unconfirmed():
                connection.write(message)
            if self._end is not None:
                connection.write(self._end)
            self._changed.set()
            await self._listen(seat, connection)
        except (ProtocolError, OSError) as error:
            if seat.connection is connection:
                seat.connection, seat.broken_s, seat.broken_why = None, self._clock.monotonic(), str(error)
                if seat.is_here and self._end is None:
                    logger.warning("the connection of %s broke: %s", seat.name, error)

    async def _listen(self, seat: Session, connection: Connection) -> None:
        while True:
            message = await connection.read()
            seat.heard_s = self._clock.monotonic()
            kind = message["type"]
            if kind == "alive":
                seat.outbox.confirm(message["seen"])
            elif kind == "message":
                if self._inbox.is_full:
                    raise ProtocolError("sends faster than its messages can be handled")
                body = seat.outbox.take(message)
                if body is not None:
                    self._inbox.put(self._on_message, seat.name, body)
            elif kind == "left":
                if seat.is_here:
                    seat.left_code = message["code"]
                    self._tell("link.member_left", member=seat.name, code=seat.left_code)
                    self._inbox.put(self._on_left, seat.name, seat.left_code)
                    self._changed.set()
                return
            else:
                raise ProtocolError(f"a member does not say {kind!r}")

    async def _renew(self) -> None:
        step_s = self._lease_s / STEPS_PER_LEASE
        last_s = self._clock.monotonic()
        loop = asyncio.get_running_loop()
        due_s = loop.time()
        while True:
            if loop.time() >= due_s:
                due_s = loop.time() + self._lease_s / 4 - step_s
                for seat in self._seats.values():
                    if seat.is_here and seat.connection is not None:
                        seat.connection.write({"type": "lease", "seen": seat.outbox.seen})
            await asyncio.sleep(step_s)
            now = self._clock.monotonic()
            stood_still_s, last_s = now - last_s - step_s, now
            if stood_still_s > self._lease_s / 4:
                # This process was stopped or starved, and what the members said meanwhile is unread: it does not count.
                for seat in self._seats.values():
                    seat.heard_s, seat.broken_s = seat.heard_s + stood_still_s, seat.broken_s + stood_still_s
            for seat in self._seats.values():
                why = seat.loss(now, self._lease_s, self._grace_s) if seat.is_here and self._end is None else None
                if why is not None:
                    self._give_up(seat, why)

    def _give_up(self, seat: Session, why: str) -> None:
        seat.lost_why = why
        if seat.connection is not None:
            seat.connection.abort()
        self._tell("link.member_lost", member=seat.name, reason=why)
        self._inbox.put(self._on_lost, seat.name, why)
        self._changed.set()

    def _dropped(self, peer: str, reason: str) -> None:
        self._tell("link.peer_dropped", peer=peer, reason=reason)

    def _tell(self, name: str, **fields: Any) -> None:
        try:
            self._observer(Event(name, self._clock.wall(), fields))
        except Exception:  # a full disk must not cost the members their leases
            logger.exception("the observer failed")
