"""The chief's side of the link: waits until all is ready, starts the ranks, and decides how the job ended."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Mapping
from typing import Any

from tfhet.clock import SYSTEM, Clock
from tfhet.cluster import job_name
from tfhet.control import Coordinator, Message, Secret
from tfhet.deadline import Deadline
from tfhet.errors import NotReady
from tfhet.events import Event, Observer
from tfhet.launch.place import Place
from tfhet.launch.verdict import Verdict

LINGER_S = 2.0
"""How long the chief waits for the others to confirm the end."""


class Chief:
    """The link as rank 0's launcher sees it; it hears its own reports like everybody else's."""

    def __init__(self, place: Place, secret: Secret, observer: Observer, clock: Clock = SYSTEM):
        self.place = place
        self.exit_codes: dict[str, int] = {}
        """Of the other launchers, by member, as they said on leaving."""
        self.trained_s: float | None = None
        """When the last rank had finished, on the clock."""
        self.restarts = 0
        """How often a process of the data service was started again, on any host."""
        self._observer = observer
        self._clock = clock
        self._coordinator = Coordinator(
            place.members,
            secret,
            place.settings.lease_s,
            on_message=self._heard,
            on_lost=self._lost,
            on_left=self._left,
            observer=observer,
        )
        self._joined_s: float | None = None
        self._serving: set[str] = set()
        self._registered = 0
        self._native: set[str] | None = None
        self._done: set[int] = set()
        self._changed = asyncio.Event()
        self._verdict: asyncio.Future[Verdict] = asyncio.get_running_loop().create_future()

    async def join(self) -> None:
        """Opens the link. Raises UsageError for a busy port."""
        await self._coordinator.start("0.0.0.0", self.place.ports.control)
        self._joined_s = self._clock.monotonic()

    async def started(self) -> Message:
        """Waits for all hosts and workers, starts the ranks and gives what they were told. Raises NotReady."""
        settings = self.place.settings
        try:
            async with Deadline(settings.ready_timeout_s):
                await self._until_ready()
        except asyncio.TimeoutError:
            raise NotReady(f"not ready after {settings.ready_timeout_s:g} s: {self._missing()}") from None
        job_id = f"{job_name(self.place.env) or 'job'}-{secrets.token_hex(4)}"
        # A graph may hold only what every process that runs it knows: the compiled ops that all serving hosts have.
        message = {"type": "start", "job_id": job_id, "native": None if self._native is None else sorted(self._native)}
        self._coordinator.broadcast(message)
        return message

    def report(self, message: Mapping[str, Any]) -> None:
        """What this launcher has to say, as if it were a member."""
        self._heard(self.place.member, dict(message))

    async def ended(self) -> Verdict:
        """The verdict, once there is one."""
        return await asyncio.shield(self._verdict)

    async def leave(self, code: int, cause: str, hurry: asyncio.Future[Any]) -> None:
        """Tells everybody how the job ended, waits briefly for them to go, and closes the link.

        A job that fails while hosts are still coming up stays for them, for as long as a start may take: they would
        look for the chief for that long, and find nobody. Not once `hurry` is done.
        """
        late_s = 0.0
        if self._joined_s is not None:
            late_s = self.place.settings.ready_timeout_s - (self._clock.monotonic() - self._joined_s)
        ending = asyncio.create_task(self._coordinator.end(code, cause, LINGER_S, late_s))
        await asyncio.wait({ending, hurry}, return_when=asyncio.FIRST_COMPLETED)
        if not ending.done():
            ending.cancel()
            await asyncio.gather(ending, return_exceptions=True)
            ending = asyncio.create_task(self._coordinator.end(code, cause, LINGER_S))
        staying = await ending
        self.exit_codes.update(self._coordinator.left)
        if staying:
            self._tell("job.left_behind", members=sorted(staying))

    async def _until_ready(self) -> None:
        await self._coordinator.wait_joined(self.place.settings.ready_timeout_s)
        while not self._is_ready():
            self._changed.clear()
            await self._changed.wait()

    def _is_ready(self) -> bool:
        return not self._silent() and self._registered >= self.place.workers

    def _silent(self) -> list[str]:
        """Hosts that have not said that their part of the data service runs; the dispatcher's is this one."""
        needed = {*self.place.serving_hosts, *([self.place.host] if self.place.dispatches else [])}
        return sorted(needed - self._serving)

    def _missing(self) -> str:
        hosts = self._silent()
        parts = [f"{', '.join(sorted(self._coordinator.missing))} did not join"] if self._coordinator.missing else []
        parts += [f"no data service on {', '.join(hosts)}"] if hosts else []
        if self._registered < self.place.workers:
            parts.append(f"{self._registered} of {self.place.workers} workers are registered with the dispatcher")
        return "; ".join(parts) or "nothing is missing"

    def _heard(self, member: str, message: Message) -> None:
        kind = message["type"]
        if kind == "serving":
            self._serving.add(str(message["host"]))
            kernels = {str(name) for name in message.get("native", ())}
            self._native = kernels if self._native is None else self._native & kernels
        elif kind == "workers":
            self._registered = int(message["count"])
        elif kind == "restarted":
            self.restarts += 1
            told = {name: message[name] for name in ("host", "process", "code", "cause")}
            self._tell("service.restarted", **told)
        elif kind == "result":
            self._result(member, int(message["rank"]), int(message["code"]), str(message["cause"]))
        elif kind == "failed":
            self._decide(int(message["code"]) or 1, str(message["cause"]))
        self._changed.set()

    def _result(self, member: str, rank: int, code: int, cause: str) -> None:
        self._tell("rank.ended", rank=rank, code=code)
        if code:
            self._decide(code, cause)
            return
        self._done.add(rank)
        if len(self._done) == self.place.size:
            self.trained_s = self._clock.monotonic()
            self._decide(0, "training is complete")

    def _lost(self, member: str, reason: str) -> None:
        self._decide(1, f"{member} was lost: {reason}")

    def _left(self, member: str, code: int) -> None:
        self.exit_codes[member] = code
        # A member that goes before the end has failed and could not say why.
        self._decide(code or 1, f"{member} left before the end (exit code {code})")

    def _decide(self, code: int, cause: str) -> None:
        with contextlib.suppress(asyncio.InvalidStateError):
            verdict = Verdict(code, cause)
            self._verdict.set_result(verdict)
            self._tell("job.decided", code=code, cause=verdict.headline)

    def _tell(self, name: str, **fields: Any) -> None:
        self._observer(Event(name, self._clock.wall(), fields))
