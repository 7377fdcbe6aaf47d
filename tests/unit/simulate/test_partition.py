from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tfhet.cluster import HostPaths, Ports, free_ports
from tfhet.simulate.host import SimulatedHost
from tfhet.simulate.process_hosts import Forwarder, Network

pytestmark = pytest.mark.timeout(60)
HOME = "127.0.0.1"
LIMIT_S = 20.0


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1000):
        writer.write(data)
    writer.close()


def through_a_forwarder(body: Callable[[Forwarder], Awaitable[None]]) -> None:
    """Runs `body` with a forwarder to a server that sends back what it gets."""

    async def run() -> None:
        port, target = free_ports(2)
        server = await asyncio.start_server(_echo, HOME, target)
        forwarder = Forwarder(HOME, port, target)
        await forwarder.start()
        try:
            await asyncio.wait_for(body(forwarder), LIMIT_S)
        finally:
            await forwarder.close()
            server.close()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(HOME, port)

    asyncio.run(run())


def test_what_is_sent_arrives_and_the_end_too():
    async def body(forwarder: Forwarder) -> None:
        reader, writer = await asyncio.open_connection(HOME, forwarder.port)
        writer.write(b"x" * 300_000)
        writer.write_eof()
        assert await reader.read() == b"x" * 300_000
        writer.close()

    through_a_forwarder(body)


def test_in_the_dark_nothing_passes_and_nothing_is_closed_and_all_arrives_afterwards_in_order():
    async def body(forwarder: Forwarder) -> None:
        reader, writer = await asyncio.open_connection(HOME, forwarder.port)
        writer.write(b"a")
        assert await reader.readexactly(1) == b"a"
        forwarder.pass_data(False, False)
        later, to_later = await asyncio.open_connection(HOME, forwarder.port)  # taken, and held
        to_later.write(b"new")
        writer.write(b"b")
        waits = [asyncio.create_task(one.read(1)) for one in (reader, later)]
        writer.write(b"c")
        await asyncio.wait(waits, timeout=0.5)
        assert not any(wait.done() for wait in waits)
        forwarder.pass_data()
        assert [await wait for wait in waits] == [b"b", b"n"]
        assert await reader.readexactly(1) == b"c"
        assert await later.readexactly(2) == b"ew"

    through_a_forwarder(body)


@pytest.mark.parametrize("there", [True, False])
def test_one_way_may_be_in_the_dark_alone(there: bool):
    async def body(forwarder: Forwarder) -> None:
        reader, writer = await asyncio.open_connection(HOME, forwarder.port)
        writer.write(b"a")
        assert await reader.readexactly(1) == b"a"
        forwarder.pass_data(there, not there)
        later, to_later = await asyncio.open_connection(HOME, forwarder.port)
        to_later.write(b"n")
        writer.write(b"b")
        wait, new = asyncio.create_task(reader.read(1)), asyncio.create_task(later.read(1))
        await asyncio.wait([wait, new], timeout=0.3)
        assert not wait.done() and not new.done()
        forwarder.pass_data(not there, there)  # b arrives, unless it was held on its way there, and is on its way back
        await asyncio.wait([wait], timeout=0.3 if not there else LIMIT_S)
        assert wait.done() == there and not new.done()
        forwarder.pass_data()
        assert await wait == b"b" and await new == b"n"

    through_a_forwarder(body)


def test_who_goes_in_the_dark_is_seen_to_go_in_the_light():
    async def body(forwarder: Forwarder) -> None:
        reader, writer = await asyncio.open_connection(HOME, forwarder.port)
        forwarder.pass_data(False, False)
        writer.write(b"last")
        writer.write_eof()
        wait = asyncio.create_task(reader.read())
        await asyncio.wait([wait], timeout=0.2)
        assert not wait.done()
        forwarder.pass_data()
        assert await wait == b"last"

    through_a_forwarder(body)


def test_a_connection_to_where_nobody_listens_is_ended():
    async def run() -> None:
        port, target = free_ports(2)
        forwarder = Forwarder(HOME, port, target)
        await forwarder.start()
        reader, _ = await asyncio.open_connection(HOME, port)
        try:
            assert await asyncio.wait_for(reader.read(), LIMIT_S) == b""
        except ConnectionResetError:
            pass
        finally:
            await forwarder.close()

    asyncio.run(run())


def hosts() -> list[SimulatedHost]:
    made = []
    for index, group in enumerate(("data", "dnn", "dnn")):
        detour = None if index == 1 else (101 + 10 * index, 102 + 10 * index)
        ports, paths = Ports(16000, {"dispatcher": (6000,), "workers": (6001,)}), HostPaths(Path("."))
        name, address = f"algo-{index}", f"127.0.0.{index + 2}"
        made.append(SimulatedHost(name, group, "ml", address, ports, 1, paths, ("dispatcher",), True, detour))
    return made


def dark(network: Network) -> set[str]:
    return {host for host, pair in ways(network).items() if pair != (True, True)}


def test_a_host_alone_or_with_the_chiefs_host_all_are_cut_off():
    network = Network(hosts(), "dnn")
    network.cut(["algo-0"])
    assert dark(network) == {"algo-0"}
    network.cut(["algo-1"])
    assert dark(network) == {"algo-0", "algo-2"}
    network.heal(["algo-1"])
    assert dark(network) == {"algo-0"}
    network.cut(["algo-0"])
    network.heal(["algo-0"])
    assert dark(network) == {"algo-0"}  # two partitions, one of which is over
    network.heal(["algo-0"])
    assert dark(network) == set()


def test_hosts_that_are_cut_off_together_with_the_chiefs_still_reach_it():
    network = Network(hosts(), "dnn")
    network.cut(["algo-0", "algo-1"])
    assert dark(network) == {"algo-2"}
    network.heal(["algo-1", "algo-0"])
    assert dark(network) == set()


def ways(network: Network) -> dict[str, tuple[bool, bool]]:
    return {
        host: (one._there.is_set(), one._back.is_set()) for host, some in network._forwarders.items() for one in some
    }


def test_a_cut_of_one_way_holds_what_goes_in_or_what_goes_out():
    network = Network(hosts(), "dnn")
    network.cut(["algo-0"], "in")
    assert ways(network) == {"algo-0": (True, False), "algo-2": (True, True)}
    network.cut(["algo-0"], "out")
    network.heal(["algo-0"], "in")
    assert ways(network) == {"algo-0": (False, True), "algo-2": (True, True)}
    network.heal(["algo-0"], "out")
    network.cut(["algo-1"], "in")  # the leader's host: what the others send it
    assert ways(network) == {"algo-0": (False, True), "algo-2": (False, True)}


def test_a_host_with_a_detour_is_given_its_ports():
    data, chief, other = hosts()
    assert json.loads(data.sees["TFHET_PORTS"]) == {"control": 101, "dispatcher": 102, "workers": [6001]}
    assert chief.sees == chief.ports.to_env(["dispatcher"])
    forwarders = Network([data, chief, other], "dnn")._forwarders
    assert set(forwarders) == {"algo-0", "algo-2"}
    assert [one.port for one in forwarders["algo-2"]] == [121, 122]
    assert [(one._address, one._target) for one in forwarders["algo-2"]] == [("127.0.0.3", 16000), ("127.0.0.3", 6000)]
