"""A loop that has to end with no task and no socket left, and a wire between both ends of a link that can be cut."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest
from sockets import check_left, open_sockets

from tfhet.control import LinkClient, LinkServer, Secret

SECRET = Secret.from_text("the secret of these tests")
DEADLINE_S = 20.0
"""Seconds for a whole test; what a test waits for comes in a fraction of it."""


@pytest.fixture
def run() -> Iterator[Callable[[Coroutine[Any, Any, Any]], Any]]:
    """Runs a coroutine in a fresh loop and checks that it leaves nothing behind."""
    gc.collect()  # sockets that an earlier test left to the collector would close meanwhile
    before = open_sockets()

    def run_it(coroutine: Coroutine[Any, Any, Any]) -> Any:
        async def main() -> Any:
            complaints: list[str] = []
            asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(str(context)))
            result = await asyncio.wait_for(coroutine, DEADLINE_S)
            for _ in range(3):  # a closed transport lets go of its socket one turn later
                await asyncio.sleep(0)
            tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            assert not tasks, f"left running: {tasks}"
            gc.collect()
            assert not complaints
            return result

        return asyncio.run(main())

    yield run_it
    check_left(before)


class Wire:
    """Passes bytes on between a port of its own and another one, until told not to."""

    def __init__(self) -> None:
        self.port = 0
        self.connections = 0
        self.passes = True
        self.passes_there = True
        """Whether what comes from who dials is passed on, too."""
        self._to = 0
        self._server: asyncio.Server | None = None
        self._writers: list[asyncio.StreamWriter] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, to_port: int) -> None:
        self._to = to_port
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.append(writer)
        with contextlib.suppress(OSError):
            there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self._to)
            self._writers.append(there_writer)
            for way in (
                self._pass(reader, there_writer, lambda: self.passes and self.passes_there),
                self._pass(there_reader, writer, lambda: self.passes),
            ):
                task = asyncio.create_task(way)
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _pass(
        self, source: asyncio.StreamReader, target: asyncio.StreamWriter, passes: Callable[[], bool]
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(65536):
                if passes():
                    target.write(data)
        target.close()

    def cut(self) -> None:
        """Breaks every connection at once; new ones go through."""
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def close(self) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()


class Link:
    """A server and its members on loopback, with everything that their callbacks were told."""

    def __init__(self, *names: str, lease_s: float = 10.0, secret: Secret = SECRET, **options: Any):
        self.told: list[tuple[Any, ...]] = []
        self._news = asyncio.Event()
        self.lease_s = lease_s
        self.port = 0
        self.members: dict[str, LinkClient] = {}
        self._leaving: list[asyncio.Future[None]] = []
        self.coordinator = LinkServer(
            names,
            secret,
            lease_s,
            on_message=lambda member, message: self.tell("message", member, message),
            on_lost=lambda member, reason: self.tell("lost", member, reason),
            on_left=lambda member, code: self.tell("left", member, code),
            **options,
        )

    def tell(self, *what: Any) -> None:
        self.told.append(what)
        self._news.set()

    async def start(self) -> None:
        self.port = await self.coordinator.start("127.0.0.1", self.port)

    def member(self, name: str, *, port: int | None = None, secret: Secret = SECRET, **options: Any) -> LinkClient:
        def on_end(code: int, cause: str) -> None:
            self.tell("end", name, code, cause)
            self._leaving.append(asyncio.ensure_future(member.leave(code)))

        member = LinkClient(
            name,
            "127.0.0.1",
            self.port if port is None else port,
            secret,
            self.lease_s,
            **{
                "on_message": lambda message: self.tell("heard", name, message),
                "on_end": on_end,
                "on_lease_lost": lambda reason: self.tell("lease lost", name, reason),
                **options,
            },
        )
        self.members[name] = member
        return member

    async def join(self, *names: str, **options: Any) -> None:
        for name in names:
            await self.member(name, **options).join({"name": name}, 10)

    async def until(self, what: str, count: int = 1) -> list[tuple[Any, ...]]:
        """Waits until `what` has been told `count` times."""
        while len(found := [entry for entry in self.told if entry[0] == what]) < count:
            self._news.clear()
            await self._news.wait()
        return found

    async def close(self) -> None:
        for member in self.members.values():
            await member.leave()
        await self.coordinator.close()


@pytest.fixture
def link_of() -> type[Link]:
    """Makes links: `link_of("a", "b", lease_s=0.5)` expects members a and b."""
    return Link


@pytest.fixture
def wire_of() -> type[Wire]:
    """Makes wires: `wire_of()`, then `await wire.start(port)`."""
    return Wire
