"""Leader and branch over real loopback connections, with results that are made up."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Coroutine
from typing import Any

import pytest

from tfhet.cluster import Rank, check_free
from tfhet.errors import ClusterError, NotReady, UsageError
from tfhet.events import Event, ignore
from tfhet.launch import LaunchSettings, leader
from tfhet.launch.assignment import Assignment
from tfhet.launch.follower import Follower
from tfhet.launch.job_result import JobResult
from tfhet.launch.leader import Leader
from tfhet.messages import link

pytestmark = pytest.mark.timeout(60)

QUICK = ("--lease_s", 1.0, "--ready_timeout_s", 20)


def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(coroutine, 30))


def result(rank: int, code: int = 0) -> link.RankResult:
    return link.RankResult(rank, code, f"rank {rank}: exit code {code}")


class Job:
    """A job of one data host and one dnn host with two ranks: chief (rank 0), rank 1, and the data host."""

    def __init__(self, assignment_of, leader_of, *arguments: object):
        shape = {"ranks": 2}
        self.events: list[Event] = []
        self.patient: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.chief = leader_of(assignment_of("t1", 0, *QUICK, *arguments, **shape), self.events.append)
        self.rank = Follower(assignment_of("t1", 1, *QUICK, *arguments, **shape))
        self.data = Follower(assignment_of("d1", None, *QUICK, *arguments, **shape))

    async def join(self) -> None:
        await self.chief.join()
        await asyncio.gather(self.rank.join(), self.data.join())

    def ready(self) -> None:
        self.chief.report(link.PlaneReport({"type": "serving", "host": "t1"}))
        self.data.report(link.PlaneReport({"type": "serving", "host": "d1"}))
        self.data.report(link.PlaneReport({"type": "registered", "workers": 1}))

    async def end(self) -> list[JobResult]:
        """The verdicts of all three, who leave with its code as soon as they know it."""

        async def ended(one: Leader | Follower) -> JobResult:
            verdict = await one.ended()
            await one.leave(verdict.code, verdict.cause, self.patient)
            return verdict

        return list(await asyncio.gather(ended(self.chief), ended(self.rank), ended(self.data)))


def test_all_start_once_every_host_serves_and_every_worker_is_known(assignment_of, leader_of):
    async def scenario() -> None:
        job = Job(assignment_of, leader_of)
        await job.join()
        starts = [asyncio.create_task(one.started()) for one in (job.chief, job.rank, job.data)]
        job.data.report(link.PlaneReport({"type": "serving", "host": "d1", "native": ["tone", "jpeg"]}))
        await asyncio.sleep(0.2)
        assert not any(task.done() for task in starts)
        job.data.report(link.PlaneReport({"type": "registered", "workers": 1}))
        await asyncio.sleep(0.2)
        assert not any(task.done() for task in starts)
        job.chief.report(link.PlaneReport({"type": "serving", "host": "t1", "native": ["jpeg", "sampling"]}))
        messages = await asyncio.gather(*starts)
        assert messages[0] == messages[1] == messages[2]
        assert messages[0].job_id.startswith("job-")
        assert messages[0].plane["native"] == ["jpeg"]
        job.chief.report(result(0))
        job.rank.report(result(1))
        await job.end()

    run(scenario())


def test_the_job_succeeds_when_the_last_rank_has(assignment_of, leader_of):
    async def scenario() -> None:
        job = Job(assignment_of, leader_of)
        await job.join()
        job.rank.report(result(1))
        verdict = asyncio.create_task(job.chief.ended())
        await asyncio.sleep(0.2)
        assert not verdict.done() and job.chief.trained_s is None
        job.chief.report(result(0))
        assert await job.end() == [JobResult(0, "training is complete")] * 3
        assert job.chief.exit_codes == {"rank-1": 0, "d1": 0}
        assert job.chief.trained_s is not None
        assert [event.name for event in job.events if event.name.startswith(("rank.", "job."))] == [
            "job.ranks",
            "rank.ended",
            "rank.ended",
            "job.decided",
        ]

    run(scenario())


def test_the_same_rank_twice_is_not_two_ranks(assignment_of, leader_of):
    async def scenario() -> None:
        job = Job(assignment_of, leader_of)
        await job.join()
        job.chief.report(result(0))
        job.chief.report(result(0))
        verdict = asyncio.create_task(job.chief.ended())
        await asyncio.sleep(0.1)
        assert not verdict.done()
        verdict.cancel()
        job.rank.report(result(1))
        await job.end()

    run(scenario())


def test_the_first_failure_decides_for_all(assignment_of, leader_of):
    async def scenario() -> None:
        job = Job(assignment_of, leader_of)
        await job.join()
        job.rank.report(result(1, 3))
        await job.chief.ended()
        job.chief.report(result(0, 4))
        assert await job.end() == [JobResult(3, "rank 1: exit code 3")] * 3
        assert job.chief.exit_codes == {"rank-1": 3, "d1": 3}

    run(scenario())


@pytest.mark.parametrize("others_end", [False, True], ids=["one hangs", "all have ended"])
def test_an_error_that_another_rank_caused_names_the_one_that_has_not_ended(assignment_of, leader_of, others_end):
    async def scenario() -> None:
        job = Job(assignment_of, leader_of)
        await job.join()
        broken = "rank 0: exit code 1: Connection closed by peer"
        job.chief.report(link.RankResult(0, 1, f"{broken}\nthe log"))
        if others_end:
            job.rank.report(result(1))
        awaited = "" if others_end else "; it may have waited for rank 1"
        assert await job.end() == [JobResult(1, f"{broken}{awaited}\nthe log")] * 3

    run(scenario())


def test_a_chief_that_stood_still_hears_the_cause_before_it_decides(assignment_of, leader_of):
    async def scenario() -> None:
        job = Job(assignment_of, leader_of)
        await job.join()
        job.chief.report(link.RankResult(0, 129, "rank 0: ended by SIGHUP"))  # what another rank's failure may cause
        job.rank.report(result(1, 3))
        time.sleep(1.3)  # as if this process had been stopped; the report lies in the socket
        assert await job.end() == [JobResult(3, "rank 1: exit code 3")] * 3

    run(scenario())


@pytest.mark.parametrize("loses", ["", "rank", "data"])
def test_a_standstill_at_the_end_ends_all_alike(assignment_of, leader_of, loses):
    async def scenario() -> None:
        job = Job(assignment_of, leader_of)
        await job.join()
        job.chief._begun = True
        job.chief.report(result(0))
        job.rank.report(result(1))
        if loses:
            getattr(job, loses)._client._lose("the leader was silent")
        time.sleep(1.3)  # as if this process had been stopped; the report lies in the socket
        verdicts = await job.end()
        assert {verdict.code for verdict in verdicts} == {1 if loses else 0}
        assert verdicts[0].cause.startswith(f"{'rank-1' if loses == 'rank' else 'd1'} was lost" if loses else "train")

    run(scenario())


def test_a_chief_that_stood_still_during_a_stop_hears_who_has_stopped(assignment_of, leader_of, monkeypatch):
    async def scenario() -> None:
        monkeypatch.setattr(leader, "STOP_S", 0.2)
        job = Job(assignment_of, leader_of)
        await job.join()
        job.chief._begun = True
        job.chief.report(link.StopWish(143, "t1 was asked to stop"))
        job.chief.report(result(0, 143))
        job.rank.report(result(1, 143))
        time.sleep(0.4)
        assert [verdict.code for verdict in await job.end()] == [143] * 3

    run(scenario())


def test_a_host_that_cannot_go_on_ends_the_job(assignment_of, leader_of):
    async def scenario() -> None:
        job = Job(assignment_of, leader_of)
        await job.join()
        job.data.report(link.Failed(2, "d1: port 7 is in use\nlast line"))
        assert [v.code for v in await job.end()] == [2, 2, 2]

    run(scenario())


def test_a_failure_is_never_reported_as_success(assignment_of, leader_of):
    async def scenario() -> None:
        job = Job(assignment_of, leader_of)
        await job.join()
        job.data.report(link.Failed(0, "worker-0 ended by itself"))
        assert {v.code for v in await job.end()} == {1}

    run(scenario())


def test_a_member_that_leaves_before_the_end_ends_the_job(assignment_of, leader_of):
    async def scenario() -> None:
        job = Job(assignment_of, leader_of)
        await job.join()
        await job.data.leave(0, "", job.patient)
        verdict = await job.chief.ended()
        assert verdict == JobResult(1, "d1 left before the end (exit code 0)")
        leaving = asyncio.create_task(job.chief.leave(verdict.code, verdict.cause, job.patient))
        assert await job.rank.ended() == verdict
        await job.rank.leave(1, "", job.patient)
        await leaving
        assert job.chief.exit_codes == {"d1": 0, "rank-1": 1}

    run(scenario())


def test_a_member_that_is_lost_ends_the_job(assignment_of, leader_of):
    async def scenario() -> None:
        job = Job(assignment_of, leader_of)
        await job.join()
        for task in job.data._client._tasks:  # as if it had been killed: nobody says goodbye
            task.cancel()
        verdict = await job.chief.ended()
        assert verdict.code == 1
        assert verdict.cause.startswith("d1 was lost: ")
        leaving = asyncio.create_task(job.chief.leave(verdict.code, verdict.cause, job.patient))
        assert await job.rank.ended() == verdict
        await asyncio.gather(leaving, job.rank.leave(1, "", job.patient), job.data.leave(1, "", job.patient))

    run(scenario())


def test_a_branch_whose_chief_is_gone_ends_itself_within_the_lease(assignment_of, leader_of):
    async def scenario() -> None:
        job = Job(assignment_of, leader_of)
        await job.join()
        began = time.monotonic()
        await job.chief._server.close()  # as if it had been killed: nobody is told
        verdicts = await asyncio.gather(job.rank.ended(), job.data.ended())
        assert time.monotonic() - began < 10
        assert [v.code for v in verdicts] == [1, 1]
        assert verdicts[1].cause.startswith("d1 lost its lease: ")
        await asyncio.gather(job.rank.leave(1, "", job.patient), job.data.leave(1, "", job.patient))

    run(scenario())


def test_who_is_missing_is_named_when_the_job_does_not_get_ready(assignment_of, leader_of):
    async def scenario() -> None:
        job = Job(assignment_of, leader_of, "--ready_timeout_s", 0.5)
        await asyncio.gather(job.chief.join(), job.rank.join())
        with pytest.raises(NotReady, match="d1"):
            await job.chief.started()
        job.chief.report(link.Failed(1, "not ready"))
        await asyncio.gather(job.chief.leave(1, "", job.patient), job.rank.leave(1, "", job.patient))

    run(scenario())


def test_a_data_service_that_does_not_come_up_is_named(assignment_of, leader_of):
    async def scenario() -> None:
        job = Job(assignment_of, leader_of, "--ready_timeout_s", 0.5)
        await job.join()
        with pytest.raises(NotReady, match=r"no data service on d1, t1; 0 of 1 workers are registered"):
            await job.chief.started()
        job.chief.report(link.Failed(1, "not ready"))
        await job.end()

    run(scenario())


def test_a_branch_without_a_chief_gives_up(assignment_of, leader_of):
    async def scenario() -> None:
        job = Job(assignment_of, leader_of, "--ready_timeout_s", 1.0)
        with pytest.raises(NotReady, match="nothing listens there"):
            await job.data.join()
        with pytest.raises(UsageError):
            job.data.report(link.Failed(1, ""))
        await job.data.leave(1, "", job.patient)

    run(scenario())


def test_hosts_that_come_up_late_are_told_of_a_job_that_has_failed(assignment_of, leader_of):
    async def scenario() -> None:
        job = Job(assignment_of, leader_of)
        await job.chief.join()
        job.chief.report(link.Failed(2, "t1/0: no such file"))
        verdict = await job.chief.ended()
        leaving = asyncio.create_task(job.chief.leave(verdict.code, verdict.cause, job.patient))
        await asyncio.sleep(0.2)
        assert not leaving.done()
        for late in (job.data, job.rank):
            await late.join()
            assert await late.ended() == verdict
            await late.leave(2, "", job.patient)
        await leaving
        assert job.chief.exit_codes == {"d1": 2, "rank-1": 2}

    run(scenario())


def test_a_chief_that_is_told_to_stop_does_not_wait_for_late_hosts(assignment_of, leader_of, control_port):
    async def scenario() -> None:
        job = Job(assignment_of, leader_of)
        await job.chief.join()
        leaving = asyncio.create_task(job.chief.leave(143, "told to stop", job.patient))
        await asyncio.sleep(0.1)
        assert not leaving.done()
        job.patient.set_result(None)
        await asyncio.wait_for(leaving, 10)
        check_free(control_port)

    run(scenario())


def test_a_busy_control_port_is_named_and_nothing_is_left_to_wait_for(assignment_of, leader_of, control_port):
    async def scenario() -> None:
        first, second = Job(assignment_of, leader_of), Job(assignment_of, leader_of)
        await first.chief.join()
        with pytest.raises(UsageError, match=f"port {control_port} at 127.0.0.1 is in use by process"):
            await second.chief.join()
        await asyncio.wait_for(second.chief.leave(2, "", second.patient), 5)
        first.patient.set_result(None)
        await first.chief.leave(1, "", first.patient)

    run(scenario())


# Ranks that nobody but tfhet started


def numbered(environment_of, host: str, rank: int, size: int, per_host: int) -> Assignment:
    """The place of a launcher on one of two dnn hosts, whose starter has counted so many ranks."""
    env = environment_of(host, data=(), dnn=("t1", "t2"))
    env |= Rank(rank, size, rank % per_host, per_host, "tfhet").to_env()
    return Assignment.of(env, LaunchSettings.parse([str(word) for word in QUICK])[0])


def test_ranks_without_mpi_are_told_where_they_meet_and_the_place_is_gone_with_the_chief(environment_of, leader_of):
    pytest.importorskip("horovod.runner")

    async def scenario() -> None:
        events: list[Event] = []
        chief = leader_of(numbered(environment_of, "t1", 0, 2, 1), events.append)
        rank = Follower(numbered(environment_of, "t2", 1, 2, 1))
        await chief.join()
        await rank.join()
        start, theirs = await asyncio.gather(chief.started(), rank.started())
        assert start == theirs
        assert (start.strategy["address"], start.strategy["interface"]) == ("127.0.0.1", "eth0")
        port = start.strategy["port"]
        assert chief._meeting._server._peers == {"127.0.0.1"}  # from where the other launcher has joined
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.close()
        chief.report(result(0, 3))
        verdict = await chief.ended()
        patient = asyncio.get_running_loop().create_future()
        await asyncio.gather(
            chief.leave(verdict.code, verdict.cause, patient), rank.leave(verdict.code, verdict.cause, patient)
        )
        check_free(port)
        (ranks,) = [event.fields for event in events if event.name == "job.ranks"]
        assert ranks == {"by": "alone", "size": 2, "per_host": 1}

    run(scenario())


def test_ranks_that_something_else_started_are_told_of_no_meeting(assignment_of, leader_of):
    async def scenario() -> None:
        job = Job(assignment_of, leader_of)
        await job.join()
        job.ready()
        assert (await job.chief.started()).strategy == {}
        job.chief.report(result(0))
        job.rank.report(result(1))
        await job.end()

    run(scenario())


def test_a_meeting_that_does_not_open_delays_no_lease_and_is_named_at_the_deadline(assignment_of, leader_of):
    opens = threading.Event()

    class Meeting:
        load = close = staticmethod(lambda: None)

        def open(self, *_: object) -> dict[str, object]:
            opens.wait(5.0)  # its name service hangs
            return {}

    async def scenario() -> None:
        job = Job(assignment_of, leader_of, "--ready_timeout_s", 2, "--lease_s", 0.5)
        await job.join()
        job.chief._meeting = Meeting()
        job.ready()
        with pytest.raises(NotReady, match="not ready after 2 s: the ranks' meeting is not open"):
            await job.chief.started()
        opens.set()
        assert job.chief._server.here == {"rank-1", "d1"}
        for one in (job.rank, job.data, job.chief):
            await one.leave(1, "not ready", job.patient)

    run(scenario())


@pytest.mark.parametrize(
    ("here", "there"),
    [((0, 2, 1), (2, 4, 2)), ((0, 4, 2), (1, 2, 1))],
    ids=["it starts more than the chief's", "it starts fewer than the chief's"],
)
def test_a_host_that_starts_another_number_of_ranks_ends_the_job_at_once(environment_of, leader_of, here, there):
    async def scenario() -> None:
        chief = leader_of(numbered(environment_of, "t1", *here), ignore)
        rank = Follower(numbered(environment_of, "t2", *there))
        await chief.join()
        joining = asyncio.create_task(rank.join())
        verdict = await chief.ended()
        assert verdict.code == 2
        assert f"than this job of {here[1]}:" in verdict.cause
        assert f"has to start {here[2]}, as t1 does; --processes_per_host" in verdict.cause
        (outcome,) = await asyncio.gather(joining, return_exceptions=True)
        assert outcome is None or isinstance(outcome, ClusterError)
        patient = asyncio.get_running_loop().create_future()
        async with asyncio.timeout(10):  # nobody else is waited for: those ranks never come
            await asyncio.gather(chief.leave(2, verdict.cause, patient), rank.leave(2, "", patient))

    run(scenario())


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"type": "rankresult", "rank": 2, "code": 0, "cause": ""}, "rank 2"),
        ({"type": "failed", "code": 256, "cause": ""}, "`code` is 256"),
        ({"type": "planereport", "facts": {"type": "registered", "workers": "many"}}, "`workers` is 'many'"),
    ],
)
def test_a_report_that_is_wrong_ends_the_job_and_one_of_a_new_kind_does_not(assignment_of, leader_of, body, field):
    async def scenario() -> None:
        job = Job(assignment_of, leader_of)
        await job.join()
        for each in ({"type": "odd"}, body):
            job.data._client.send(each)
        (result,) = set(await job.end())
        assert result.code == 1 and result.cause.startswith("d1 sent") and field in result.cause

    run(scenario())


def test_a_chief_that_cannot_be_understood_ends_the_branch(assignment_of, leader_of):
    async def scenario() -> None:
        job = Job(assignment_of, leader_of)
        await job.join()
        job.chief._server.send("rank-1", {"type": "start", "job_id": "j", "plane": {"dispatcher": 1}, "strategy": {}})
        verdict = await job.rank.ended()
        assert verdict.code == 1 and "t1/1" in verdict.cause and "`dispatcher` is 1" in verdict.cause
        job.chief.report(result(0, 1))
        await job.end()

    run(scenario())
