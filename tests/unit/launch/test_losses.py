"""Data hosts that are lost, and jobs that are told to stop: the chief decides, over real loopback connections."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from tfhet.events import Event
from tfhet.launch import leader as leader_room
from tfhet.launch.follower import Follower
from tfhet.launch.job_result import JobResult
from tfhet.messages import link
from tfhet.planes.tf_service.plane import TfService

pytestmark = pytest.mark.timeout(60)

QUICK = ("--lease_s", 1.0, "--ready_timeout_s", 20)


def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(coroutine, 30))


async def until(happened: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not happened():
            await asyncio.sleep(0.01)


def result(rank: int, code: int = 0) -> link.RankResult:
    return link.RankResult(rank, code, f"rank {rank}: exit code {code}")


class Job:
    """A job of two data hosts and one dnn host with two ranks, ready to start."""

    def __init__(self, assignment_of: Any, leader_of: Any, *arguments: object, data: tuple[str, ...] = ("d1", "d2")):
        shape = {"ranks": 2, "data": data}
        self.events: list[Event] = []
        self.lost: list[str] = []
        self.stops: list[str] = []
        self.patient: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.chief = leader_of(
            assignment_of("t1", 0, *QUICK, *arguments, **shape),
            self.events.append,
            on_stop=lambda: self.stops.append("t1/0"),
            on_host_lost=self.lost.append,
        )
        self.rank = Follower(
            assignment_of("t1", 1, *QUICK, *arguments, **shape),
            on_stop=lambda: self.stops.append("t1/1"),
        )
        self.data = [
            Follower(
                assignment_of(host, None, *QUICK, *arguments, **shape),
                on_stop=lambda host=host: self.stops.append(host),
            )
            for host in data
        ]
        self.gone: list[Follower] = []

    async def begin(self, started: bool = True) -> None:
        await self.chief.join()
        await asyncio.gather(self.rank.join(), *(branch.join() for branch in self.data))
        if not started:
            return
        self.chief.report(link.PlaneReport({"type": "serving", "host": "t1"}))
        for branch in self.data:
            branch.report(link.PlaneReport({"type": "serving", "host": branch._client.name}))
        self.data[0].report(link.PlaneReport({"type": "registered", "workers": len(self.data)}))
        await self.chief.started()

    def kill(self, index: int) -> None:
        """Nobody says goodbye."""
        for task in self.data[index]._client._tasks:
            task.cancel()
        self.gone.append(self.data[index])

    def told(self, name: str) -> list[dict[str, Any]]:
        return [dict(event.fields) for event in self.events if event.name == name]

    async def end(self) -> JobResult:
        """The verdict, the same for all who are still there."""
        verdict = await self.chief.ended()
        here = [branch for branch in (self.rank, *self.data) if branch not in self.gone]

        async def leave(branch: Follower) -> None:
            assert await branch.ended() == verdict
            await branch.leave(verdict.code, "", self.patient)

        ends: list[Awaitable[Any]] = [leave(branch) for branch in here]
        await asyncio.gather(self.chief.leave(verdict.code, verdict.cause, self.patient), *ends)
        for branch in self.gone:
            await branch.leave(1, "", self.patient)
        return verdict


# Data hosts


def test_a_data_host_that_is_lost_is_told_and_the_job_goes_on(assignment_of, leader_of):
    async def scenario() -> None:
        job = Job(assignment_of, leader_of)
        await job.begin()
        assert job.chief.serving == ("d1", "d2")
        job.kill(1)
        await until(lambda: job.lost)
        assert job.lost == ["d2"] and list(job.chief.lost_hosts) == ["d2"]
        assert job.chief.serving == ("d1",)
        (told,) = job.told("host.lost")
        assert (told["host"], told["serving"]) == ("d2", ["d1"]) and told["reason"] == job.chief.lost_hosts["d2"]
        job.chief.report(result(0))
        job.rank.report(result(1))
        assert await job.end() == JobResult(0, "training is complete")

    run(scenario())


@pytest.mark.parametrize("how", ["failed", "left"])
def test_a_data_host_that_fails_or_leaves_is_a_lost_one(assignment_of, leader_of, how):
    async def scenario() -> None:
        job = Job(assignment_of, leader_of)
        await job.begin()
        if how == "failed":
            job.data[0].report(link.Failed(3, "worker-0 died too often\nlast words"))
            reason = "worker-0 died too often"
        else:
            await job.data[0].leave(7, "", job.patient)
            job.gone.append(job.data[0])
            reason = "it left (exit code 7)"
        await until(lambda: job.lost)
        assert job.chief.lost_hosts == {"d1": reason}
        if how == "left":
            assert job.chief.exit_codes == {"d1": 7}
        job.chief.report(result(0))
        job.rank.report(result(1))
        assert (await job.end()).code == 0

    run(scenario())


def test_a_host_that_fails_and_is_then_lost_is_lost_once(assignment_of, leader_of):
    async def scenario() -> None:
        job = Job(assignment_of, leader_of)
        await job.begin()
        job.data[0].report(link.Failed(3, "no disk"))
        await until(lambda: job.lost)
        await job.data[0].leave(3, "", job.patient)
        job.gone.append(job.data[0])
        await until(lambda: "d1" in job.chief.exit_codes)
        assert job.lost == ["d1"] and job.chief.lost_hosts == {"d1": "no disk"}
        job.rank.report(result(1))
        job.chief.report(result(0))
        assert (await job.end()).code == 0

    run(scenario())


@pytest.mark.parametrize("how", ["failed", "killed"])
def test_before_the_start_every_host_is_needed(assignment_of, leader_of, how):
    async def scenario() -> None:
        job = Job(assignment_of, leader_of)
        await job.begin(started=False)
        if how == "failed":
            job.data[1].report(link.Failed(2, "d2: port 7 is in use"))
        else:
            job.kill(1)
        verdict = await job.end()
        assert verdict.code == (2 if how == "failed" else 1)
        assert "d2" in verdict.cause
        assert job.lost == [] and job.chief.lost_hosts == {}

    run(scenario())


def test_a_rank_that_is_lost_ends_the_job_as_ever(assignment_of, leader_of):
    async def scenario() -> None:
        job = Job(assignment_of, leader_of)
        await job.begin()
        for task in job.rank._client._tasks:
            task.cancel()
        job.gone.append(job.rank)
        verdict = await job.end()
        assert verdict.code == 1 and verdict.cause.startswith("rank-1 was lost: ")

    run(scenario())


@pytest.mark.parametrize("can", [True, False])
def test_without_the_last_one_the_job_ends_and_says_how_it_could_have_gone_on(
    assignment_of, leader_of, monkeypatch, can
):
    monkeypatch.setattr(TfService, "goes_local", can)

    async def scenario() -> None:
        job = Job(assignment_of, leader_of)
        await job.begin()
        job.kill(0)
        await until(lambda: job.lost)
        job.kill(1)
        verdict = await job.end()
        assert verdict.code == 1
        assert verdict.cause.startswith("d2 was lost: ") and "no host serves data any more" in verdict.cause
        assert ("--on_data_loss local" in verdict.cause) is can
        assert job.lost == ["d1"] and sorted(job.chief.lost_hosts) == ["d1", "d2"]

    run(scenario())


def test_without_the_last_one_the_job_goes_on_where_that_is_allowed(assignment_of, leader_of):
    async def scenario() -> None:
        job = Job(assignment_of, leader_of, "--on_data_loss", "local", data=("d1",))
        await job.begin()
        job.kill(0)
        await until(lambda: job.lost)
        assert job.chief.serving == () and job.told("host.lost")[0]["serving"] == []
        job.chief.report(result(0))
        job.rank.report(result(1))
        assert (await job.end()).code == 0

    run(scenario())


def test_workers_on_the_dnn_hosts_serve_when_no_data_host_does(assignment_of, leader_of):
    async def scenario() -> None:
        job = Job(assignment_of, leader_of, "--dnn_host_workers", 1, data=("d1",))
        job.chief._begun = True
        job.chief._lost("d1", "silent")
        assert job.chief.serving == ("t1",) and job.lost == ["d1"]
        assert not job.chief._result.done()

    run(scenario())


def test_no_host_hears_that_the_job_goes_on_where_the_plane_cannot(assignment_of, leader_of, monkeypatch):
    async def scenario() -> None:
        job = Job(assignment_of, leader_of)
        await job.begin()
        said: list[object] = []
        monkeypatch.setattr(job.chief._side, "lost", lambda host: False)
        monkeypatch.setattr(job.chief._server, "broadcast", said.append)
        job.chief._lost("d1", "silent")
        assert said == job.lost == job.told("host.lost") == []
        monkeypatch.undo()
        verdict = await job.end()
        assert verdict.code == 1 and verdict.cause == "d1 was lost: silent"

    run(scenario())


def test_a_script_that_fails_after_a_loss_says_so(assignment_of, leader_of):
    async def scenario() -> None:
        job = Job(assignment_of, leader_of)
        await job.begin()
        job.kill(0)
        await until(lambda: job.lost)
        job.rank.report(result(1, 5))
        verdict = await job.end()
        assert verdict.code == 5
        assert "rank 1: exit code 5; d1 had been lost: " in verdict.cause

    run(scenario())


# Told to stop


def stop(code: int = 143, cause: str = "d1 was asked to stop (SIGTERM)") -> link.StopWish:
    return link.StopWish(code, cause)


def test_before_the_start_a_stop_is_the_end(assignment_of, leader_of):
    async def scenario() -> None:
        job = Job(assignment_of, leader_of)
        await job.begin(started=False)
        job.data[0].report(stop())
        assert await job.end() == JobResult(143, "d1 was asked to stop (SIGTERM)")
        assert job.stops == []

    run(scenario())


@pytest.mark.parametrize("codes", [(143, 143), (0, 143), (143, 129)])
def test_every_script_is_told_and_the_job_ends_when_all_have_stopped(assignment_of, leader_of, codes):
    async def scenario() -> None:
        job = Job(assignment_of, leader_of)
        await job.begin()
        job.data[0].report(stop())
        await until(lambda: len(job.stops) == 4)
        assert sorted(job.stops) == ["d1", "d2", "t1/0", "t1/1"]
        assert [told["cause"] for told in job.told("job.stopping")] == ["d1 was asked to stop (SIGTERM)"]
        job.rank.report(result(1, codes[1]))
        verdict = asyncio.create_task(job.chief.ended())
        await asyncio.sleep(0.1)
        assert not verdict.done()  # rank 0 may still be writing its checkpoint
        job.chief.report(result(0, codes[0]))
        assert await verdict == await job.end() == JobResult(143, "d1 was asked to stop (SIGTERM)")

    run(scenario())


@pytest.mark.parametrize("first", [0, 1])
def test_a_stop_that_a_script_did_not_survive_in_order_has_another_code_and_says_why(assignment_of, leader_of, first):
    async def scenario() -> None:
        job = Job(assignment_of, leader_of)
        await job.begin()
        job.data[0].report(stop())
        await until(lambda: len(job.stops) == 4)
        reports = [(job.chief, result(0, 1)), (job.rank, result(1, 143))]
        for member, report in reports if first == 0 else reversed(reports):
            member.report(report)
        verdict = await job.end()
        assert verdict == JobResult(1, "d1 was asked to stop (SIGTERM); then: rank 0: exit code 1")

    run(scenario())


@pytest.mark.parametrize("first", [0, 1])
def test_of_failures_during_a_stop_the_one_that_another_caused_is_not_the_cause(assignment_of, leader_of, first):
    async def scenario() -> None:
        job = Job(assignment_of, leader_of)
        await job.begin()
        job.data[0].report(stop())
        await until(lambda: len(job.stops) == 4)
        full = link.RankResult(0, 1, "rank 0: exit code 1: No space left on device")
        shut = link.RankResult(1, 1, "rank 1: exit code 1: Horovod has been shut down")
        reports = [(job.chief, full), (job.rank, shut)]
        for member, report in reports if first == 0 else reversed(reports):
            member.report(report)
            await until(lambda: job.chief._stop_failure is not None)
        assert (await job.end()).cause.endswith("then: rank 0: exit code 1: No space left on device")

    run(scenario())


def test_the_launcher_of_a_rank_that_has_stopped_may_go_while_another_rank_saves(assignment_of, leader_of):
    async def scenario() -> None:
        job = Job(assignment_of, leader_of)
        await job.begin()
        job.data[0].report(stop())
        job.rank.report(result(1, 143))
        await until(lambda: 1 in job.chief._results)
        for task in job.rank._client._tasks:
            task.cancel()
        job.gone.append(job.rank)
        await until(lambda: job.chief._server.lost)
        verdict = asyncio.create_task(job.chief.ended())
        await asyncio.sleep(0.1)
        assert not verdict.done()
        job.chief.report(result(0, 143))
        assert await verdict == await job.end() == JobResult(143, "d1 was asked to stop (SIGTERM)")

    run(scenario())


@pytest.mark.parametrize(("other", "code"), [(143, 143), (None, 1), (0, 143)])
def test_a_rank_that_stops_unasked_stopped_the_job_only_if_all_ranks_did(assignment_of, leader_of, other, code):
    async def scenario() -> None:
        job = Job(assignment_of, leader_of)
        await job.begin()
        job.rank.report(result(1, 143))
        await until(lambda: 1 in job.chief._results)
        if other is not None:
            job.chief.report(result(0, other))
        assert await job.end() == JobResult(code, "rank 1: exit code 143")

    run(scenario())


@pytest.mark.parametrize("late", [True, False])
def test_a_stop_that_is_heard_after_a_script_has_stopped_waits_for_the_other_scripts(assignment_of, leader_of, late):
    async def scenario() -> None:
        job = Job(assignment_of, leader_of)
        await job.begin()
        job.rank.report(result(1, 143))  # the platform's signal has reached the script before the launchers
        await until(lambda: 1 in job.chief._results)
        if not late:
            job.chief.report(result(0, 143))
        job.chief.report(stop())
        verdict = asyncio.create_task(job.chief.ended())
        if late:
            await asyncio.sleep(1.5)  # longer than another cause is waited for
            assert not verdict.done()
            job.chief.report(result(0, 143))
        assert await verdict == await job.end() == JobResult(143, "d1 was asked to stop (SIGTERM)")

    run(scenario())


def test_a_cause_that_is_heard_soon_after_a_rank_stopped_unasked_is_the_cause_of_the_job(assignment_of, leader_of):
    async def scenario() -> None:
        job = Job(assignment_of, leader_of)
        await job.begin()
        job.rank.report(result(1, 143))
        await until(lambda: 1 in job.chief._results)
        job.chief.report(result(0, 7))
        assert await job.end() == JobResult(7, "rank 0: exit code 7")

    run(scenario())


def test_a_training_that_was_complete_all_the_same_has_succeeded(assignment_of, leader_of):
    async def scenario() -> None:
        job = Job(assignment_of, leader_of)
        await job.begin()
        job.rank.report(result(1))
        job.data[0].report(stop())
        await until(lambda: job.stops)
        job.chief.report(result(0))
        assert await job.end() == JobResult(0, "training is complete")

    run(scenario())


def test_the_first_of_two_stops_counts_and_scripts_are_told_once(assignment_of, leader_of):
    async def scenario() -> None:
        job = Job(assignment_of, leader_of)
        await job.begin()
        job.chief.report(stop(130, "t1/0 was asked to stop (SIGINT)"))
        job.data[1].report(stop())
        job.rank.report(result(1, 130))
        await until(lambda: 1 in job.chief._results)
        job.chief.report(result(0, 130))
        assert await job.end() == JobResult(130, "t1/0 was asked to stop (SIGINT)")
        assert sorted(job.stops) == ["d1", "d2", "t1/0", "t1/1"]
        assert len(job.told("job.stopping")) == 1

    run(scenario())


def test_ranks_that_do_not_stop_are_not_waited_for_for_ever(assignment_of, leader_of, monkeypatch):
    monkeypatch.setattr(leader_room, "STOP_S", 0.3)

    async def scenario() -> None:
        job = Job(assignment_of, leader_of)
        await job.begin()
        job.data[0].report(stop())
        verdict = await job.end()
        assert verdict.code == 1
        assert verdict.cause == "d1 was asked to stop (SIGTERM); then: not every rank had stopped after 0.3 s"

    run(scenario())


def test_what_breaks_while_a_job_stops_changes_its_code_because_nothing_may_be_saved(assignment_of, leader_of):
    async def scenario() -> None:
        job = Job(assignment_of, leader_of)
        await job.begin()
        job.data[0].report(stop())
        await until(lambda: len(job.stops) == 4)
        for task in job.rank._client._tasks:
            task.cancel()
        job.gone.append(job.rank)
        verdict = await job.end()
        assert verdict.code == 1
        assert verdict.cause.startswith("d1 was asked to stop (SIGTERM); then: rank-1 was lost: ")

    run(scenario())


def test_a_stop_without_a_code_is_never_a_success(assignment_of, leader_of):
    async def scenario() -> None:
        job = Job(assignment_of, leader_of)
        await job.begin(started=False)
        job.chief.report(stop(0))
        assert (await job.end()).code == 1

    run(scenario())
