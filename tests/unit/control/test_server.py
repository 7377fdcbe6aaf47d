from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine
from itertools import pairwise
from typing import Any

import pytest
from fake_clock import FakeClock

from tfhet.control import LinkServer, Secret, message as messages
from tfhet.control.connection import Connection
from tfhet.control.handshake import JoinRequest, Refused, introduce
from tfhet.control.lease import beats
from tfhet.errors import ClusterError, NotReady, UsageError
from tfhet.events import Event
from tfhet.schema import MessageError

Run = Callable[[Coroutine[Any, Any, Any]], Any]
SECRET = Secret.from_text("the secret of these tests")
WRONG = Secret.from_text("another job's secret here")


async def _raw(link: Any, name: str, instance: str = "raw") -> Connection:
    """A member that has joined and does nothing by itself."""
    connection = await Connection.dial("127.0.0.1", link.port)
    await introduce(connection, SECRET, JoinRequest(name, instance, {}, 0))
    return connection


def test_members_join_with_their_facts(run: Run, link_of: Any) -> None:
    async def scenario() -> None:
        link = link_of("a", "b/rank1")
        await link.start()
        assert link.coordinator.missing == {"a", "b/rank1"}
        joined = asyncio.create_task(link.coordinator.wait_joined(10))
        await link.join("a", "b/rank1")
        await joined
        assert link.coordinator.facts == {"a": {"name": "a"}, "b/rank1": {"name": "b/rank1"}}
        assert link.coordinator.here == {"a", "b/rank1"}
        await link.close()

    run(scenario())


def test_nobody_expected_is_everybody_there(run: Run, link_of: Any) -> None:
    async def scenario() -> None:
        link = link_of()
        await link.start()
        await link.coordinator.wait_joined(10)
        assert await link.coordinator.end(0, "done") == frozenset()

    run(scenario())


def test_missing_members_are_named_at_the_deadline(run: Run, link_of: Any) -> None:
    async def scenario() -> None:
        link = link_of("a", "b", "c")
        await link.start()
        await link.join("b")
        with pytest.raises(NotReady, match="not joined after 0.05 s: missing a, c; there: b"):
            await link.coordinator.wait_joined(0.05)
        await link.close()

    run(scenario())


def test_a_code_out_of_range_still_ends_the_job_as_failed(run: Run, link_of: Any) -> None:
    async def scenario() -> None:
        link = link_of("a")
        await link.start()
        await link.join("a")
        await link.coordinator.end(256, "odd")
        assert await link.until("end") == [("end", "a", 1, "odd")]
        await link.close()

    run(scenario())


def test_a_wait_for_members_says_who_was_turned_away(run: Run, link_of: Any) -> None:
    async def scenario() -> None:
        link = link_of("a")
        await link.start()
        joining = asyncio.create_task(link.member("a", secret=WRONG).join({}, 10))
        while link.coordinator._listener.drops == 0:
            await asyncio.sleep(0.01)
        joining.cancel()
        with pytest.raises(NotReady, match="connections dropped, last 127.0.0.1:.*: wrong secret"):
            await link.coordinator.wait_joined(0.05)
        await link.close()

    run(scenario())


def test_a_wait_for_members_ends_with_the_job(run: Run, link_of: Any) -> None:
    async def scenario() -> None:
        link = link_of("a")
        await link.start()
        waiting = asyncio.create_task(link.coordinator.wait_joined(10))
        await asyncio.sleep(0)
        await link.coordinator.end(3, "rank 0 failed", linger_s=0.05)
        with pytest.raises(NotReady, match=r"ended \(rank 0 failed\): missing a"):
            await waiting

    run(scenario())


def test_a_wait_for_members_ends_when_one_is_lost(run: Run, link_of: Any) -> None:
    async def scenario() -> None:
        link = link_of("a", "b", lease_s=0.4)
        await link.start()
        waiting = asyncio.create_task(link.coordinator.wait_joined(10))
        (await _raw(link, "a")).abort()
        with pytest.raises(NotReady, match="lost while waiting.*a: gone without leaving"):
            await waiting
        await link.close()

    run(scenario())


def test_messages_go_both_ways_in_order(run: Run, link_of: Any) -> None:
    async def scenario() -> None:
        link = link_of("a", "b")
        await link.start()
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
        await link.close()

    run(scenario())


def test_what_cannot_be_sent_is_refused_to_the_sender(run: Run, link_of: Any) -> None:
    async def scenario() -> None:
        link = link_of("a", "b")
        await link.start()
        await link.join("a")
        link.coordinator.send("b", {"type": "to nobody yet"})
        with pytest.raises(UsageError, match="no member 'c'; expected: a, b"):
            link.coordinator.send("c", {"type": "x"})
        with pytest.raises(MessageError):
            link.coordinator.broadcast({"type": "x", "text": "x" * 70_000})
        await link.close()

    run(scenario())


def test_the_end_reaches_everybody_with_its_code_and_cause(run: Run, link_of: Any) -> None:
    async def scenario() -> None:
        names = [f"host-{n}" for n in range(8)]
        link = link_of(*names)
        await link.start()
        await link.join(*names)
        await link.coordinator.wait_joined(10)
        staying = await link.coordinator.end(3, "rank 1 exited with 3")
        assert staying == frozenset()
        assert link.coordinator.left == dict.fromkeys(names, 3)
        ends = await link.until("end", 8)
        assert sorted(ends) == [("end", name, 3, "rank 1 exited with 3") for name in names]
        assert not [entry for entry in link.told if entry[0] in ("lost", "lease lost")]
        await link.close()

    run(scenario())


def test_a_member_that_does_not_confirm_the_end_is_named_after_the_linger(run: Run, link_of: Any) -> None:
    async def scenario() -> None:
        link = link_of("a", "b")
        await link.start()
        await link.join("a")
        raw = await _raw(link, "b")
        assert await link.coordinator.end(0, "done", linger_s=0.2) == {"b"}
        await raw.close()
        await link.close()

    run(scenario())


def test_the_first_end_counts(run: Run, link_of: Any) -> None:
    async def scenario() -> None:
        link = link_of("a")
        await link.start()
        await link.join("a")
        await asyncio.gather(link.coordinator.end(3, "first"), link.coordinator.end(0, "second"))
        await link.coordinator.end(0, "third")
        assert await link.until("end") == [("end", "a", 3, "first")]
        await link.close()

    run(scenario())


def test_a_member_that_joins_during_the_end_is_told(run: Run, link_of: Any) -> None:
    async def scenario() -> None:
        link = link_of("a", "b")
        await link.start()
        raw = await _raw(link, "a")
        ending = asyncio.create_task(link.coordinator.end(4, "over", linger_s=5))
        await asyncio.sleep(0)
        await link.join("b")
        assert await link.until("end") == [("end", "b", 4, "over")]
        raw.write(messages.Left(4))
        assert await ending == frozenset()
        await raw.close()
        await link.close()

    run(scenario())


def test_the_job_may_be_ended_from_a_callback(run: Run, link_of: Any) -> None:
    async def scenario() -> None:
        link = link_of("a", "b", lease_s=0.4)
        ended = asyncio.get_running_loop().create_future()

        def on_lost(member: str, reason: str) -> None:
            ended.set_result(asyncio.ensure_future(link.coordinator.end(1, f"{member}: {reason}")))

        link.coordinator._on_lost = on_lost
        await link.start()
        await link.join("b")
        (await _raw(link, "a")).abort()
        await (await ended)
        ((_, name, code, cause),) = await link.until("end")
        assert (name, code) == ("b", 1)
        assert cause.startswith("a: gone without leaving")
        await link.close()

    run(scenario())


def test_a_member_that_leaves_is_not_lost(run: Run, link_of: Any) -> None:
    async def scenario() -> None:
        link = link_of("a", lease_s=0.2)
        await link.start()
        await link.join("a")
        await link.members["a"].leave(7)
        assert await link.until("left") == [("left", "a", 7)]
        await asyncio.sleep(0.4)
        assert [entry[0] for entry in link.told] == ["left"]
        assert link.coordinator.left == {"a": 7}
        await link.close()

    run(scenario())


def test_a_closed_connection_is_a_lost_member_told_once(run: Run, link_of: Any) -> None:
    async def scenario() -> None:
        events: list[Event] = []
        link = link_of("a", lease_s=0.4, observer=events.append)
        await link.start()
        (await _raw(link, "a")).abort()
        ((_, name, reason),) = await link.until("lost")
        assert name == "a"
        assert "gone without leaving" in reason
        await asyncio.sleep(0.5)
        assert len(await link.until("lost")) == 1
        assert link.coordinator.lost == {"a": reason}
        assert [event.name for event in events] == ["link.member_joined", "link.member_lost"]
        await link.close()

    run(scenario())


def test_a_silent_member_is_lost_after_its_lease(run: Run, link_of: Any) -> None:
    async def scenario() -> None:
        link = link_of("a", "b", lease_s=0.4)
        await link.start()
        await link.join("b")
        raw = await _raw(link, "a")
        ((_, name, reason),) = await link.until("lost")
        assert name == "a"
        assert "silent for" in reason
        while isinstance(message := await raw.read(), messages.Alive):
            pass
        assert message == messages.Refused(f"it was lost: {reason}")
        with pytest.raises(ConnectionError):
            await raw.read()
        await raw.close()
        assert link.coordinator.here == {"b"}
        await link.close()

    run(scenario())


@pytest.mark.parametrize("still_s", [0.9, 1.2, 60.0])
def test_time_that_the_coordinator_stood_still_does_not_count(run: Run, link_of: Any, still_s: float) -> None:
    async def scenario() -> None:
        clock = FakeClock()
        link = link_of("a", "b", lease_s=1.0, clock=clock)
        await link.start()
        await link.join("a")  # renews in real time
        raw = await _raw(link, "b")
        await asyncio.sleep(0.1)
        clock.sleep(still_s)  # as if this process had been stopped
        raw.write(messages.Alive(0))  # its renewals lie in the socket
        await asyncio.sleep(0.4)
        assert link.coordinator.lost == {}
        while not link.coordinator.lost:
            clock.sleep(0.05)
            await asyncio.sleep(0.05)
        # The member that says nothing more is lost one lease after that, however long the standstill was.
        assert clock.monotonic() < still_s + 3
        assert set(link.coordinator.lost) == {"b"}
        assert link.coordinator.lost["b"].startswith("the leader stood still for" if still_s > 1 else "silent for")
        await raw.close()
        await link.close()

    run(scenario())


def test_leases_are_confirmed_after_a_standstill_only(run: Run, link_of: Any) -> None:
    async def scenario() -> None:
        clock = FakeClock()
        link = link_of("a", "b", lease_s=1.0, clock=clock)
        await link.start()
        await link.join("a")
        raw = await _raw(link, "b")
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
        await link.close()

    run(scenario())


def test_renewals_come_often_enough_for_a_peer_that_stands_still_for_nine_tenths_of_a_lease() -> None:
    clock, renewals = FakeClock(), []

    def renew() -> bool:
        renewals.append(clock.monotonic())
        return True

    async def scenario() -> None:
        async for now_s, _ in beats(lambda: 0.2, clock, renew, 0.0):
            clock.sleep(0.01)
            if now_s > 0.2:
                return

    asyncio.run(asyncio.wait_for(scenario(), 20))
    assert max(later - earlier for earlier, later in pairwise(renewals)) < 0.1 * 0.2


def test_a_member_that_does_not_read_is_given_up_and_the_others_hear_everything(run: Run, link_of: Any) -> None:
    async def scenario() -> None:
        link = link_of("a", "b")
        await link.start()
        await link.join("b")
        raw = await _raw(link, "a")
        for i in range(100):
            link.coordinator.broadcast({"type": "much", "i": i, "text": "x" * 60_000})
            while link.members["b"]._outbox.seen <= i:
                await asyncio.sleep(0)
            # It confirms with its renewals, which come too seldom for this test.
            link.members["b"]._connection.write(messages.Alive(i + 1))
        heard = await link.until("heard", 100)
        assert [entry[2]["i"] for entry in heard] == list(range(100))
        ((_, name, reason),) = await link.until("lost")
        assert (name, reason) == ("a", "it does not read its messages")
        raw.abort()
        await link.close()

    run(scenario())


def test_a_lost_member_is_not_let_in_again(run: Run, link_of: Any) -> None:
    async def scenario() -> None:
        link = link_of("a", lease_s=0.4)
        await link.start()
        (await _raw(link, "a")).abort()
        await link.until("lost")
        with pytest.raises(Refused, match="it was lost: gone without leaving"):
            await _raw(link, "a")
        await link.close()

    run(scenario())


def test_a_second_process_of_one_name_is_refused(run: Run, link_of: Any) -> None:
    async def scenario() -> None:
        link = link_of("a")
        await link.start()
        await link.join("a")
        with pytest.raises(Refused, match="another process has joined under this name"):
            await _raw(link, "a", "other")
        first = link.members["a"]
        with pytest.raises(ClusterError, match="refused 'a': another process"):
            await link.join("a")
        first.send({"type": "still here"})
        assert await link.until("message") == [("message", "a", {"type": "still here"})]
        await first.leave()
        await link.close()

    run(scenario())


def test_a_name_that_is_not_expected_is_refused(run: Run, link_of: Any) -> None:
    async def scenario() -> None:
        link = link_of("a")
        await link.start()
        with pytest.raises(ClusterError, match="refused 'b': not a member of this job; its members: a"):
            await link.join("b")
        await link.close()

    run(scenario())


@pytest.mark.parametrize(
    "line",
    [
        messages.Numbered(2, {"type": "gap"}),
        messages.Alive(1),
        messages.End(0, "a member cannot end the job"),
        messages.Joined(1, 0),
    ],
    ids=["gap", "confirms the unsaid", "end", "joined"],
)
def test_a_member_that_breaks_the_protocol_is_hung_up_on(run: Run, link_of: Any, line: Any) -> None:
    async def scenario() -> None:
        link = link_of("a", "b", lease_s=0.4)
        await link.start()
        await link.join("b")
        raw = await _raw(link, "a")
        raw.write(line)
        await link.until("lost")
        assert set(link.coordinator.lost) == {"a"}
        await raw.close()
        await link.close()

    run(scenario())


def test_a_busy_port_says_so(run: Run) -> None:
    async def scenario() -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            coordinator = LinkServer(["a"], SECRET)
            with pytest.raises(UsageError, match=f"port {port} at 127.0.0.1 is in use by process"):
                await coordinator.start("127.0.0.1", port)
            await coordinator.close()

    run(scenario())


def test_a_lease_must_be_positive() -> None:
    with pytest.raises(UsageError, match="lease_s must be positive"):
        LinkServer([], SECRET, 0)


def test_closing_twice_or_before_the_start_is_nothing(run: Run, link_of: Any) -> None:
    async def scenario() -> None:
        link = link_of("a")
        await link.coordinator.close()
        link = link_of("a")
        await link.start()
        await link.close()
        await link.close()

    run(scenario())
