"""Whatever answers where the coordinator should be, a member joins nothing false and leaves nothing behind."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest
from hypothesis import strategies as st
from rubbish import fuzz
from siege import DEADLINE_S, SECRET, Visit, run, visits, written

from tfhet.control import LinkClient
from tfhet.control.message import Joined, encode
from tfhet.errors import ClusterError, NotReady, TfhetError
from tfhet.secure import MAGIC, Purpose, Records, as_server

pytestmark = pytest.mark.usefixtures("quiet_link")


class FalseCoordinator:
    """Answers each connection as the next visit says, and the rest by hanging up."""

    def __init__(self, paid: list[Visit]):
        self.port = 0
        self.joins = 0
        self._paid = list(paid)
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        visit = self._paid.pop(0) if self._paid else Visit("nothing", "", (), (), "close")
        records = None
        with contextlib.suppress(OSError, EOFError, TfhetError, asyncio.CancelledError):
            if visit.stage == "opening":
                await reader.readexactly(42)
                writer.write(MAGIC + bytes(32))
                await reader.readexactly(32)
            elif visit.stage != "nothing":
                records = await self._admit(reader, writer)
                self.joins += 1
                if visit.stage == "joined":
                    writer.write(records.sealed(encode(Joined(0.1, 0))))
            for piece in written(visit, records):
                writer.write(piece)
                await asyncio.sleep(0)
            if visit.ending == "stay":
                await asyncio.sleep(DEADLINE_S)
            elif visit.ending == "eof":
                writer.write_eof()
                while await reader.read(1 << 16):
                    pass
        writer.transport.abort()

    @staticmethod
    async def _admit(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Records:
        side = as_server(SECRET.key, {Purpose.LINK})
        wish = next(side)
        while True:
            try:
                if isinstance(wish, bytes):
                    writer.write(wish)
                    wish = next(side)
                else:
                    wish = side.send(await reader.readexactly(wish))
            except StopIteration as done:
                records: Records = done.value
                return records

    async def close(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()


async def _deceived(paid: list[Visit]) -> None:
    told: list[tuple[Any, ...]] = []
    coordinator = FalseCoordinator(paid)
    await coordinator.start()
    member = LinkClient(
        "honest",
        "127.0.0.1",
        coordinator.port,
        SECRET,
        on_message=lambda message: told.append(("message", message)),
        on_end=lambda code, cause: told.append(("end", code, cause)),
        on_lease_lost=lambda reason: told.append(("lease lost", reason)),
        handshake_s=0.05,
    )
    try:
        await member.join({"cores": 4}, 0.12)
        member.send({"type": "still here"})
        for _ in range(20):
            if member.end_reason:
                break
            await asyncio.sleep(0.01)
    except NotReady:
        pass
    except ClusterError:
        assert coordinator.joins, "refused by one that did not prove that it knows the secret"
    await member.leave(0, flush_s=0.01)
    await coordinator.close()
    assert sum(kind != "message" for kind, *_ in told) <= 1
    for kind, *rest in told:
        if kind == "message":
            assert isinstance(rest[0], dict)
        else:
            assert coordinator.joins
            assert isinstance(rest[-1], str)
            assert kind == "lease lost" or -255 <= rest[0] <= 255


async def _all_deceived(many: list[list[Visit]]) -> None:
    await asyncio.gather(*(_deceived(paid) for paid in many))


_deceits = visits("nothing", "opening", "proved", "joined").map(
    lambda paid: [paid[i : i + 2] for i in range(0, len(paid), 2)]
)


@fuzz(6, st.lists(_deceits, min_size=3, max_size=5))
def test_a_false_coordinator_cannot_break_a_member(many: list[list[list[Visit]]]) -> None:
    run(_all_deceived(sum(many, [])))
