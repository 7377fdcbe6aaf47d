from __future__ import annotations

import asyncio

from tfhet.events import ignore
from tfhet.launch.job_result import JobResult
from tfhet.launch.restarts import VAIN_LIMIT, Restarts
from tfhet.messages import link


def restarted(process: str, host: str = "d1") -> link.Restarted:
    return link.Restarted(host, process, -9, f"{process} on {host} was killed by SIGKILL")


def test_a_process_that_is_started_again_and_again_while_no_rank_gets_a_batch_ends_the_job():
    restarts = Restarts(lambda: 7)
    assert {restarts.add(restarted("worker-0")) for _ in range(VAIN_LIMIT)} == {None}
    cause = restarts.add(restarted("worker-0"))
    assert cause is not None
    assert "by SIGKILL; it was started again 12 times, and no rank got a batch" in cause
    assert "log of d1" in cause and "memory" in cause
    assert restarts.count == VAIN_LIMIT + 1


def test_restarts_under_a_script_that_does_not_tell_its_progress_are_not_in_vain():
    restarts = Restarts(lambda: None)
    assert {restarts.add(restarted("worker-0")) for _ in range(10 * VAIN_LIMIT)} == {None}
    assert restarts.count == 10 * VAIN_LIMIT


def test_many_processes_that_are_started_again_at_once_do_not_end_the_job():
    restarts = Restarts(lambda: 7)
    for _ in range(VAIN_LIMIT):
        for host in ("d1", "d2"):
            assert restarts.add(restarted("worker-0", host)) is restarts.add(restarted("worker-1", host)) is None


def test_restarts_between_which_a_rank_gets_a_batch_are_not_in_vain():
    batches = iter(number // VAIN_LIMIT for number in range(1000))
    restarts = Restarts(lambda: next(batches))
    assert {restarts.add(restarted("worker-0")) for _ in range(10 * VAIN_LIMIT)} == {None}
    assert restarts.count == 10 * VAIN_LIMIT


def test_the_leader_ends_the_job_over_restarts_in_vain(assignment_of, leader_of):
    async def scenario() -> JobResult:
        leader = leader_of(assignment_of("t1", 0), ignore, progress=lambda: 3)
        for _ in range(VAIN_LIMIT):
            leader.report(restarted("worker-0"))
        assert not leader._result.done()
        leader.report(restarted("worker-0"))
        return await asyncio.wait_for(leader.ended(), 5)

    result = asyncio.run(scenario())
    assert result.code == 1 and "started again 12 times" in result.cause
