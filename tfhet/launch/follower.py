"""A follower: every launcher except the leader, from which it receives the order to start and the job result."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

from tfhet.control import LinkClient
from tfhet.errors import ClusterError, NotReady
from tfhet.launch.assignment import Assignment
from tfhet.launch.job_result import JobResult
from tfhet.messages import link, rank
from tfhet.schema import MessageError, UnknownKind, parse


class Follower:
    def __init__(
        self,
        assignment: Assignment,
        *,
        on_stop: Callable[[], None] = lambda: None,
        on_host_lost: Callable[[str], None] = lambda host: None,
        on_gathered: Callable[[rank.Gathered], None] = lambda gathered: None,
    ):
        """on_stop: called when the script must stop. on_host_lost: with a lost data host, if the job continues.
        on_gathered: with values of all ranks, for this rank's script."""
        place, settings = assignment.place, assignment.settings
        self._assignment, self._place, self._settings = assignment, place, settings
        self._on_stop, self._on_host_lost, self._on_gathered = on_stop, on_host_lost, on_gathered
        loop = asyncio.get_running_loop()
        self._start: asyncio.Future[link.Start] = loop.create_future()
        self._result: asyncio.Future[JobResult] = loop.create_future()
        self._client = LinkClient(
            place.member,
            place.link_address,
            place.ports.control,
            assignment.secret,
            settings.lease_s,
            on_message=self._heard,
            on_end=lambda code, cause: self._decide(JobResult(code, cause)),
            on_lease_lost=lambda reason: self._decide(JobResult(1, f"{place.label} lost its lease: {reason}")),
        )

    async def join(self) -> None:
        """Raises NotReady if the leader does not answer before the deadline, ClusterError if it refuses this host."""
        await self._client.join(self._assignment.facts, self._settings.ready_timeout_s)

    async def started(self) -> link.Start:
        """Waits for the order to start. Raises NotReady after a deadline before which the leader ends the job."""
        limit_s = self._settings.ready_timeout_s + 2 * self._settings.lease_s
        try:
            async with asyncio.timeout(limit_s):
                return await asyncio.shield(self._start)
        except TimeoutError:
            raise NotReady(f"{self._place.label}: no order to start within {limit_s:g} s") from None

    def report(self, report: link.Report) -> None:
        self._client.send(report)

    async def ended(self) -> JobResult:
        """Waits for the leader's job result; if the lease is lost, which bounds this wait, returns an own result."""
        return await asyncio.shield(self._result)

    def clock_offset(self) -> tuple[float, float] | None:
        """Seconds by which the leader's clock is ahead of this one, and the error; None at first."""
        return self._client.clock_offset

    async def leave(self, code: int, cause: str, hurry: asyncio.Future[Any]) -> None:
        """Leaves the link within a second."""
        await self._client.leave(code)

    def _heard(self, message: dict[str, Any]) -> None:
        try:
            order = checked_order(message, self._assignment)
        except UnknownKind:  # a later version of tfhet there
            return
        except MessageError as error:
            self._decide(JobResult(1, f"{self._place.label} cannot follow the leader: {error}"))
            return
        if isinstance(order, link.Stop):
            self._on_stop()
        elif isinstance(order, link.HostLost):
            self._on_host_lost(order.host)
        elif isinstance(order, rank.Gathered):
            self._on_gathered(order)
        elif isinstance(order, link.Start) and not self._start.done():
            self._start.set_result(order)

    def _decide(self, result: JobResult) -> None:
        with contextlib.suppress(asyncio.InvalidStateError):
            self._result.set_result(result)


def checked_order(message: dict[str, Any], assignment: Assignment) -> link.Order:
    """The leader's order. Raises MessageError if this launcher cannot follow it, UnknownKind for an unknown kind."""
    order: link.Order = parse(message, link.Order)
    if isinstance(order, link.Start):
        try:
            assignment.plane.check(order.plane)
            assignment.strategy.check(order.strategy)
        except ClusterError as error:
            raise MessageError(f"start: {error}") from error
    return order
