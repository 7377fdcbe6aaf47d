"""Leader and followers over loopback connections: the start, the end, losses and failures of a job."""

from __future__ import annotations

import asyncio
import threading

import pytest
from event_loop import in_event_loop, until

from tfhet.cluster import Rank, check_free
from tfhet.errors import ClusterError, NotReady, UsageError
from tfhet.events import Event, ignore
from tfhet.launch import LaunchSettings, leader
from tfhet.launch.account import VAIN_LIMIT, Restarts
from tfhet.launch.assignment import Assignment
from tfhet.launch.follower import Follower, checked_order
from tfhet.launch.job_result import JobResult
from tfhet.messages import link
from tfhet.planes.tf_service.plane import TfService
from tfhet.schema import MessageError, UnknownKind

pytestmark = pytest.mark.timeout(60)

COMPLETE = JobResult(0, "training is complete")


# Start


@in_event_loop
async def test_ranks_start_when_everything_is_ready(job_of):
    job = await job_of().join()
    starts = [asyncio.create_task(one.started()) for one in (job.leader, *job.followers)]
    for report in (
        lambda: job.serves(0, native=["tone", "jpeg"]),
        job.registers,
        lambda: job.serves(-1, native=["jpeg", "sampling"]),
    ):
        await asyncio.sleep(0.1)
        assert not any(task.done() for task in starts)
        report()
    orders = await asyncio.gather(*starts)
    assert orders[0] == orders[1] == orders[2]
    assert orders[0].job_id.startswith("job-") and orders[0].plane["native"] == ["jpeg"]
    assert orders[0].strategy == {}, "ranks that another program started need no meeting"
    job.ends(0)
    job.ends(1)
    assert await job.end() == COMPLETE


@pytest.mark.parametrize("joins", [False, True])
@in_event_loop
async def test_missing_hosts_and_servers_are_named(job_of, joins):
    job = job_of("--ready_timeout_s", 0.5)
    await asyncio.gather(job.leader.join(), job.rank.join(), *([job.data[0].join()] if joins else []))
    with pytest.raises(NotReady, match="d1, t1; 0 of 1" if joins else "d1"):
        await job.leader.started()
    job.leader.report(link.Failed(1, "not ready"))
    if not joins:
        job.gone.append(job.data[0])
    assert (await job.end()).code == 1


@in_event_loop
async def test_follower_without_a_leader_gives_up(job_of):
    job = job_of("--ready_timeout_s", 1.0)
    with pytest.raises(NotReady):
        await job.data[0].join()
    with pytest.raises(UsageError):
        job.data[0].report(link.Failed(1, ""))
    await job.data[0].leave(1, "", job.patient)


@in_event_loop
async def test_late_hosts_learn_of_an_early_failure(job_of):
    job = job_of()
    await job.leader.join()
    job.leader.report(link.Failed(2, "t1/0: no such file"))
    result = await job.leader.ended()
    leaving = asyncio.create_task(job.leader.leave(result.code, result.cause, job.patient))
    await asyncio.sleep(0.2)
    assert not leaving.done()
    for late in job.followers:
        await late.join()
        assert await late.ended() == result
        await late.leave(2, "", job.patient)
    await leaving
    assert job.leader.exit_codes == {"d1": 2, "rank-1": 2}


@in_event_loop
async def test_stopped_leader_does_not_wait_for_late_hosts(job_of, control_port):
    job = job_of()
    await job.leader.join()
    leaving = asyncio.create_task(job.leader.leave(143, "stopped", job.patient))
    await asyncio.sleep(0.1)
    assert not leaving.done()
    job.patient.set_result(None)
    await asyncio.wait_for(leaving, 10)
    check_free(control_port)


@in_event_loop
async def test_busy_control_port_is_named(job_of, control_port):
    first, second = job_of(), job_of()
    await first.leader.join()
    with pytest.raises(UsageError, match=str(control_port)):
        await second.leader.join()
    await asyncio.wait_for(second.leader.leave(2, "", second.patient), 5)
    first.patient.set_result(None)
    await first.leader.leave(1, "", first.patient)


# Ranks that tfhet numbered


def numbered(environment_of, host: str, rank: int, size: int, per_host: int) -> Assignment:
    """The assignment of a launcher on one of two dnn hosts, which counts so many ranks."""
    env = environment_of(host, data=(), dnn=("t1", "t2"))
    env |= Rank(rank, size, rank % per_host, per_host, "tfhet").to_env()
    return Assignment.of(env, LaunchSettings.parse(["--lease_s", "1", "--ready_timeout_s", "20"])[0])


@in_event_loop
async def test_leader_opens_the_meeting_of_the_ranks(environment_of, leader_of):
    pytest.importorskip("horovod.runner")
    events: list[Event] = []
    chief = leader_of(numbered(environment_of, "t1", 0, 2, 1), events.append)
    rank = Follower(numbered(environment_of, "t2", 1, 2, 1))
    await chief.join()
    await rank.join()
    start, theirs = await asyncio.gather(chief.started(), rank.started())
    assert start == theirs
    assert (start.strategy["address"], start.strategy["interface"]) == ("127.0.0.1", "eth0")
    assert chief._meeting._server._peers == {"127.0.0.1"}  # the address of the other launcher
    _, writer = await asyncio.open_connection("127.0.0.1", start.strategy["port"])
    writer.close()
    chief.report(link.RankResult(0, 3, "failed"))
    result, patient = await chief.ended(), asyncio.get_running_loop().create_future()
    await asyncio.gather(*(one.leave(result.code, result.cause, patient) for one in (chief, rank)))
    check_free(start.strategy["port"])
    (ranks,) = [event.fields for event in events if event.name == "job.ranks"]
    assert ranks == {"by": "alone", "size": 2, "per_host": 1}


@in_event_loop
async def test_slow_meeting_delays_no_lease(job_of):
    opens = threading.Event()

    class Meeting:
        load = close = staticmethod(lambda: None)

        def open(self, *_: object) -> dict[str, object]:
            opens.wait(5.0)  # as if a name service hung
            return {}

    job = await job_of("--ready_timeout_s", 2, "--lease_s", 0.5).join()
    job.leader._meeting = Meeting()
    with pytest.raises(NotReady, match="meeting"):
        await job.start_joined()
    opens.set()
    assert job.leader._server.here == {"rank-1", "d1"}
    for one in (*job.followers, job.leader):
        await one.leave(1, "not ready", job.patient)


@pytest.mark.parametrize(("here", "there"), [((0, 2, 1), (2, 4, 2)), ((0, 4, 2), (1, 2, 1))], ids=["more", "fewer"])
@in_event_loop
async def test_other_number_of_ranks_ends_the_job(environment_of, leader_of, here, there):
    chief = leader_of(numbered(environment_of, "t1", *here), ignore)
    rank = Follower(numbered(environment_of, "t2", *there))
    await chief.join()
    joining = asyncio.create_task(rank.join())
    result = await chief.ended()
    assert result.code == 2 and "--processes_per_host" in result.cause
    assert f"of {here[1]}:" in result.cause and f"start {here[2]}," in result.cause
    (outcome,) = await asyncio.gather(joining, return_exceptions=True)
    assert outcome is None or isinstance(outcome, ClusterError)
    patient = asyncio.get_running_loop().create_future()
    async with asyncio.timeout(10):  # the missing ranks never join
        await asyncio.gather(chief.leave(2, result.cause, patient), rank.leave(2, "", patient))


# End


@in_event_loop
async def test_job_succeeds_with_its_last_rank(job_of):
    job = await job_of().join()
    job.ends(1)
    job.ends(1)
    assert await job.is_undecided() and job.leader.trained_s is None
    job.ends(0)
    assert await job.end() == COMPLETE
    assert job.leader.exit_codes == {"rank-1": 0, "d1": 0} and job.leader.trained_s is not None
    names = [event.name for event in job.events if event.name.startswith(("rank.", "job."))]
    assert names == ["job.ranks", "rank.ended", "rank.ended", "rank.ended", "job.decided"]


@in_event_loop
async def test_first_failure_decides(job_of):
    job = await job_of().join()
    job.ends(1, 3)
    await job.leader.ended()
    job.ends(0, 4)
    assert await job.end() == JobResult(3, "rank 1: exit code 3")
    assert job.leader.exit_codes == {"rank-1": 3, "d1": 3}


@pytest.mark.parametrize("others_end", [False, True], ids=["one hangs", "all have ended"])
@in_event_loop
async def test_consequence_names_the_rank_that_is_left(job_of, monkeypatch, others_end):
    monkeypatch.setattr(leader, "OTHER_CAUSE_S", 0.1)
    job = await job_of().join()
    broken = "rank 0: exit code 1: Connection closed by peer"
    job.ends(0, 1, f"{broken}\nthe log")
    if others_end:
        job.ends(1)
    result = await job.end()
    assert result.code == 1 and result.log == ["the log"] and result.headline.startswith(broken)
    assert result.headline.endswith("rank 1") is not others_end


@pytest.mark.parametrize(
    ("report", "code", "cause"),
    [
        (link.Failed(2, "d1: port 7 is in use\nlast line"), 2, "d1: port 7"),
        (link.Failed(0, "worker-0 ended"), 1, "worker-0 ended"),  # a failure is never a success
        (None, 1, "d1 "),
    ],
    ids=["failed", "code 0", "left"],
)
@in_event_loop
async def test_early_failure_of_a_host_ends_the_job(job_of, report, code, cause):
    job = await job_of().join()
    if report is not None:
        job.data[0].report(report)
    else:
        await job.data[0].leave(0, "", job.patient)
        job.gone.append(job.data[0])
    result = await job.end()
    assert result.code == code and result.cause.startswith(cause)
    assert job.leader.lost_hosts == {}


@in_event_loop
async def test_followers_of_a_killed_leader_end(job_of):
    job = await job_of().join()
    await job.leader._server.close()
    rank, data = await asyncio.gather(*(one.ended() for one in job.followers))
    assert (rank.code, data.code) == (1, 1) and data.cause.startswith("d1 ") and "lease" in data.cause
    await asyncio.gather(*(one.leave(1, "", job.patient) for one in job.followers))


@in_event_loop
async def test_paused_leader_learns_the_cause_first(job_of):
    job = await job_of().join()
    job.ends(0, 129)  # a possible consequence of another rank's failure
    job.ends(1, 3)
    job.pause(1.3)  # the report is in the socket
    assert await job.end() == JobResult(3, "rank 1: exit code 3")


@pytest.mark.parametrize("loses", ["", "rank-1", "d1"])
@in_event_loop
async def test_pause_at_the_end_ends_all_alike(job_of, loses):
    job = await job_of().join()
    job.leader._begun = True
    job.ends(0)
    job.ends(1)
    for follower in job.followers:
        if follower._client.name == loses:
            follower._client._lose("the leader was silent")
    job.pause(1.3)
    results = await job.all_results()
    assert {result.code for result in results} == {1 if loses else 0}
    assert results[0].cause.startswith(loses or COMPLETE.cause)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"type": "rankresult", "rank": 2, "code": 0, "cause": ""}, "rank 2"),
        ({"type": "failed", "code": 256, "cause": ""}, "256"),
        ({"type": "planereport", "facts": {"type": "registered", "workers": "many"}}, "'many'"),
    ],
)
@in_event_loop
async def test_wrong_report_ends_the_job(job_of, body, field):
    job = await job_of().join()
    for each in ({"type": "odd"}, body):  # a new kind of report does not
        job.data[0]._client.send(each)
    result = await job.end()
    assert result.code == 1 and result.cause.startswith("d1 ") and field in result.cause


@in_event_loop
async def test_wrong_order_ends_the_follower(job_of):
    job = await job_of().join()
    job.leader._server.send("rank-1", {"type": "start", "job_id": "j", "plane": {"dispatcher": 1}, "strategy": {}})
    result = await job.rank.ended()
    assert result.code == 1 and result.cause.startswith("t1/1 ") and "`dispatcher` is 1" in result.cause
    await job.rank.leave(result.code, "", job.patient)
    job.gone.append(job.rank)
    assert (await job.end()).code == 1


# Lost data hosts

TWO = ("d1", "d2")


@pytest.mark.parametrize("how", ["killed", "failed", "left"])
@in_event_loop
async def test_job_continues_without_a_data_host(job_of, how):
    job = job_of(data=TWO)
    await job.start()
    assert job.leader.serving == TWO
    if how == "killed":
        job.kill(job.data[1])
    elif how == "failed":
        job.data[1].report(link.Failed(3, "worker-0 died too often\nlast words"))
    if how != "killed":
        await job.data[1].leave(7, "", job.patient)
        job.gone.append(job.data[1])
        await until(lambda: job.leader.exit_codes == {"d2": 7})
    await until(lambda: job.lost)
    (lost,) = job.recorded("host.lost")
    assert (lost["host"], lost["serving"], lost["reason"]) == ("d2", ["d1"], job.leader.lost_hosts["d2"])
    assert how != "failed" or lost["reason"] == "worker-0 died too often", "it is lost once"
    assert job.lost == ["d2"] and job.leader.serving == ("d1",)
    job.ends(0)
    job.ends(1)
    assert await job.end() == COMPLETE


@pytest.mark.parametrize("can_go_local", [True, False])
@in_event_loop
async def test_losing_all_data_hosts_ends_the_job(job_of, monkeypatch, can_go_local):
    monkeypatch.setattr(TfService, "goes_local", can_go_local)
    job = job_of(data=TWO)
    await job.start()
    for host in TWO:
        job.leader._lost(host, "silent")
    result = await job.end()
    assert result.code == 1 and result.cause.startswith("d2 ")
    assert ("--on_data_loss local" in result.cause) is can_go_local
    assert job.lost == ["d1"] and sorted(job.leader.lost_hosts) == ["d1", "d2"]


@pytest.mark.parametrize(
    ("arguments", "serving"), [(("--on_data_loss", "local"), ()), (("--dnn_host_workers", 1), ("t1",))]
)
@in_event_loop
async def test_job_may_continue_without_data_hosts(job_of, arguments, serving):
    job = await job_of(*arguments).join()
    job.leader._begun = True
    job.leader._lost("d1", "silent")
    assert job.leader.serving == serving and job.lost == ["d1"]
    assert job.recorded("host.lost")[0]["serving"] == list(serving)
    job.ends(0)
    job.ends(1)
    assert await job.end() == COMPLETE


@in_event_loop
async def test_plane_that_cannot_continue_ends_the_job(job_of, monkeypatch):
    job = job_of(data=TWO)
    await job.start()
    monkeypatch.setattr(job.leader._side, "lost", lambda host: False)
    job.leader._lost("d1", "silent")
    assert job.lost == job.recorded("host.lost") == []
    result = await job.end()
    assert result.code == 1 and result.cause.startswith("d1 ")


@in_event_loop
async def test_failure_after_a_loss_names_it(job_of):
    job = job_of(data=TWO)
    await job.start()
    job.leader._lost("d1", "silent")
    job.ends(1, 5)
    result = await job.end()
    assert result.code == 5 and "rank 1: exit code 5" in result.cause and "d1" in result.cause


# Restarts of servers


def restarted(process: str, host: str = "d1") -> link.Restarted:
    return link.Restarted(host, process, -9, f"{process} on {host} was killed")


@in_event_loop
async def test_restarts_without_progress_end_the_job(assignment_of, leader_of):
    one = leader_of(assignment_of("t1", 0), ignore, progress=lambda: 3)
    for _ in range(VAIN_LIMIT + 1):
        assert not one._result.done()
        one.report(restarted("worker-0"))
    result = await asyncio.wait_for(one.ended(), 5)
    assert result.code == 1 and "worker-0 on d1" in result.cause and str(VAIN_LIMIT) in result.cause


@pytest.mark.parametrize(
    ("progress", "processes"),
    [
        (lambda number: None, ["worker-0"] * 5),  # a script that does not report its progress
        (lambda number: number // VAIN_LIMIT, ["worker-0"] * 5),
        (lambda number: 7, ["worker-0", "worker-1", "worker-2"]),
    ],
    ids=["unknown", "progress", "many processes"],
)
def test_restarts_with_progress_do_not(progress, processes):
    batches = iter(range(1000))
    restarts = Restarts(lambda: progress(next(batches)))
    for process in processes:
        assert {restarts.add(restarted(process)) for _ in range(VAIN_LIMIT)} == {None}
    assert restarts.count == len(processes) * VAIN_LIMIT


SERVICE = {"dispatcher": "t1:6000", "workers": 1, "data_hosts": ["d1"], "native": ["tone"]}
START = {"type": "start", "job_id": "job-1", "plane": SERVICE, "strategy": {}}
RING = {"address": "algo-1", "port": 4000, "interface": "eth0"}


@pytest.mark.parametrize(
    ("message", "field"),
    [
        ({**START, "plane": None}, "`plane` is None"),
        ({**START, "plane": {**SERVICE, "native": "tone"}}, "tf_service: `native` is 'tone'"),
        ({**START, "strategy": {"port": 1}}, "horovod: .*`address`"),
        ({**START, "strategy": {**RING, "port": -1}}, "horovod: `port` is -1"),
    ],
)
def test_a_wrong_order_to_start_is_named(assignment_of, message, field):
    with pytest.raises(MessageError, match=f"^.?start.*{field}"):
        checked_order(message, assignment_of("t1", 1, ranks=2))


def test_later_version_has_unknown_orders(assignment_of):
    here = assignment_of("t1", 1, ranks=2)
    start = {**START, "plane": {**SERVICE, "native": None}, "strategy": RING}
    assert checked_order({**start, "something": "new"}, here) == link.Start("job-1", start["plane"], RING)
    assert checked_order({"type": "stop", "something": "new"}, here) == link.Stop()
    with pytest.raises(UnknownKind):
        checked_order({"type": "pause"}, here)
