"""Tests as coroutines that may leave no task and no socket, links on loopback, and a wire that can be cut."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import inspect
import socket
from collections.abc import Awaitable, Callable

import pytest
from sockets import check_left, open_sockets

from tfhet.control import LinkClient, LinkServer, Secret
from tfhet.control.connection import Connection
from tfhet.control.message import Join, Joined
from tfhet.secure import Purpose, as_server, perform_handshake_async

SECRET = Secret.from_text("the secret of these tests")
DEADLINE_S = 20.0
"""Seconds for a whole test."""
_closers: list[Callable[[], Awaitable[None]]] = []
"""The ends of what the running test has opened, in order."""


def pytest_pyfunc_call(pyfuncitem):
    """Runs a coroutine in a fresh loop, closes what it has opened, and checks that nothing is left."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    gc.collect()  # sockets that an earlier test left to the collector would close meanwhile
    before = open_sockets()
    given = {name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters}

    async def main() -> None:
        complaints: list[str] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(str(context)))
        _closers.clear()
        try:
            await asyncio.wait_for(pyfuncitem.obj(**given), DEADLINE_S)
        finally:
            for close in _closers:
                await close()
        for _ in range(3):  # a closed transport lets go of its socket one turn later
            await asyncio.sleep(0)
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        assert not tasks, f"left running: {tasks}"
        gc.collect()
        assert not complaints

    asyncio.run(main())
    check_left(before)
    return True


class Wire:
    """Passes bytes between a port of its own and another one, until told not to."""

    def __init__(self) -> None:
        self.port = 0
        self.connections = 0
        self.passes = True
        self.passes_there = True
        """Whether the bytes of the dialling side are passed on, too."""
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
        self._server.close()
        self.cut()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()


class Link:
    """A server and its members on loopback, with everything that their callbacks were told."""

    def __init__(self, *names: str, lease_s: float = 10.0, port: int = 0, **options):
        self.told: list[tuple] = []
        self._news = asyncio.Event()
        self.lease_s = lease_s
        self.port = port
        self.members: dict[str, LinkClient] = {}
        self._leaving: list[asyncio.Future[None]] = []
        self._raw: list[Connection] = []
        self.coordinator = LinkServer(
            names,
            SECRET,
            lease_s,
            on_message=lambda member, message: self.tell("message", member, message),
            on_lost=lambda member, reason: self.tell("lost", member, reason),
            on_left=lambda member, code: self.tell("left", member, code),
            **options,
        )

    def tell(self, *what) -> None:
        self.told.append(what)
        self._news.set()

    def kinds(self) -> list[str]:
        return [entry[0] for entry in self.told]

    async def start(self) -> None:
        self.port = await self.coordinator.start("127.0.0.1", self.port)

    def member(self, name: str, *, port: int | None = None, secret: Secret = SECRET, **options) -> LinkClient:
        def on_end(code: int, cause: str) -> None:
            self.tell("end", name, code, cause)
            self._leaving.append(asyncio.ensure_future(member.leave(code)))

        callbacks = {
            "on_message": lambda message: self.tell("heard", name, message),
            "on_end": on_end,
            "on_lease_lost": lambda reason: self.tell("lease lost", name, reason),
        }
        at = self.port if port is None else port
        member = LinkClient(name, "127.0.0.1", at, secret, self.lease_s, **{**callbacks, **options})
        self.members[name] = member
        return member

    async def join(self, *names: str, **options) -> None:
        for name in names:
            await self.member(name, **options).join({"name": name}, 10)

    async def raw(self, name: str, instance: str = "raw") -> Connection:
        """The connection of a member that has joined and does nothing more."""
        self._raw.append(await Connection.dial("127.0.0.1", self.port, SECRET.key))
        self._raw[-1].write(Join(name, instance, {}, 0))
        await self._raw[-1].expect(Joined)
        return self._raw[-1]

    async def until(self, what: str, count: int = 1) -> list[tuple]:
        """Waits until `what` has been told `count` times."""
        while len(found := [entry for entry in self.told if entry[0] == what]) < count:
            self._news.clear()
            await self._news.wait()
        return found

    async def close(self) -> None:
        for member in self.members.values():
            await member.leave()
        await self.coordinator.close()
        for connection in self._raw:
            await connection.close()


@pytest.fixture
def link_of():
    """`await link_of("a", "b", lease_s=0.5)`: a started link, which expects members a and b."""

    async def make(*names: str, **options) -> Link:
        link = Link(*names, **options)
        _closers.append(link.close)
        await link.start()
        return link

    return make


@pytest.fixture
def wired(link_of):
    """`await wired(lease_s=0.5)`: a link whose member a has joined over a wire, and the wire."""

    async def make(**options) -> tuple[Link, Wire]:
        link, wire = await link_of("a", **options), Wire()
        _closers.append(wire.close)
        await wire.start(link.port)
        await link.join("a", port=wire.port)
        return link, wire

    return make


@pytest.fixture
def false_server():
    """`await false_server(act)`: the port of a server with the secret that calls `act(connection)` for each member that
    asks to join."""

    async def make(act: Callable[[Connection], Awaitable[None]]) -> int:
        listener = socket.create_server(("127.0.0.1", 0))
        listener.setblocking(False)
        tasks: list[asyncio.Task[None]] = []
        ends = [listener]

        async def serve(end: socket.socket) -> None:
            with contextlib.suppress(OSError):
                records = await perform_handshake_async(end, as_server(SECRET.key, {Purpose.LINK}))
                connection = await Connection.take(end, records)
                try:
                    await connection.expect(Join)
                    await act(connection)
                finally:
                    await connection.close()

        async def accept() -> None:
            while True:
                end, _ = await asyncio.get_running_loop().sock_accept(listener)
                ends.append(end)
                tasks.append(asyncio.create_task(serve(end)))

        async def close() -> None:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for end in ends:
                end.close()

        tasks.append(asyncio.create_task(accept()))
        _closers.append(close)
        port: int = listener.getsockname()[1]
        return port

    return make
