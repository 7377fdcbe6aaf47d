"""The leader, the launcher of rank 0: waits until all is ready, starts the ranks, and decides the job result."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from typing import Any

import msgspec

from tfhet.clock import SYSTEM
from tfhet.cluster import job_name
from tfhet.control import LinkServer
from tfhet.coroutines import in_thread, later
from tfhet.errors import NotReady
from tfhet.events import Event, Observer
from tfhet.launch.account import Account, Restarts
from tfhet.launch.assignment import Assignment
from tfhet.launch.job_result import STOPPED_CODES, JobResult
from tfhet.launch.script import SCRIPT_GRACE_S
from tfhet.messages import link, rank
from tfhet.planes import LauncherSide
from tfhet.schema import MessageError, UnknownKind, parse
from tfhet.strategies import Claim, Meeting

LINGER_S = 2.0
"""Seconds that the leader waits for the followers to confirm the end."""
STOP_S = SCRIPT_GRACE_S + 2.0
"""Seconds after which a job that is stopping is over, even without the results of all ranks."""
OTHER_CAUSE_S = 1.0
"""Seconds, in addition to a quarter of the lease, in which a failure may turn out to be the consequence of another."""


class Leader:
    """The link in the launcher of rank 0, which handles its own reports like reports of followers."""

    def __init__(
        self,
        assignment: Assignment,
        side: LauncherSide,
        observer: Observer,
        *,
        on_stop: Callable[[], None] = lambda: None,
        on_host_lost: Callable[[str], None] = lambda host: None,
        on_gathered: Callable[[rank.Gathered], None] = lambda gathered: None,
        progress: Callable[[], int | None] = lambda: None,
    ):
        """on_stop: called once, when the scripts must stop. on_host_lost: called with a lost data host without which
        the job continues. on_gathered: with values of all ranks, for this rank's script. progress: see `Restarts`."""
        self.place = assignment.place
        self.job_id = f"{job_name(self.place.env) or 'job'}-{secrets.token_hex(4)}"
        self.exit_codes: dict[str, int] = {}
        """Exit codes of the other launchers, by member, which they report when they leave."""
        self.trained_s: float | None = None
        """End of the last rank on the monotonic clock."""
        self.restarts = Restarts(progress)
        self.lost_hosts: dict[str, str] = {}
        """Data hosts without which the job continued, with the reason of each loss."""
        self.account = Account(self.place.size, self._decide)
        self._on_stop, self._on_host_lost, self._on_gathered = on_stop, on_host_lost, on_gathered
        self._assignment, self._settings, self._side = assignment, assignment.settings, side
        self._observer = observer
        self._server = LinkServer(
            self.place.followers,
            assignment.secret,
            assignment.settings.lease_s,
            on_message=self._heard,
            on_lost=self._lost,
            on_left=self._left,
            observer=self._seen,
        )
        self._meeting: Meeting | None = None
        self._differs = self._begun = False
        self._joined_s: float | None = None
        self._listens_at = ""
        self._stopping: JobResult | None = None
        self._ended_before_stop = False
        """Whether the script of a rank had ended with 0 before the stop."""
        self._stop_failure: JobResult | None = None
        self._stopped: set[str] = set()
        self._results: dict[int, int] = {}
        self._changed = asyncio.Event()
        self._result: asyncio.Future[JobResult] = asyncio.get_running_loop().create_future()

    async def join(self) -> None:
        """Opens the link. Raises UsageError for an unusable port or address, and an impossible number of ranks."""
        self._listens_at = await in_thread(self.place.listening, self.place.link_address)  # it may look a name up
        await self._server.start(self._listens_at, self.place.ports.control)
        self._joined_s = SYSTEM.monotonic()
        place, source = self.place, self._assignment.source
        assert source is not None
        self._tell("job.ranks", by=source.starter, size=place.size, per_host=place.local_size)
        self._meeting = self._assignment.strategy.meeting(place.roles.dnn_hosts, place.local_size, source)

    async def started(self) -> link.Start:
        """Waits until all hosts and their processes are ready, and sends the order to start to all launchers. Raises
        NotReady, and UsageError if the ranks need a package that is not installed."""
        limit_s, meeting = self._settings.ready_timeout_s, self._meeting
        where = self.place.link_address, self.place.identity.cluster.network_interface, self._listens_at
        try:
            async with asyncio.timeout(limit_s):
                if meeting is not None:
                    await in_thread(meeting.load)  # in a thread, so that leases are renewed meanwhile
                await self._server.wait_joined(limit_s)
                while self._side.missing():
                    self._changed.clear()
                    await self._changed.wait()
                peers = self._server.addresses
                opened = {} if meeting is None else await in_thread(meeting.open, *where, peers)  # it may look names up
                facts = {**self._server.facts, self.place.member: self._assignment.facts}
                order = await in_thread(self._assignment.strategy.order, opened, Claim.of_all(facts), self.place)
        except TimeoutError:
            raise NotReady(f"not ready after {limit_s:g} s: {self._missing()}") from None
        start = link.Start(self.job_id, dict(self._side.order()), dict(order))
        self._server.broadcast(start)
        self._begun = True
        return start

    def report(self, report: link.Report) -> None:
        """Handles a report of this launcher like a report of a follower."""
        self._heard(self.place.member, report)

    async def ended(self) -> JobResult:
        return await asyncio.shield(self._result)

    def clock_offset(self) -> tuple[float, float]:
        return 0.0, 0.0  # from itself

    async def leave(self, code: int, cause: str, hurry: asyncio.Future[Any]) -> None:
        """Sends the job result to all followers, waits briefly for them to leave, and closes the link. If hosts are
        starting, it stays until the end of `ready_timeout_s`, or `hurry` is done: they try to join that long."""
        closing = [in_thread(self._meeting.close)] if self._meeting is not None else []
        await asyncio.gather(self._end(code, cause, hurry), *closing)

    async def _end(self, code: int, cause: str, hurry: asyncio.Future[Any]) -> None:
        late_s = 0.0
        # Members of a job with another number of ranks are refused, so the leader does not wait for them.
        in_vain = self._differs and not self._server.missing & {*self.place.roles.other_hosts}
        if self._joined_s is not None and self._stopping is None and not in_vain:
            late_s = self._settings.ready_timeout_s - (SYSTEM.monotonic() - self._joined_s)
        ending = asyncio.create_task(self._server.end(code, cause, LINGER_S, late_s))
        await asyncio.wait({ending, hurry}, return_when=asyncio.FIRST_COMPLETED)
        if not ending.done():
            ending.cancel()
            await asyncio.gather(ending, return_exceptions=True)
            ending = asyncio.create_task(self._server.end(code, cause, LINGER_S))
        staying = await ending
        self.exit_codes.update(self._server.left)
        if staying:
            self._tell("job.left_behind", members=sorted(staying))

    def _missing(self) -> str:
        absent = sorted(self._server.missing)
        parts = [f"{', '.join(absent)} did not join" if absent else None, self._side.missing()]
        return "; ".join(part for part in parts if part) or "the ranks' meeting is not open"

    def _seen(self, event: Event) -> None:
        """Records an event of the link. A new member may show that its host starts another number of ranks."""
        self._observer(event)
        member = str(event.fields.get("member", ""))
        if self._begun or not self._assignment.numbers_ranks or not member.startswith("rank-"):
            return
        theirs = self._server.facts.get(member, {})
        refused = event.name == "link.member_refused" and not event.fields["is_expected"]
        if refused or (event.name == "link.member_joined" and theirs.get("ranks") != self.place.size):
            self._differs = True
            self._decide(2, self._assignment.rank_conflict(member, theirs))

    def _heard(self, member: str, message: dict[str, Any] | link.Report) -> None:
        try:
            self._take(member, parse(message, link.Report))
        except MessageError as error:
            if not isinstance(error, UnknownKind):  # else from a later version of tfhet
                self._take(member, link.Failed(1, f"{member} sent a report that is wrong: {error}"))

    def _take(self, member: str, report: link.Report) -> None:
        match report:
            case link.PlaneReport():
                self._side.on_report(report.facts)
            case link.ScriptReport():
                if (gathered := self.account.heard(report)) is not None:
                    self._server.broadcast(gathered)
                    self._on_gathered(gathered)
            case link.Restarted():
                self._tell("service.restarted", **msgspec.structs.asdict(report))
                if why := self.restarts.add(report):
                    self._decide(1, why)
            case link.RankResult():
                if report.rank >= self.place.size:
                    raise MessageError(f"result: there is no rank {report.rank}")
                self._rank_ended(member, report)
            case link.StopWish():
                self._stop(JobResult(report.code or 1, report.cause))
            case link.Failed():
                self._gone(member, report.cause.split("\n", 1)[0], report.code or 1, report.cause)
        self._changed.set()

    def _rank_ended(self, member: str, report: link.RankResult) -> None:
        result = JobResult(report.code, report.cause)
        self._tell("rank.ended", rank=report.rank, code=report.code, cause=result.headline)
        self._results[report.rank] = report.code
        if self._stopping is None and report.code:
            self._rank_failed(result)
            return
        if report.code in STOPPED_CODES:
            self._stopped.add(member)
        elif self._stop_failure is None or self._assignment.strategy.is_consequence(self._stop_failure.headline):
            self._stop_failure = result
        is_failing = self._stopping is None and any(self._results.values())
        if self._assignment.strategy.is_over(self._results, self.place.size) and not is_failing:
            self.trained_s = SYSTEM.monotonic()
            if self._stop_failure is not None:
                self._decide(self._stop_failure.code, self._stop_failure.cause)
            elif self._stopping is not None and (any(self._results.values()) or not self._ended_before_stop):
                self._finish(self._stopping)
            else:
                complete = JobResult(0, "training is complete")
                self._server.confirm(link.Confirm(), lambda: self._finish(complete))

    def _rank_failed(self, result: JobResult) -> None:
        result = result.plus("".join(f"; {host} had been lost: {why}" for host, why in self.lost_hosts.items()))
        is_consequence = self._assignment.strategy.is_consequence(result.headline)
        if result.code not in STOPPED_CODES and not is_consequence:
            self._decide(result.code, result.cause)
            return

        def decide() -> None:
            # A script that was stopped by another program than its launcher: the job was, if all scripts were.
            all_stopped = len(self._results) == self.place.size and STOPPED_CODES.issuperset(self._results.values())
            if result.code not in STOPPED_CODES or (self._stopping is None and not all_stopped):
                left = [str(rank) for rank in range(self.place.size) if rank not in self._results]
                awaited = f"; it may have waited for rank {', '.join(left)}" * bool(is_consequence and left)
                self._decide(1 if result.code in STOPPED_CODES else result.code, result.plus(awaited).cause)
            elif all_stopped:  # else the stop that was asked for meanwhile waits for the others
                self._finish(self._stopping or result)

        later(self._settings.lease_s / 4 + OTHER_CAUSE_S, decide)  # others may report their failure later

    def _stop(self, result: JobResult) -> None:
        """Orders all scripts to stop; the job is over when all have stopped, or `STOP_S` later."""
        if self._stopping is not None:
            return
        self._stopping, self._ended_before_stop = result, 0 in self._results.values()
        if not self._begun:
            self._finish(result)
            return
        self._tell("job.stopping", cause=result.headline)
        self._server.broadcast(link.Stop())
        self._on_stop()
        later(STOP_S, self._decide, 1, f"not every rank had stopped after {STOP_S:g} s")

    def _lost(self, member: str, reason: str) -> None:
        self._gone(member, reason, 1, f"{member} was lost: {reason}")

    def _left(self, member: str, code: int) -> None:
        self.exit_codes[member] = code
        why = f"(exit code {code})"  # it has failed and could not say why
        self._gone(member, f"it left {why}", code or 1, f"{member} left before the end {why}")

    def _gone(self, member: str, reason: str, code: int, cause: str) -> None:
        """Continues without a data host that was lost because of `reason`; otherwise ends the job with `code` and
        `cause`, unless the job is stopping and the lost launcher's rank has stopped."""
        if self._begun and member in self._assignment.serving_hosts and not self._result.done():
            self._without(member, reason)
        elif self._stopping is None or member not in self._stopped:
            self._decide(code, cause)

    def _without(self, host: str, reason: str) -> None:
        if host in self.lost_hosts:
            return
        self.lost_hosts[host], lost = reason, f"{host} was lost: {reason}"
        ends = not self.serving and self._settings.on_data_loss == "stop" and self._stopping is None
        if ends or not self._side.lost(host):
            hint = " (--on_data_loss local goes on without)" * self._assignment.plane.goes_local
            self._decide(1, lost + f"; no host serves data any more{hint}" * ends)
            return
        self._tell("host.lost", host=host, reason=reason, serving=list(self.serving))
        self._server.broadcast(link.HostLost(host))
        self._on_host_lost(host)

    @property
    def serving(self) -> tuple[str, ...]:
        """The hosts that serve data and are not lost."""
        return tuple(host for host in self._assignment.serving_hosts if host not in self.lost_hosts)

    def _decide(self, code: int, cause: str) -> None:
        """Ends the job as failed. A job that is stopping keeps the code of the stop; the cause names both."""
        if self._stopping is None:
            self._finish(JobResult(code, cause))
        else:
            self._finish(JobResult(self._stopping.code, f"{self._stopping.headline}; then: {cause}"))

    def _finish(self, result: JobResult) -> None:
        if not self._result.done():
            self._result.set_result(result)
            self._tell("job.decided", code=result.code, cause=result.headline)

    def _tell(self, name: str, **fields: Any) -> None:
        self._observer(Event(name, SYSTEM.wall(), fields))
