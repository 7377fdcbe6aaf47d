from __future__ import annotations

import asyncio
import socket
from itertools import pairwise

import pytest
from fake_clock import FakeClock

from tfhet.control import LinkServer, Secret, message as messages
from tfhet.control.connection import Refused
from tfhet.control.lease import Standstill, beats
from tfhet.errors import ClusterError, NotReady, UsageError
from tfhet.schema import MessageError

SECRET = Secret.from_text("the secret of these tests")
WRONG = Secret.from_text("another job's secret here")


async def test_members_join_with_their_facts(link_of):
    link = await link_of("a", "b/rank1")
    assert link.coordinator.missing == {"a", "b/rank1"}
    joined = asyncio.create_task(link.coordinator.wait_joined(10))
    await link.join("a", "b/rank1")
    await joined
    assert link.coordinator.facts == {"a": {"name": "a"}, "b/rank1": {"name": "b/rank1"}}
    assert link.coordinator.here == {"a", "b/rank1"}


async def test_job_of_one_launcher_waits_for_none(link_of):
    link = await link_of()
    await link.coordinator.wait_joined(10)
    assert await link.coordinator.end(0, "done") == frozenset()


async def test_missing_members_are_named_at_the_deadline(link_of):
    link = await link_of("a", "b", "c")
    await link.join("b")
    with pytest.raises(NotReady, match="missing a, c; there: b"):
        await link.coordinator.wait_joined(0.05)


async def test_code_out_of_range_ends_as_failure(link_of):
    link = await link_of("a")
    await link.join("a")
    await link.coordinator.end(256, "odd")
    assert await link.until("end") == [("end", "a", 1, "odd")]


async def test_wait_for_members_names_dropped_connections(link_of):
    link = await link_of("a")
    joining = asyncio.create_task(link.member("a", secret=WRONG).join({}, 10))
    while link.coordinator._listener.drops == 0:
        await asyncio.sleep(0.01)
    joining.cancel()
    with pytest.raises(NotReady, match="127.0.0.1:.*: wrong secret"):
        await link.coordinator.wait_joined(0.05)


async def test_wait_for_members_ends_with_the_job(link_of):
    link = await link_of("a")
    waiting = asyncio.create_task(link.coordinator.wait_joined(10))
    await asyncio.sleep(0)
    await link.coordinator.end(3, "rank 0 failed", linger_s=0.05)
    with pytest.raises(NotReady, match=r"\(rank 0 failed\): missing a"):
        await waiting


async def test_wait_for_members_ends_with_a_loss(link_of):
    link = await link_of("a", "b", lease_s=0.4)
    waiting = asyncio.create_task(link.coordinator.wait_joined(10))
    (await link.raw("a")).abort()
    with pytest.raises(NotReady, match="a: gone without leaving"):
        await waiting


async def test_messages_go_both_ways_in_order(link_of):
    link = await link_of("a", "b")
    await link.join("a", "b")
    for i in range(50):
        link.members["a"].send({"type": "count", "i": i})
        link.coordinator.broadcast({"type": "all", "i": i})
    link.coordinator.send("b", {"type": "one"})
    got = await link.until("message", 50)
    heard = await link.until("heard", 101)
    assert [entry[2]["i"] for entry in got] == list(range(50))
    assert [e[2] for e in heard if e[1] == "a"] == [{"type": "all", "i": i} for i in range(50)]
    assert [e[2] for e in heard if e[1] == "b"][-1] == {"type": "one"}


async def test_unsendable_messages_are_refused_to_the_sender(link_of):
    link = await link_of("a", "b")
    await link.join("a")
    link.coordinator.send("b", {"type": "before it has joined"})
    with pytest.raises(UsageError, match="'c'.*a, b"):
        link.coordinator.send("c", {"type": "x"})
    with pytest.raises(MessageError):
        link.coordinator.broadcast({"type": "x", "text": "x" * 70_000})


async def test_end_reaches_every_member_with_its_cause(link_of):
    names = [f"host-{n}" for n in range(8)]
    link = await link_of(*names)
    await link.join(*names)
    await link.coordinator.wait_joined(10)
    assert await link.coordinator.end(3, "rank 1 exited with 3") == frozenset()
    assert link.coordinator.left == dict.fromkeys(names, 3)
    assert sorted(await link.until("end", 8)) == [("end", name, 3, "rank 1 exited with 3") for name in names]
    assert not {"lost", "lease lost"} & set(link.kinds())


async def test_members_that_stay_are_named_after_the_linger(link_of):
    link = await link_of("a", "b")
    await link.join("a")
    await link.raw("b")
    assert await link.coordinator.end(0, "done", linger_s=0.2) == {"b"}


async def test_first_end_counts(link_of):
    link = await link_of("a")
    await link.join("a")
    await asyncio.gather(link.coordinator.end(3, "first"), link.coordinator.end(0, "second"))
    await link.coordinator.end(0, "third")
    assert await link.until("end") == [("end", "a", 3, "first")]


async def test_member_that_joins_during_the_end_is_told(link_of):
    link = await link_of("a", "b")
    raw = await link.raw("a")
    ending = asyncio.create_task(link.coordinator.end(4, "over", linger_s=5))
    await asyncio.sleep(0)
    await link.join("b")
    assert await link.until("end") == [("end", "b", 4, "over")]
    raw.write(messages.Left(4))
    assert await ending == frozenset()


async def test_callback_may_end_the_job(link_of):
    ended = asyncio.get_running_loop().create_future()

    def on_lost(member, reason):
        ended.set_result(asyncio.ensure_future(link.coordinator.end(1, f"{member}: {reason}")))

    link = await link_of("a", "b", lease_s=0.4)
    link.coordinator._on_lost = on_lost
    await link.join("b")
    (await link.raw("a")).abort()
    await (await ended)
    ((_, name, code, cause),) = await link.until("end")
    assert (name, code) == ("b", 1) and cause.startswith("a: gone without leaving")


async def test_member_that_leaves_is_not_lost(link_of):
    link = await link_of("a", lease_s=0.2)
    await link.join("a")
    await link.members["a"].leave(7)
    await asyncio.sleep(0.4)
    assert link.told == [("left", "a", 7)]
    assert link.coordinator.left == {"a": 7}


async def test_closed_connection_is_a_loss_told_once(link_of):
    events = []
    link = await link_of("a", lease_s=0.4, observer=events.append)
    (await link.raw("a")).abort()
    ((_, name, reason),) = await link.until("lost")
    assert name == "a" and "gone without leaving" in reason
    await asyncio.sleep(0.5)
    assert len(await link.until("lost")) == 1
    assert link.coordinator.lost == {"a": reason}
    assert [event.name for event in events] == ["link.member_joined", "link.member_lost"]
    with pytest.raises(Refused, match="gone without leaving"):
        await link.raw("a")


async def test_silent_member_is_lost_after_its_lease(link_of):
    link = await link_of("a", "b", lease_s=0.4)
    await link.join("b")
    raw = await link.raw("a")
    ((_, name, reason),) = await link.until("lost")
    assert name == "a" and "silent for" in reason
    while isinstance(message := await raw.read(), messages.Alive):
        pass
    assert message == messages.Refused(f"it was lost: {reason}")
    with pytest.raises(ConnectionError):
        await raw.read()
    assert link.coordinator.here == {"b"}


@pytest.mark.parametrize("still_s", [0.9, 1.2, 60.0])
async def test_standstill_of_the_server_does_not_count(link_of, still_s):
    clock = FakeClock()
    link = await link_of("a", "b", lease_s=1.0, clock=clock)
    await link.join("a")  # renews in real time
    raw = await link.raw("b")
    await asyncio.sleep(0.1)
    clock.sleep(still_s)  # as if this process had been stopped
    raw.write(messages.Alive(0))  # its renewals are in the socket
    await asyncio.sleep(0.4)
    assert link.coordinator.lost == {}
    while not link.coordinator.lost:
        clock.sleep(0.05)
        await asyncio.sleep(0.05)
    # The silent member is lost one lease after that, however long the standstill was.
    assert clock.monotonic() < still_s + 3
    assert set(link.coordinator.lost) == {"b"}
    assert link.coordinator.lost["b"].startswith("the leader stood still" if still_s > 1 else "silent for")


async def test_leases_are_confirmed_after_a_standstill_only(link_of):
    clock = FakeClock()
    link = await link_of("a", "b", lease_s=1.0, clock=clock)
    await link.join("a")
    raw = await link.raw("b")
    link.coordinator.confirm({"type": "confirm"}, lambda: link.tell("confirmed"))
    assert link.told == [("confirmed",)]
    clock.sleep(1.2)  # as if this process had been stopped
    link.coordinator.confirm({"type": "confirm"}, lambda: link.tell("confirmed"))
    await link.until("heard")  # by a
    assert len(link.told) == 2
    await raw.close()  # b lost its lease meanwhile
    while not link.coordinator.lost:
        clock.sleep(0.05)
        await asyncio.sleep(0.05)
    await link.until("confirmed", 2)
    assert [entry[:2] for entry in link.told[2:]] == [("lost", "b"), ("confirmed",)]


async def test_renewals_outlive_a_standstill_of_the_peer():
    """A peer may stand still for nine tenths of a lease."""
    clock, renewals = FakeClock(), []
    async for now_s, _ in beats(lambda: 0.2, clock, lambda: renewals.append(clock.monotonic()), 0.0):
        clock.sleep(0.01)
        if now_s > 0.2:
            break
    assert max(later - earlier for earlier, later in pairwise(renewals)) < 0.1 * 0.2


async def test_member_that_does_not_read_is_lost_alone(link_of):
    link = await link_of("a", "b")
    await link.join("b")
    raw = await link.raw("a")
    for i in range(100):
        link.coordinator.broadcast({"type": "much", "i": i, "text": "x" * 60_000})
        while link.members["b"]._outbox.seen <= i:
            await asyncio.sleep(0)
        # It confirms with its renewals, which come too seldom for this test.
        link.members["b"]._connection.write(messages.Alive(i + 1))
    heard = await link.until("heard", 100)
    assert [entry[2]["i"] for entry in heard] == list(range(100))
    ((_, name, _),) = await link.until("lost")
    assert name == "a"
    raw.abort()


async def test_second_process_of_a_name_is_refused(link_of):
    link = await link_of("a")
    await link.join("a")
    with pytest.raises(Refused, match="another process"):
        await link.raw("a", "other")
    first = link.members["a"]
    with pytest.raises(ClusterError, match="refused 'a': another process"):
        await link.join("a")
    first.send({"type": "still here"})
    assert await link.until("message") == [("message", "a", {"type": "still here"})]
    await first.leave()


async def test_unexpected_name_is_refused(link_of):
    link = await link_of("a")
    with pytest.raises(ClusterError, match="refused 'b'.*members: a"):
        await link.join("b")


@pytest.mark.parametrize(
    "line",
    [messages.Numbered(2, {"type": "gap"}), messages.Alive(1), messages.End(0, "not its part"), messages.Joined(1, 0)],
    ids=["gap", "confirms the unsaid", "end", "joined"],
)
async def test_member_that_breaks_the_protocol_is_lost(link_of, line):
    link = await link_of("a", "b", lease_s=0.4)
    await link.join("b")
    (await link.raw("a")).write(line)
    await link.until("lost")
    assert set(link.coordinator.lost) == {"a"}


async def test_busy_port_is_named():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        server = LinkServer(["a"], SECRET)
        with pytest.raises(UsageError, match=f"port {port} at 127.0.0.1.*process"):
            await server.start("127.0.0.1", port)
        await server.close()


def test_lease_must_be_positive():
    with pytest.raises(UsageError, match="lease_s"):
        LinkServer([], SECRET, 0)


async def test_closing_twice_or_before_the_start_is_nothing(link_of):
    await LinkServer(["a"], SECRET).close()
    link = await link_of("a")
    await link.close()


@pytest.mark.parametrize(
    ("stood_still_s", "later_s", "is_recent"),
    [(0.0, 0.0, False), (3.5, 0.0, False), (3.7, 0.0, True), (11.0, 7.9, True), (11.0, 8.1, False)],
)
def test_standstill_of_almost_a_lease_counts_for_two(stood_still_s, later_s, is_recent):
    standstill = Standstill(4.0, 100.0)
    standstill.observe(120.0, stood_still_s)
    standstill.observe(120.0 + later_s, 0.0)
    assert standstill.is_recent(120.0 + later_s) is is_recent


def test_standstill_is_found_before_the_next_beat():
    standstill = Standstill(4.0, 100.0)
    assert not standstill.is_unnoticed(103.5)
    assert standstill.is_unnoticed(111.0)
    standstill.observe(111.0, 10.8)
    assert not standstill.is_unnoticed(111.0)
    assert standstill.is_recent(111.0)
