"""Whatever arrives at the control port, the link of the others holds and nothing is left of it."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any

import pytest
from rubbish import fuzz
from siege import SECRET, Visit, run, visits, written

from tfhet.control import LinkClient, LinkServer
from tfhet.control.connection import Connection
from tfhet.control.message import Join, Joined, Numbered, encode
from tfhet.errors import TfhetError
from tfhet.events import Event
from tfhet.record import json_value
from tfhet.secure import MAGIC, Purpose

pytestmark = pytest.mark.usefixtures("quiet_link")


async def _pay(visit: Visit, port: int) -> asyncio.StreamWriter:
    """Makes a visit; gives its connection, ended by the other side unless the visit stays."""
    if visit.stage in ("proved", "joined"):
        connection = await Connection.dial("127.0.0.1", port, SECRET.key)
        reader, writer, records = connection._reader, connection._writer, connection._records
    else:
        (reader, writer), records = await asyncio.open_connection("127.0.0.1", port), None
    with contextlib.suppress(OSError, TfhetError):
        if visit.stage == "joined":
            connection.write(Join(visit.name, f"{visit.name} itself", {}, 0))
            await connection.expect(Joined)
        elif visit.stage == "opening":
            writer.write(MAGIC + bytes((Purpose.LINK, 0)) + bytes(32))
            await reader.readexactly(40)
        for piece in written(visit, records):
            writer.write(piece)
            await asyncio.sleep(0)
        if visit.ending == "eof":
            writer.write_eof()
            while await reader.read(1 << 16):
                pass
    if visit.ending == "abort":
        writer.transport.abort()
    elif visit.ending != "stay":
        writer.close()
    return writer


class Link:
    """A coordinator with an honest member, and what both were told."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []
        self.events: list[Event] = []
        self.coordinator = LinkServer(
            ["honest", "late", "evil-0", "evil-1", "evil-2"],
            SECRET,
            60.0,
            on_message=lambda member, message: self._tell("message", member, message),
            on_lost=lambda member, reason: self._tell("lost", member, reason),
            on_left=lambda member, code: self._tell("left", member, code),
            grace_s=60.0,
            observer=self.events.append,
        )
        self.port = 0
        self._news = asyncio.Event()

    def _tell(self, *what: Any) -> None:
        self.told.append(what)
        self._news.set()

    async def joined(self, name: str) -> LinkClient:
        member = LinkClient(
            name,
            "127.0.0.1",
            self.port,
            SECRET,
            on_end=lambda code, cause: self._tell("ended", name, code, cause),
            on_lease_lost=lambda reason: self._tell("lease lost", name, reason),
        )
        await member.join({}, 20)
        return member

    async def until(self, what: tuple[Any, ...]) -> None:
        while what not in self.told:
            self._news.clear()
            await self._news.wait()

    def check(self, known: set[str]) -> None:
        """Everything that the callbacks and the observer got is something that they may get, of `known` members."""
        for kind, member, *rest in self.told:
            assert member in known
            assert kind in ("message", "left", "ended")
            if kind == "message":
                encode(Numbered(1, rest[0]))
            elif kind == "left":
                assert type(rest[0]) is int
                assert -255 <= rest[0] <= 255
        for event in self.events:
            json.dumps(json_value(event.as_json()), allow_nan=False)


async def _besieged(paid: list[Visit], known: set[str]) -> None:
    link = Link()
    link.port = await link.coordinator.start("127.0.0.1", 0)
    honest = await link.joined("honest")
    writers = await asyncio.gather(*(_pay(visit, link.port) for visit in paid))
    honest.send({"type": "still here"})
    await link.until(("message", "honest", {"type": "still here"}))
    late = await link.joined("late")
    assert {"honest", "late"} <= link.coordinator.here
    assert not link.coordinator.lost
    ended = asyncio.create_task(link.coordinator.end(3, "enough", linger_s=0.0))
    for name in ("honest", "late"):
        await link.until(("ended", name, 3, "enough"))
    await asyncio.gather(ended, honest.leave(3), late.leave(3))
    for writer in writers:
        writer.transport.abort()
    link.check(known)


@fuzz(50, visits("nothing", "opening"))
def test_strangers_at_the_control_port_change_nothing(paid: list[Visit]) -> None:
    run(_besieged(paid, {"honest", "late"}))


@fuzz(50, visits("joined", "joined", "proved"))
def test_members_that_say_odd_things_harm_nobody_else(paid: list[Visit]) -> None:
    run(_besieged(paid, {"honest", "late", "evil-0", "evil-1", "evil-2"}))
