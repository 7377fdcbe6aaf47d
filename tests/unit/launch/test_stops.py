"""Jobs that are asked to stop, over loopback connections."""

from __future__ import annotations

import pytest
from event_loop import in_event_loop, until

from tfhet.launch import leader
from tfhet.launch.job_result import JobResult
from tfhet.messages import link

pytestmark = pytest.mark.timeout(60)


@pytest.fixture(autouse=True)
def other_cause_is_soon_there(monkeypatch):
    monkeypatch.setattr(leader, "OTHER_CAUSE_S", 0.1)


CAUSE = "d1 was asked to stop"
STOPPED = JobResult(143, CAUSE)


def stop(code: int = 143, cause: str = CAUSE) -> link.StopWish:
    return link.StopWish(code, cause)


async def stopping(job_of):
    """A running job that d1 has asked to stop."""
    job = job_of()
    await job.start()
    job.data[0].report(stop())
    await until(lambda: len(job.stopped) == 3)
    return job


@pytest.mark.parametrize("code", [143, 0])
@in_event_loop
async def test_stop_before_the_start_ends_the_job(job_of, code):
    job = await job_of().join()
    job.data[0].report(stop(code))
    assert (await job.end()).code == (code or 1), "a stop is never a success"
    assert job.stopped == []


@pytest.mark.parametrize("codes", [(143, 143), (0, 143), (143, 129), (0, 0)])
@in_event_loop
async def test_stop_ends_with_the_last_script(job_of, codes):
    job = await stopping(job_of)
    job.leader.report(stop(130, "t1/0 was asked to stop"))  # the first request counts
    assert sorted(job.stopped) == ["d1", "t1/0", "t1/1"]
    assert [event["cause"] for event in job.recorded("job.stopping")] == [CAUSE]
    job.ends(1, codes[1])
    assert await job.is_undecided(), "rank 0 may still write its checkpoint"
    job.ends(0, codes[0])
    assert await job.end() == STOPPED


@in_event_loop
async def test_complete_training_is_a_success(job_of):
    job = job_of()
    await job.start()
    job.ends(1)
    job.data[0].report(stop())
    await until(lambda: job.stopped)
    job.ends(0)
    assert (await job.end()).code == 0


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize(
    "other", [(143, ""), (1, "rank 1: exit code 1: Horovod has been shut down")], ids=["stopped", "a consequence"]
)
@in_event_loop
async def test_failure_during_a_stop_is_the_cause(job_of, order, other):
    job = await stopping(job_of)
    reports = [(1, "rank 0: exit code 1: No space left on device"), other]
    for rank in order:
        job.ends(rank, *reports[rank])
        await until(lambda rank=rank: rank in job.leader._results)
    result = await job.end()
    assert result.code == 143 and result.cause.startswith(CAUSE) and result.cause.endswith(reports[0][1])


@pytest.mark.parametrize("has_stopped", [True, False])
@in_event_loop
async def test_rank_that_has_stopped_may_be_lost(job_of, has_stopped):
    job = await stopping(job_of)
    if has_stopped:
        job.ends(1, 143)
        await until(lambda: 1 in job.leader._results)
    job.leader._lost("rank-1", "silent")
    if not has_stopped:  # its checkpoint may be lost
        result = await job.end()
        assert result.code == 143 and result.cause.startswith(CAUSE) and "rank-1" in result.cause
        return
    assert await job.is_undecided()
    job.ends(0, 143)
    assert await job.end() == STOPPED


@pytest.mark.parametrize(("other", "expected"), [(143, 143), (None, 1), (0, 143), (7, 7)])
@in_event_loop
async def test_script_that_stops_unasked(job_of, other, expected):
    """It has stopped the job only if all scripts did; another failure soon after is the cause."""
    job = job_of()
    await job.start()
    job.ends(1, 143)
    await until(lambda: 1 in job.leader._results)
    if other is not None:
        job.ends(0, other)
    result = await job.end()
    assert result.code == expected and result.cause.startswith("rank 0" if other == 7 else "rank 1")


@pytest.mark.parametrize("late", [True, False])
@in_event_loop
async def test_stop_that_arrives_after_a_script_has_stopped(job_of, late):
    job = job_of()
    await job.start()
    job.ends(1, 143)  # the platform's signal reached the script before the launchers
    await until(lambda: 1 in job.leader._results)
    if not late:
        job.ends(0, 143)
    job.leader.report(stop())
    if late:
        assert await job.is_undecided(0.6), "longer than the wait for another cause"
        job.ends(0, 143)
    assert await job.end() == STOPPED


@pytest.mark.parametrize("ends", [False, True])
@in_event_loop
async def test_stop_has_a_limit(job_of, monkeypatch, ends):
    monkeypatch.setattr(leader, "STOP_S", 0.3)
    job = await stopping(job_of)
    if ends:  # the results are in the socket while the leader is paused
        job.ends(0, 143)
        job.ends(1, 143)
        job.pause(0.5)
    result = await job.end()
    assert result.code == 143 and result.cause.startswith(CAUSE)
    assert ("0.3 s" in result.cause) is not ends
