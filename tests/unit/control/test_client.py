from __future__ import annotations

import asyncio
import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from fake_clock import FakeClock

from tfhet.control import LinkClient, Secret, message
from tfhet.control.connection import Connection
from tfhet.control.handshake import admit
from tfhet.errors import NotReady, UsageError
from tfhet.events import Event
from tfhet.schema import MessageError

Run = Callable[[Coroutine[Any, Any, Any]], Any]
SECRET = Secret.from_text("the secret of these tests")
WRONG = Secret.from_text("another job's secret here")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_a_coordinator_may_come_up_later(run: Run, link_of: Any) -> None:
    async def scenario() -> None:
        link = link_of("a")
        link.port = _free_port()
        joining = asyncio.create_task(link.join("a"))
        await asyncio.sleep(0.2)
        assert not joining.done()
        await link.start()
        await joining
        await link.coordinator.wait_joined(10)
        await link.close()

    run(scenario())


def test_a_coordinator_that_never_comes_up_is_named_at_the_deadline(run: Run) -> None:
    async def scenario() -> None:
        port = _free_port()
        member = LinkClient("a", "127.0.0.1", port, SECRET)
        with pytest.raises(NotReady, match=f"127.0.0.1:{port} was not reached within 0.2 s: nothing listens there"):
            await member.join({}, 0.2)
        await member.leave()

    run(scenario())


def test_a_name_service_that_hangs_outlasts_no_deadline_and_keeps_no_process() -> None:
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
    wanted = "the leader at algo-1:9 was not reached within 0.2 s: the name service does not answer"
    assert (done.stdout, done.stderr) == (wanted, "")


def test_a_name_service_may_take_longer_than_a_handshake_and_know_addresses_that_are_vain(
    run: Run, link_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(host: str, *_: object) -> object:
        time.sleep(0.3)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (f"127.0.0.{last}", 0)) for last in (9, 1)]

    async def scenario() -> None:
        link = link_of("a", handshake_s=5)
        await link.start()
        client = LinkClient("a", "algo-1", link.port, SECRET, handshake_s=0.2)
        monkeypatch.setattr(socket, "getaddrinfo", slow)
        await client.join({}, 5.0)
        await client.leave()
        await link.close()

    run(scenario())


def test_another_secret_is_the_reason_given(run: Run, link_of: Any) -> None:
    async def scenario() -> None:
        link = link_of("a")
        await link.start()
        with pytest.raises(NotReady, match="secret the same on both hosts"):
            await link.member("a", secret=WRONG).join({}, 1.0)
        assert link.coordinator.missing == {"a"}
        await link.close()

    run(scenario())


def test_a_host_that_accepts_and_says_nothing_is_left_at_the_deadline(run: Run) -> None:
    async def scenario() -> None:
        with socket.socket() as silent:
            silent.bind(("127.0.0.1", 0))
            silent.listen()
            member = LinkClient("a", "127.0.0.1", silent.getsockname()[1], SECRET, handshake_s=0.1)
            with pytest.raises(NotReady, match="no answer"):
                await member.join({}, 0.3)
            await member.leave()

    run(scenario())


def test_a_false_coordinator_gets_no_member(run: Run) -> None:
    async def scenario() -> None:
        async def false_coordinator(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            connection = Connection(reader, writer)
            connection.write(message.Hello(message.VERSION, "0" * 64))
            await connection.read()
            connection.write(message.Welcome("0" * 64))
            await connection.close()

        server = await asyncio.start_server(false_coordinator, "127.0.0.1", 0)
        member = LinkClient("a", "127.0.0.1", server.sockets[0].getsockname()[1], SECRET)
        with pytest.raises(NotReady, match="does not know the job's secret"):
            await member.join({}, 1.0)
        server.close()
        await server.wait_closed()

    run(scenario())


def test_a_broken_connection_is_mended_and_every_message_arrives_once(run: Run, link_of: Any, wire_of: Any) -> None:
    async def scenario() -> None:
        link, wire = link_of("a", lease_s=60.0), wire_of()
        await link.start()
        await wire.start(link.port)
        await link.join("a", port=wire.port)
        for i in range(200):
            link.members["a"].send({"type": "up", "i": i})
            link.coordinator.send("a", {"type": "down", "i": i})
            if i % 40 == 20:
                wire.cut()
                await asyncio.sleep(0.02)
            elif i % 7 == 0:
                await asyncio.sleep(0.002)
        up, down = await link.until("message", 200), await link.until("heard", 200)
        assert [entry[2]["i"] for entry in up] == list(range(200))
        assert [entry[2]["i"] for entry in down] == list(range(200))
        assert wire.connections > 1
        assert not [entry for entry in link.told if entry[0] in ("lost", "lease lost")]
        await link.close()
        await wire.close()

    run(scenario())


def test_a_member_that_comes_back_during_the_end_is_told(run: Run, link_of: Any, wire_of: Any) -> None:
    async def scenario() -> None:
        link, wire = link_of("a"), wire_of()
        await link.start()
        await wire.start(link.port)
        await link.join("a", port=wire.port)
        wire.passes = False
        ending = asyncio.create_task(link.coordinator.end(5, "over", linger_s=10))
        await asyncio.sleep(0.05)
        wire.passes = True
        wire.cut()
        assert await ending == frozenset()
        assert await link.until("end") == [("end", "a", 5, "over")]
        await link.close()
        await wire.close()

    run(scenario())


def test_a_cut_network_is_a_lost_lease_here_and_a_lost_member_there(run: Run, link_of: Any, wire_of: Any) -> None:
    async def scenario() -> None:
        link, wire = link_of("a", lease_s=0.5), wire_of()
        await link.start()
        await wire.start(link.port)
        await link.join("a", port=wire.port)
        wire.passes = False
        ((_, _, here),) = await link.until("lease lost")
        ((_, _, there),) = await link.until("lost")
        # Whoever notices first hangs up, and the other one notices that.
        assert "the leader was silent for" in here or "was not reached within the lease" in here
        assert "silent for" in there or "gone without leaving" in there
        assert link.members["a"].end_reason == "lease lost"
        await link.close()
        await wire.close()

    run(scenario())


def test_a_member_that_hears_but_is_not_heard_ends_when_it_is_given_up(run: Run, link_of: Any, wire_of: Any) -> None:
    async def scenario() -> None:
        link, wire = link_of("a", lease_s=0.5), wire_of()
        await link.start()
        await wire.start(link.port)
        await link.join("a", port=wire.port)
        wire.passes_there = False
        await link.until("lost")
        ((_, _, reason),) = await link.until("lease lost")
        assert "the leader has given it up: it was lost: silent for" in reason
        assert wire.connections == 1  # it did not dial again
        await link.close()
        await wire.close()

    run(scenario())


def test_a_coordinator_that_dies_is_a_lost_lease(run: Run, link_of: Any) -> None:
    async def scenario() -> None:
        link = link_of("a", "b", lease_s=0.5)
        await link.start()
        await link.join("a", "b")
        await link.coordinator.close()
        lost = await link.until("lease lost", 2)
        assert {name for _, name, _ in lost} == {"a", "b"}
        assert all("was not reached within the lease" in reason for _, _, reason in lost)
        await asyncio.sleep(0.3)
        assert len(await link.until("lease lost", 2)) == 2
        await link.close()

    run(scenario())


def test_a_member_given_up_does_not_get_back_in(run: Run, link_of: Any, wire_of: Any) -> None:
    async def scenario() -> None:
        link, wire = link_of("a", lease_s=8.0, grace_s=0.0), wire_of()
        await link.start()
        await wire.start(link.port)
        await link.join("a", port=wire.port)
        member = link.members["a"]
        member._port = _free_port()  # nothing listens where it dials
        wire.cut()
        await link.until("lost")
        member._port = wire.port
        ((_, _, reason),) = await link.until("lease lost")
        assert "refused to take it back: it was lost" in reason
        await link.close()
        await wire.close()

    run(scenario())


def test_the_coordinators_lease_counts(run: Run, link_of: Any) -> None:
    async def scenario() -> None:
        link = link_of("a", lease_s=3.0)
        await link.start()
        link.lease_s = 99.0
        await link.join("a")
        assert link.members["a"].lease_s == 3.0
        await link.close()

    run(scenario())


def test_after_the_end_no_lease_is_lost(run: Run, link_of: Any) -> None:
    async def scenario() -> None:
        link = link_of("a", lease_s=0.2)
        await link.start()
        await link.join("a", on_end=lambda code, cause: link.tell("end", code))
        await link.coordinator.end(0, "done", linger_s=0.1)
        await link.until("end")
        await asyncio.sleep(0.4)
        assert [entry[0] for entry in link.told] == ["end"]
        assert link.members["a"].end_reason == "ended"
        await link.close()

    run(scenario())


@pytest.mark.parametrize(
    "line",
    [message.Numbered(2, {"type": "gap"}), message.Alive(1), message.Left(0)],
    ids=["gap", "confirms the unsaid", "left"],
)
def test_a_coordinator_that_breaks_the_protocol_is_dialled_again(run: Run, line: Any) -> None:
    async def scenario() -> None:
        served, twice = 0, asyncio.Event()

        async def odd_coordinator(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal served
            connection = Connection(reader, writer)
            try:
                await admit(connection, SECRET, lambda name, instance: None)
                connection.write(message.Joined(5.0, 0))
                served += 1
                if served == 1:
                    connection.write(line)
                else:
                    twice.set()
                while True:
                    await connection.read()
            except (ConnectionError, MessageError):
                await connection.close()

        server = await asyncio.start_server(odd_coordinator, "127.0.0.1", 0)
        member = LinkClient("a", "127.0.0.1", server.sockets[0].getsockname()[1], SECRET)
        await member.join({}, 5)
        await twice.wait()
        await member.leave(flush_s=0.0)
        server.close()
        await server.wait_closed()

    run(scenario())


def test_leaving_twice_or_without_having_joined_is_nothing(run: Run, link_of: Any) -> None:
    async def scenario() -> None:
        await LinkClient("a", "127.0.0.1", 1, SECRET).leave()
        link = link_of("a")
        await link.start()
        await link.join("a")
        await link.members["a"].leave(1)
        await link.members["a"].leave(2)
        assert link.coordinator.left == {"a": 1}
        with pytest.raises(UsageError, match="between join and leave"):
            link.members["a"].send({"type": "late"})
        with pytest.raises(UsageError, match="has joined already"):
            await link.members["a"].join({}, 1)
        await link.close()

    run(scenario())


def test_leaving_from_the_callback_and_from_outside_at_once_is_one_leave(run: Run, link_of: Any) -> None:
    async def scenario() -> None:
        link, begun = link_of("a"), asyncio.get_running_loop().create_future()

        def on_end(code: int, cause: str) -> None:
            begun.set_result(asyncio.ensure_future(link.members["a"].leave(code)))

        await link.start()
        await link.join("a", on_end=on_end)
        ending = asyncio.create_task(link.coordinator.end(3, "over"))
        leaving = await begun
        await link.members["a"].leave(0)
        await leaving
        assert await ending == frozenset()
        assert link.coordinator.left == {"a": 3}
        await link.close()

    run(scenario())


def test_time_that_a_member_stood_still_does_not_count(run: Run, link_of: Any) -> None:
    async def scenario() -> None:
        clock = FakeClock()
        link = link_of("a", lease_s=1.0)
        await link.start()
        await link.join("a", clock=clock)
        clock.sleep(60)  # as if this process had been stopped for a minute
        await asyncio.sleep(0.4)
        assert link.members["a"].end_reason == ""
        await link.close()

    run(scenario())


def test_a_failing_observer_costs_nothing(run: Run, link_of: Any, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        def full_disk(event: Event) -> None:
            raise OSError(28, "No space left on device")

        link = link_of("a", observer=full_disk)
        await link.start()
        await link.join("a")
        await link.coordinator.wait_joined(10)
        await link.coordinator.end(0, "done")
        assert await link.until("end") == [("end", "a", 0, "done")]
        await link.close()

    run(scenario())
    assert "the observer failed" in caplog.text


def test_a_join_that_is_cancelled_leaves_nothing(run: Run) -> None:
    async def scenario() -> None:
        with socket.socket() as silent:
            silent.bind(("127.0.0.1", 0))
            silent.listen()
            joining = asyncio.create_task(LinkClient("a", "127.0.0.1", silent.getsockname()[1], SECRET).join({}, 60))
            await asyncio.sleep(0.05)
            joining.cancel()
            with pytest.raises(asyncio.CancelledError):
                await joining

    run(scenario())


def test_a_lease_in_which_nothing_could_be_renewed_is_not_taken(run: Run) -> None:
    async def scenario() -> None:
        async def hasty_coordinator(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            connection = Connection(reader, writer)
            with contextlib.suppress(ConnectionError):
                await admit(connection, SECRET, lambda name, instance: None)
                connection.write(message.Joined(1e-300, 0))
                await connection.read()
            await connection.close()

        server = await asyncio.start_server(hasty_coordinator, "127.0.0.1", 0)
        member = LinkClient("a", "127.0.0.1", server.sockets[0].getsockname()[1], SECRET)
        with pytest.raises(NotReady, match="`lease_s` is 1e-300"):
            await member.join({}, 0.3)
        await member.leave()
        server.close()
        await server.wait_closed()

    run(scenario())


@pytest.mark.parametrize(
    ("told", "ahead_s"),
    [({"wall_s": 5000.0}, 4000.0), ({"wall_s": 10.5}, -989.5), ({}, None)],
)
def test_a_member_knows_how_far_the_coordinators_clock_is_ahead(
    run: Run, told: dict[str, Any], ahead_s: float | None
) -> None:
    async def scenario() -> None:
        async def coordinator(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            connection = Connection(reader, writer)
            with contextlib.suppress(ConnectionError):
                await admit(connection, SECRET, lambda name, instance: None)
                connection.write({"type": "joined", "lease_s": 5.0, "seen": 0, **told})
                while True:
                    await connection.read()
            await connection.close()

        server = await asyncio.start_server(coordinator, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        member = LinkClient("a", "127.0.0.1", port, SECRET, clock=FakeClock(1000.0))
        assert member.clock_offset is None
        await member.join({}, 5)
        assert member.clock_offset == (None if ahead_s is None else (ahead_s, 0.0))
        await member.leave(flush_s=0.0)
        server.close()
        await server.wait_closed()

    run(scenario())


def test_both_ends_of_a_link_agree_on_the_time(run: Run, link_of: Any) -> None:
    async def scenario() -> None:
        link = link_of("a")
        await link.start()
        await link.join("a")
        offset_s, error_s = link.members["a"].clock_offset
        assert abs(offset_s) <= error_s + 1e-3  # one clock; the time of day may be put right meanwhile
        await link.close()

    run(scenario())


def test_of_several_comparisons_of_the_clocks_the_quickest_counts() -> None:
    member = LinkClient("a", "127.0.0.1", 1, SECRET, clock=FakeClock(1000.0))
    for theirs_s, took_s in ((1003.0, 2.0), (1001.5, 1.0), (1009.0, 8.0)):
        member._compare_clocks(theirs_s, took_s)
    assert member.clock_offset == (2.0, 0.5)
