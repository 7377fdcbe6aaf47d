"""Assignments of launchers in a job on this machine, leaders whose data plane starts nothing, and whole links."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest

from tfhet.events import Event, ignore
from tfhet.launch import LaunchSettings
from tfhet.launch.assignment import Assignment
from tfhet.launch.follower import Follower
from tfhet.launch.job_result import JobResult
from tfhet.launch.leader import Leader
from tfhet.messages import link
from tfhet.planes import LauncherSide, Outlets


@pytest.fixture
def assignment_of(environment_of: Callable[..., dict[str, str]]) -> Callable[..., Assignment]:
    """`assignment_of(host, rank=None, *arguments, data=..., dnn=..., ranks=1)`: the assignment of that launcher."""

    def build(host: str, rank: int | None = None, *arguments: object, **shape: object) -> Assignment:
        settings, _ = LaunchSettings.parse([str(argument) for argument in arguments])
        return Assignment.of(environment_of(host, rank, **shape), settings)

    return build


@pytest.fixture
def side_of() -> Callable[[Assignment], LauncherSide]:
    """`side_of(assignment)`: the launcher's side of its data plane, which has started nothing."""

    def build(assignment: Assignment) -> LauncherSide:
        outlets = Outlets(lambda line: None, lambda report: None, ignore, lambda order: None, 20.0, bytes(32))
        return assignment.plane.launcher_side(assignment.plane_settings, assignment.place, outlets)

    return build


@pytest.fixture
def leader_of(side_of: Callable[[Assignment], LauncherSide]) -> Callable[..., Leader]:
    """`leader_of(assignment, observer, ...)`: a leader whose data plane starts nothing."""

    def build(assignment: Assignment, *arguments: object, **options: object) -> Leader:
        return Leader(assignment, side_of(assignment), *arguments, **options)

    return build


class Job:
    """The launchers of a job of some data hosts and one dnn host with two ranks, over loopback connections."""

    LEASE_S = 1.0

    def __init__(self, assignment_of: Any, leader_of: Any, *arguments: object, data: tuple[str, ...] = ("d1",)):
        shape = {"ranks": 2, "data": data}
        words = ("--lease_s", self.LEASE_S, "--ready_timeout_s", 20, *arguments)
        self.events: list[Event] = []
        self.lost: list[str] = []
        self.stopped: list[str] = []
        self.patient: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def stop_of(name: str) -> Callable[[], None]:
            return lambda: self.stopped.append(name)

        self.leader: Leader = leader_of(
            assignment_of("t1", 0, *words, **shape),
            self.events.append,
            on_stop=stop_of("t1/0"),
            on_host_lost=self.lost.append,
        )
        self.rank = Follower(assignment_of("t1", 1, *words, **shape), on_stop=stop_of("t1/1"))
        self.data = [Follower(assignment_of(host, None, *words, **shape), on_stop=stop_of(host)) for host in data]
        self.gone: list[Follower] = []

    @property
    def followers(self) -> list[Follower]:
        return [one for one in (self.rank, *self.data) if one not in self.gone]

    async def join(self) -> Job:
        await self.leader.join()
        await asyncio.gather(*(follower.join() for follower in self.followers))
        return self

    def serves(self, index: int, **facts: object) -> None:
        """Reports that a data host serves; index -1: the leader's host."""
        member = self.leader if index < 0 else self.data[index]
        host = "t1" if index < 0 else f"d{index + 1}"
        member.report(link.PlaneReport({"type": "serving", "host": host, **facts}))

    def registers(self) -> None:
        """Reports that all workers are registered."""
        self.data[0].report(link.PlaneReport({"type": "registered", "workers": len(self.data)}))

    async def start(self) -> link.Start:
        """Joins, reports that all is ready, and returns the order to start."""
        await self.join()
        return await self.start_joined()

    async def start_joined(self) -> link.Start:
        for index in range(-1, len(self.data)):
            self.serves(index)
        self.registers()
        return await self.leader.started()

    def ends(self, rank: int, code: int = 0, cause: str = "") -> None:
        """Reports the end of the script of a rank."""
        member = self.leader if rank == 0 else self.rank
        member.report(link.RankResult(rank, code, cause or f"rank {rank}: exit code {code}"))

    def kill(self, follower: Follower) -> None:
        """Stops a follower as if its process had been killed."""
        for task in follower._client._tasks:
            task.cancel()
        self.gone.append(follower)

    def recorded(self, name: str) -> list[dict[str, Any]]:
        return [dict(event.fields) for event in self.events if event.name == name]

    def pause(self, seconds: float) -> None:
        """Blocks this process, as if it had been stopped."""
        time.sleep(seconds)

    async def is_undecided(self, seconds: float = 0.1) -> bool:
        """Whether the job continues for some time."""
        await asyncio.sleep(seconds)
        return not self.leader._result.done()

    async def all_results(self) -> list[JobResult]:
        """The result of the leader and of each follower that is left; they leave."""

        async def leave(member: Leader | Follower) -> JobResult:
            result = await member.ended()
            await member.leave(result.code, result.cause, self.patient)
            return result

        results = await asyncio.gather(leave(self.leader), *map(leave, self.followers))
        for follower in self.gone:
            await follower.leave(1, "", self.patient)
        return list(results)

    async def end(self) -> JobResult:
        """The job result, which is the same for all."""
        (result,) = set(await self.all_results())
        return result


@pytest.fixture
def job_of(assignment_of: Any, leader_of: Any) -> Callable[..., Job]:
    """`job_of(*arguments, data=("d1",))`: the launchers of a job, in a running event loop."""

    def build(*arguments: object, **options: Any) -> Job:
        return Job(assignment_of, leader_of, *arguments, **options)

    return build
