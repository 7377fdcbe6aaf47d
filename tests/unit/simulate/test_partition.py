from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tfhet.cluster import HostPaths, Ports, free_ports
from tfhet.simulate.host import SimulatedHost
from tfhet.simulate.process_hosts import Forwarder, Network

pytestmark = pytest.mark.timeout(60)
HOME, LIMIT_S = "127.0.0.1", 20.0
HELD_S = 0.2
"""Time in which data would arrive that is not held."""


def through_a_forwarder(body: Callable[[Forwarder], Awaitable[None]], *, has_server: bool = True) -> None:
    """Runs `body` with a forwarder to a server that returns what it receives."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1000):
            writer.write(data)
        writer.close()

    async def run() -> None:
        port, target = free_ports(2)
        servers = [await asyncio.start_server(echo, HOME, target)] if has_server else []
        forwarder = Forwarder(HOME, port, target)
        await forwarder.start()
        try:
            await asyncio.wait_for(body(forwarder), LIMIT_S)
        finally:
            await forwarder.close()
            for server in servers:
                server.close()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(HOME, port)

    asyncio.run(run())


def test_forwarder_passes_data_and_its_end():
    async def body(forwarder: Forwarder) -> None:
        reader, writer = await asyncio.open_connection(HOME, forwarder.port)
        writer.write(b"x" * 300_000)
        writer.write_eof()
        assert await reader.read() == b"x" * 300_000
        writer.close()

    through_a_forwarder(body)


@pytest.mark.parametrize("there", [None, True, False], ids=["both", "back", "there"])
def test_held_data_arrives_later_in_order(there: bool | None):
    async def body(forwarder: Forwarder) -> None:
        reader, writer = await asyncio.open_connection(HOME, forwarder.port)
        writer.write(b"a")
        assert await reader.readexactly(1) == b"a"
        forwarder.pass_data(there is True, there is False)
        later, to_later = await asyncio.open_connection(HOME, forwarder.port)  # accepted, and held
        to_later.write(b"new")
        writer.write(b"b")
        waits = [asyncio.create_task(one.readexactly(size)) for one, size in ((reader, 1), (later, 3))]
        writer.write(b"c")
        await asyncio.wait(waits, timeout=HELD_S)
        assert not any(wait.done() for wait in waits)
        if there is not None:  # b is on its way back if the direction to the server was open
            forwarder.pass_data(not there, there)
            await asyncio.wait(waits[:1], timeout=LIMIT_S if there else HELD_S)
            assert [wait.done() for wait in waits] == [there, False]
        forwarder.pass_data()
        assert [await wait for wait in waits] == [b"b", b"new"]
        writer.write_eof()
        assert await reader.read() == b"c"

    through_a_forwarder(body)


def test_connection_without_a_server_ends():
    async def body(forwarder: Forwarder) -> None:
        reader, _ = await asyncio.open_connection(HOME, forwarder.port)
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read() == b""

    through_a_forwarder(body, has_server=False)


def hosts() -> list[SimulatedHost]:
    ports, paths = Ports(16000, {"dispatcher": (6000,), "workers": (6001,)}), HostPaths(Path("."))
    given = (("data", (101, 102)), ("dnn", None), ("dnn", (121, 122)))
    return [
        SimulatedHost(f"algo-{n}", group, "ml", f"127.0.0.{n + 2}", ports, 1, paths, ("dispatcher",), True, detour)
        for n, (group, detour) in enumerate(given)
    ]


BOTH, IN, OUT, OPEN = (False, False), (True, False), (False, True), (True, True)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (["+0"], {"algo-0": BOTH, "algo-2": OPEN}),
        (["+1"], {"algo-0": BOTH, "algo-2": BOTH}),
        (["+0", "+1", "-1"], {"algo-0": BOTH, "algo-2": OPEN}),
        (["+0", "+0", "-0"], {"algo-0": BOTH, "algo-2": OPEN}),
        (["+0", "-0"], {"algo-0": OPEN, "algo-2": OPEN}),
        (["+01"], {"algo-0": OPEN, "algo-2": BOTH}),
        (["+01", "-10"], {"algo-0": OPEN, "algo-2": OPEN}),
        (["+0in"], {"algo-0": IN, "algo-2": OPEN}),
        (["+0in", "+0out", "-0in"], {"algo-0": OUT, "algo-2": OPEN}),
        (["+1in"], {"algo-0": OUT, "algo-2": OUT}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_cuts_close_directions_to_the_leader(changes, expected):
    """+0in: cut algo-0 off from receiving. -1: heal algo-1, which is the leader's host."""
    network = Network(hosts(), "dnn")
    for change in changes:
        direction = change.lstrip("+-0123456789")
        names = [f"algo-{digit}" for digit in change[1:] if digit.isdigit()]
        (network.cut if change[0] == "+" else network.heal)(names, direction)
    forwarders = network._forwarders
    assert {name: (f._there.is_set(), f._back.is_set()) for name, some in forwarders.items() for f in some} == expected


def test_host_with_detour_uses_its_ports():
    data, chief, _ = hosts()
    ports = json.loads(data.port_variables["TFHET_PORTS"])
    assert ports == {"control": 101, "dispatcher": 102, "workers": [6001]}
    assert chief.port_variables == chief.ports.to_env(["dispatcher"])
