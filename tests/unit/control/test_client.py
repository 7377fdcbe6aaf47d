from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import time

import pytest
from fake_clock import FakeClock

from tfhet.cluster import free_ports
from tfhet.control import LinkClient, Secret, message
from tfhet.errors import NotReady, UsageError
from tfhet.schema import MessageError

SECRET = Secret.from_text("the secret of these tests")
WRONG = Secret.from_text("another job's secret here")


def client(port: int, **options) -> LinkClient:
    return LinkClient("a", "127.0.0.1", port, SECRET, **options)


async def test_server_may_come_up_later(link_of):
    (port,) = free_ports(1)
    member = client(port)
    joining = asyncio.create_task(member.join({}, 10))
    await asyncio.sleep(0.2)
    assert not joining.done()
    link = await link_of("a", port=port)
    await joining
    await link.coordinator.wait_joined(10)
    await member.leave()


async def test_missing_server_is_named_at_the_deadline():
    (port,) = free_ports(1)
    with pytest.raises(NotReady, match=f"127.0.0.1:{port} .*nothing listens"):
        await client(port).join({}, 0.2)


async def test_impossible_name_is_given_as_the_reason():
    with pytest.raises(NotReady, match="'a..b'"):
        await LinkClient("a", "a..b", 1, SECRET).join({}, 0.2)


def test_hanging_name_service_outlasts_no_deadline_and_no_process():
    code = """
import asyncio, os, socket, time
from tfhet.control import LinkClient, Secret, message
from tfhet.schema import MessageError

def slow(*_):
    time.sleep(3)
    os.write(1, b"answered ")
    return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 9))]

socket.getaddrinfo = slow
try:
    asyncio.run(LinkClient("a", "algo-1", 9, Secret.from_text("the secret of these tests")).join({}, 0.2))
except Exception as error:
    os.write(1, str(error).encode())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.startswith("the leader at algo-1:9 ") and "name service" in done.stdout
    assert done.stderr == ""


async def test_slow_name_service_may_know_vain_addresses(link_of, monkeypatch):
    def slow(host, *_):
        time.sleep(0.3)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (f"127.0.0.{last}", 0)) for last in (9, 1)]

    link = await link_of("a")
    member = LinkClient("a", "algo-1", link.port, SECRET, handshake_s=0.2)
    monkeypatch.setattr(socket, "getaddrinfo", slow)
    await member.join({}, 5.0)
    await member.leave()


async def test_wrong_secret_is_the_reason_given(link_of):
    link = await link_of("a")
    with pytest.raises(NotReady, match="secret"):
        await link.member("a", secret=WRONG).join({}, 1.0)
    assert link.coordinator.missing == {"a"}


async def test_silent_host_is_left_at_the_deadline():
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(NotReady, match="no answer"):
        await client(silent.getsockname()[1], handshake_s=0.1).join({}, 0.3)


async def test_messages_arrive_once_over_broken_connections(wired):
    link, wire = await wired(lease_s=60.0)
    for i in range(200):
        link.members["a"].send({"type": "up", "i": i})
        link.coordinator.send("a", {"type": "down", "i": i})
        if i % 40 == 20:
            wire.cut()
            await asyncio.sleep(0.02)
        elif i % 7 == 0:
            await asyncio.sleep(0.002)
    up, down = await link.until("message", 200), await link.until("heard", 200)
    assert [entry[2]["i"] for entry in up] == [entry[2]["i"] for entry in down] == list(range(200))
    assert wire.connections > 1
    assert not {"lost", "lease lost"} & set(link.kinds())


async def test_member_that_returns_during_the_end_is_told(wired):
    link, wire = await wired()
    wire.passes = False
    ending = asyncio.create_task(link.coordinator.end(5, "over", linger_s=10))
    await asyncio.sleep(0.05)
    wire.passes = True
    wire.cut()
    assert await ending == frozenset()
    assert await link.until("end") == [("end", "a", 5, "over")]


async def test_cut_network_loses_lease_and_member(wired):
    link, wire = await wired(lease_s=0.5)
    wire.passes = False
    ((_, _, here),) = await link.until("lease lost")
    ((_, _, there),) = await link.until("lost")
    # The side that notices first hangs up, and the other one notices that.
    assert "silent for" in here or "within the lease" in here
    assert "silent for" in there or "gone without leaving" in there
    assert link.members["a"].end_reason == "lease lost"


async def test_unheard_member_ends_when_given_up(wired):
    link, wire = await wired(lease_s=0.5)
    wire.passes_there = False
    await link.until("lost")
    ((_, _, reason),) = await link.until("lease lost")
    assert "given it up" in reason
    assert wire.connections == 1  # it did not dial again


async def test_dead_server_is_a_lost_lease_told_once(link_of):
    link = await link_of("a", "b", lease_s=0.5)
    await link.join("a", "b")
    await link.coordinator.close()
    lost = await link.until("lease lost", 2)
    assert {name for _, name, _ in lost} == {"a", "b"}
    await asyncio.sleep(0.3)
    assert len(await link.until("lease lost", 2)) == 2


async def test_member_given_up_does_not_get_back_in(wired):
    link, wire = await wired(lease_s=8.0, grace_s=0.0)
    member = link.members["a"]
    (member._port,) = free_ports(1)  # nothing listens where it dials
    wire.cut()
    await link.until("lost")
    member._port = wire.port
    ((_, _, reason),) = await link.until("lease lost")
    assert "refused to take it back" in reason


async def test_lease_of_the_server_counts(link_of):
    link = await link_of("a", lease_s=3.0)
    link.lease_s = 99.0
    await link.join("a")
    assert link.members["a"].lease_s == 3.0


async def test_after_the_end_no_lease_is_lost(link_of):
    link = await link_of("a", lease_s=0.2)
    await link.join("a", on_end=lambda code, cause: link.tell("end", code))
    await link.coordinator.end(0, "done", linger_s=0.1)
    await link.until("end")
    await asyncio.sleep(0.4)
    assert link.kinds() == ["end"]
    assert link.members["a"].end_reason == "ended"


@pytest.mark.parametrize(
    "line",
    [message.Numbered(2, {"type": "gap"}), message.Alive(1), message.Left(0)],
    ids=["gap", "confirms the unsaid", "left"],
)
async def test_server_that_breaks_the_protocol_is_dialled_again(false_server, line):
    served, twice = [], asyncio.Event()

    async def act(connection):
        connection.write(message.Joined(5.0, 0))
        served.append(connection)
        if len(served) == 1:
            connection.write(line)
        else:
            twice.set()
        try:
            while True:
                await connection.read()
        except MessageError:
            return

    member = client(await false_server(act))
    await member.join({}, 5)
    await twice.wait()
    await member.leave(flush_s=0.0)


async def test_leaving_twice_or_before_joining_is_nothing(link_of):
    await client(1).leave()
    link = await link_of("a")
    await link.join("a")
    await link.members["a"].leave(1)
    await link.members["a"].leave(2)
    assert link.coordinator.left == {"a": 1}
    with pytest.raises(UsageError):
        link.members["a"].send({"type": "late"})
    with pytest.raises(UsageError):
        await link.members["a"].join({}, 1)


async def test_leaving_twice_at_once_is_one_leave(link_of):
    link, begun = await link_of("a"), asyncio.get_running_loop().create_future()

    def on_end(code: int, cause: str) -> None:
        begun.set_result(asyncio.ensure_future(link.members["a"].leave(code)))

    await link.join("a", on_end=on_end)
    ending = asyncio.create_task(link.coordinator.end(3, "over"))
    leaving = await begun
    await link.members["a"].leave(0)
    await leaving
    assert await ending == frozenset()
    assert link.coordinator.left == {"a": 3}


async def test_standstill_of_a_member_does_not_count(link_of):
    clock, link = FakeClock(), await link_of("a", lease_s=1.0)
    await link.join("a", clock=clock)
    clock.sleep(60)  # as if this process had been stopped for a minute
    await asyncio.sleep(0.4)
    assert link.members["a"].end_reason == ""


async def test_failing_observer_costs_nothing(link_of, caplog):
    def full_disk(event):
        raise OSError(28, "No space left on device")

    link = await link_of("a", observer=full_disk)
    await link.join("a")
    await link.coordinator.wait_joined(10)
    await link.coordinator.end(0, "done")
    assert await link.until("end") == [("end", "a", 0, "done")]
    assert "No space left" in caplog.text


async def test_cancelled_join_leaves_nothing():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        joining = asyncio.create_task(client(silent.getsockname()[1]).join({}, 60))
        await asyncio.sleep(0.05)
        joining.cancel()
        with pytest.raises(asyncio.CancelledError):
            await joining


def joined(**told):
    """A server that lets a member in with these fields of its last message."""

    async def act(connection):
        connection.write({"type": "joined", "lease_s": 5.0, "seen": 0, **told})
        while True:
            await connection.read()

    return act


@pytest.mark.parametrize(("told", "ahead_s"), [({"wall_s": 5000.0}, 4000.0), ({"wall_s": 10.5}, -989.5), ({}, None)])
async def test_member_knows_the_clock_of_the_server(false_server, told, ahead_s):
    member = client(await false_server(joined(**told)), clock=FakeClock(1000.0))
    assert member.clock_offset is None
    await member.join({}, 5)
    assert member.clock_offset == (None if ahead_s is None else (ahead_s, 0.0))
    await member.leave(flush_s=0.0)


async def test_too_short_lease_is_not_accepted(false_server):
    with pytest.raises(NotReady, match="`lease_s` is 1e-300"):
        await client(await false_server(joined(lease_s=1e-300))).join({}, 0.3)


async def test_both_ends_agree_on_the_time(link_of):
    link = await link_of("a")
    await link.join("a")
    offset_s, error_s = link.members["a"].clock_offset
    assert abs(offset_s) <= error_s + 1e-3  # one clock; the time of day may be corrected meanwhile


def test_quickest_comparison_of_clocks_counts():
    member = client(1, clock=FakeClock(1000.0))
    for theirs_s, took_s in ((1003.0, 2.0), (1001.5, 1.0), (1009.0, 8.0)):
        member._compare_clocks(theirs_s, took_s)
    assert member.clock_offset == (2.0, 0.5)
