"""Partitions without root: hosts reach the leader's ports through forwarders, which can stop passing data."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection, Mapping, Sequence

from tfhet.simulate.host import SimulatedHost

_CHUNK_BYTES = 1 << 16
_BACKLOG = 100


class Forwarder:
    """Listens at `address`:`port` and passes every connection on to `address`:`target`.

    While it is dark nothing passes in either direction and nothing is closed; new connections are accepted and held.
    What was sent meanwhile arrives when it passes data again, as TCP promises.
    """

    def __init__(self, address: str, port: int, target: int):
        self.port = port
        self._address = address
        self._target = target
        self._light = asyncio.Event()
        self._light.set()
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Raises OSError when the port is taken."""
        self._server = await asyncio.start_server(self._accepted, self._address, self.port, backlog=_BACKLOG)

    def darken(self) -> None:
        self._light.clear()

    def lighten(self) -> None:
        self._light.set()

    async def close(self) -> None:
        """Ends every connection."""
        if self._server is not None:
            self._server.close()
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers = [writer]
        try:
            await self._light.wait()
            with contextlib.suppress(OSError):
                there, to_there = await asyncio.open_connection(self._address, self._target)
                writers.append(to_there)
                ways = [asyncio.create_task(self._pass(*way)) for way in ((reader, to_there), (there, writer))]
                try:
                    await asyncio.gather(*ways)
                finally:
                    for way in ways:
                        way.cancel()
        finally:
            for each in writers:
                each.transport.abort()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(_CHUNK_BYTES):
            await self._light.wait()
            writer.write(data)
            await writer.drain()
        await self._light.wait()
        if writer.can_write_eof():
            writer.write_eof()


class Network:
    """The ways to the leader's host. `forwarders`: those of each other host that has a detour, by its name."""

    def __init__(self, leader: str, forwarders: Mapping[str, tuple[Forwarder, ...]]):
        self._leader = leader
        self._forwarders = forwarders
        self._cut: list[frozenset[str]] = []

    @classmethod
    def of(cls, hosts: Sequence[SimulatedHost], dnn_group: str) -> Network:
        """With forwarders at the ports of every host's detour."""
        leader = next(host for host in hosts if host.group == dnn_group)
        targets = leader.leader_ports
        return cls(
            leader.name,
            {
                host.name: tuple(
                    Forwarder(leader.address, port, target) for port, target in zip(host.detour, targets, strict=True)
                )
                for host in hosts
                if host.detour is not None
            },
        )

    async def start(self) -> None:
        await asyncio.gather(*(forwarder.start() for some in self._forwarders.values() for forwarder in some))

    async def close(self) -> None:
        await asyncio.gather(*(forwarder.close() for some in self._forwarders.values() for forwarder in some))

    def cut(self, hosts: Collection[str]) -> None:
        """Stops what passes between these hosts and the leader's; if it is one of them, between it and all others."""
        self._cut.append(frozenset(hosts))
        self._apply()

    def heal(self, hosts: Collection[str]) -> None:
        """Takes one `cut` of these back."""
        self._cut.remove(frozenset(hosts))
        self._apply()

    def _apply(self) -> None:
        for host, forwarders in self._forwarders.items():
            dark = any((host in hosts) != (self._leader in hosts) for hosts in self._cut)
            for forwarder in forwarders:
                (forwarder.darken if dark else forwarder.lighten)()
