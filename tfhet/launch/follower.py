"""The link as every launcher but the chief sees it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import Any

from tfhet.control import LinkClient, Message, Secret
from tfhet.deadline import Deadline
from tfhet.errors import NotReady
from tfhet.events import Observer
from tfhet.launch.place import Place
from tfhet.launch.said import objection_to_start
from tfhet.launch.verdict import Verdict


class Branch:
    """Joins the chief, hears when to start and how it ended."""

    def __init__(self, place: Place, secret: Secret, observer: Observer, *, on_stop: Callable[[], None] = lambda: None):
        """on_stop: called when the script of this host is to be told to stop."""
        self._place = place
        self._on_stop = on_stop
        loop = asyncio.get_running_loop()
        self._start: asyncio.Future[Message] = loop.create_future()
        self._verdict: asyncio.Future[Verdict] = loop.create_future()
        self._member = LinkClient(
            place.member,
            place.coordinator,
            place.ports.control,
            secret,
            place.settings.lease_s,
            on_message=self._heard,
            on_end=lambda code, cause: self._decide(Verdict(code, cause)),
            on_lease_lost=lambda reason: self._decide(Verdict(1, f"{place.label} lost its lease: {reason}")),
            observer=observer,
        )

    async def join(self) -> None:
        """Raises NotReady when the chief is not there before the deadline, ClusterError when it does not want us."""
        facts = {"host": self._place.host, "ranks": self._place.size}
        await self._member.join(facts, self._place.settings.ready_timeout_s)

    async def started(self) -> Message:
        """What the chief says when all is ready. Raises NotReady; the chief ends the job before that."""
        limit_s = self._place.settings.ready_timeout_s + 2 * self._place.settings.lease_s
        try:
            async with Deadline(limit_s):
                return await asyncio.shield(self._start)
        except asyncio.TimeoutError:
            raise NotReady(f"{self._place.label}: not told to start within {limit_s:g} s") from None

    def report(self, message: Mapping[str, Any]) -> None:
        self._member.send(message)

    async def ended(self) -> Verdict:
        """The verdict of the chief; or our own, when the lease is lost. The lease is what bounds this wait."""
        return await asyncio.shield(self._verdict)

    def clock_offset(self) -> tuple[float, float] | None:
        """How far the chief's clock is ahead of ours, and within which error; None before it was compared."""
        return self._member.clock_offset

    async def leave(self, code: int, cause: str, hurry: asyncio.Future[Any]) -> None:
        """Says goodbye, which takes a second at most."""
        await self._member.leave(code)

    def _heard(self, message: Message) -> None:
        if message["type"] == "start":
            odd = objection_to_start(message)
            if odd is not None:
                self._decide(Verdict(1, f"{self._place.label} cannot understand the chief: {odd}"))
                return
            with contextlib.suppress(asyncio.InvalidStateError):
                self._start.set_result(message)
        elif message["type"] == "stop":
            self._on_stop()

    def _decide(self, verdict: Verdict) -> None:
        with contextlib.suppress(asyncio.InvalidStateError):
            self._verdict.set_result(verdict)
