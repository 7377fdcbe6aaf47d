"""The chief's side of the link: waits until all is ready, starts the ranks, and decides how the job ended."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Callable, Mapping
from typing import Any

from tfhet.clock import SYSTEM, Clock
from tfhet.cluster import job_name
from tfhet.control import LinkServer, Message, Secret
from tfhet.deadline import Deadline
from tfhet.errors import NotReady
from tfhet.events import Event, Observer
from tfhet.launch.place import Place
from tfhet.launch.ring import Ring
from tfhet.launch.said import objection
from tfhet.launch.verdict import Verdict

LINGER_S = 2.0
"""How long the chief waits for the others to confirm the end."""
SCRIPT_GRACE_S = 20.0
"""How long the training scripts may take from SIGTERM to their checkpoint and their end."""
STOP_S = SCRIPT_GRACE_S + 2.0
"""After so long without the ranks' results a job that was told to stop is over."""


class Chief:
    """The link as rank 0's launcher sees it; it hears its own reports like everybody else's."""

    def __init__(
        self,
        place: Place,
        secret: Secret,
        observer: Observer,
        *,
        on_stop: Callable[[], None] = lambda: None,
        on_host_lost: Callable[[str], None] = lambda host: None,
        clock: Clock = SYSTEM,
    ):
        """on_stop: called, once, when the scripts are to be told to stop. on_host_lost: called with a host that serves
        data no more, while others do, or the ranks can do without."""
        self.place = place
        self.exit_codes: dict[str, int] = {}
        """Of the other launchers, by member, as they said on leaving."""
        self.trained_s: float | None = None
        """When the last rank had finished, on the clock."""
        self.restarts = 0
        """How often a process of the data service was started again, on any host."""
        self.lost_hosts: dict[str, str] = {}
        """Why, by name of the data host that the job went on without."""
        self._on_stop, self._on_host_lost = on_stop, on_host_lost
        self._observer = observer
        self._clock = clock
        self._coordinator = LinkServer(
            place.members,
            secret,
            place.settings.lease_s,
            on_message=self._heard,
            on_lost=self._lost,
            on_left=self._left,
            observer=self._seen,
        )
        self._ring = Ring(place.roles.dnn_hosts, place.local_size) if place.forms_ring else None
        self._differs = False
        self._joined_s: float | None = None
        self._serving: set[str] = set()
        self._registered = 0
        self._native: set[str] | None = None
        self._begun = False
        self._stopping: Verdict | None = None
        self._results: dict[int, int] = {}
        self._changed = asyncio.Event()
        self._verdict: asyncio.Future[Verdict] = asyncio.get_running_loop().create_future()

    async def join(self) -> None:
        """Opens the link. Raises UsageError for a busy port."""
        await self._coordinator.start("0.0.0.0", self.place.ports.control)
        self._joined_s = self._clock.monotonic()
        if self.place.rank is not None:
            self._tell("job.ranks", by=self.place.rank.by, size=self.place.size, per_host=self.place.local_size)

    async def started(self) -> Message:
        """Waits for all hosts and workers, starts the ranks and gives what they were told.

        Raises NotReady, and UsageError where the ranks need Horovod and it is not installed.
        """
        settings = self.place.settings
        if self._ring is not None:
            await asyncio.to_thread(self._ring.load)  # a moment, in which leases go on
        try:
            async with Deadline(settings.ready_timeout_s):
                await self._until_ready()
        except asyncio.TimeoutError:
            raise NotReady(f"not ready after {settings.ready_timeout_s:g} s: {self._missing()}") from None
        job_id = f"{job_name(self.place.env) or 'job'}-{secrets.token_hex(4)}"
        # A graph may hold only what every process that runs it knows: the compiled ops that all serving hosts have.
        message: dict[str, Any] = {"type": "start", "job_id": job_id, "ring": None}
        message["native"] = None if self._native is None else sorted(self._native)
        if self._ring is not None:
            interface = self.place.identity.cluster.network_interface
            message["ring"] = self._ring.start(self.place.coordinator, interface).to_message()
        self._coordinator.broadcast(message)
        self._begun = True
        return message

    def report(self, message: Mapping[str, Any]) -> None:
        """What this launcher has to say, as if it were a member."""
        self._heard(self.place.member, dict(message))

    async def ended(self) -> Verdict:
        """The verdict, once there is one."""
        return await asyncio.shield(self._verdict)

    def clock_offset(self) -> tuple[float, float]:
        """Of the chief's clock against itself."""
        return 0.0, 0.0

    async def leave(self, code: int, cause: str, hurry: asyncio.Future[Any]) -> None:
        """Tells everybody how the job ended, waits briefly for them to go, and closes the link.

        A job that fails while hosts are still coming up stays for them, for as long as a start may take: they would
        look for the chief for that long, and find nobody. Not once `hurry` is done.
        """
        ring = [asyncio.to_thread(self._ring.stop)] if self._ring is not None else []
        await asyncio.gather(self._end(code, cause, hurry), *ring)

    async def _end(self, code: int, cause: str, hurry: asyncio.Future[Any]) -> None:
        late_s = 0.0
        # Ranks of another count never come.
        nobody_comes = self._differs and not self._coordinator.missing & {*self.place.roles.data_hosts}
        if self._joined_s is not None and self._stopping is None and not nobody_comes:
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

    def _seen(self, event: Event) -> None:
        """What the link tells of itself: goes to the record, and may be a host that counts other ranks than we do."""
        self._observer(event)
        member = str(event.fields.get("member", ""))
        if self._begun or not self.place.forms_ring or not member.startswith("rank-"):
            return
        theirs = self._coordinator.facts.get(member, {})
        refused = event.name == "link.member_refused" and not event.fields["is_expected"]
        if refused or (event.name == "link.member_joined" and theirs.get("ranks") != self.place.size):
            self._differs = True
            host = theirs.get("host", "another host")
            self._decide(
                2,
                f"{member} on {host} is one of another number of ranks than {self.place.size}: every dnn host has to "
                f"start as many as {self.place.host}, {self.place.local_size}; --processes_per_host sets it, or else "
                "the number of GPUs",
            )

    def _heard(self, member: str, message: Message) -> None:
        odd = objection(message, self.place.size)
        if odd is not None:  # another version of tfhet there, or one that is broken: not to be waited for
            message = {"type": "failed", "code": 1, "cause": f"{member} reported what cannot be understood: {odd}"}
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
        elif kind == "stop":
            self._stop(Verdict(int(message["code"]) or 1, str(message["cause"])))
        elif kind == "failed" and self._can_go_on_without(member):
            self._without(member, str(message["cause"]).split("\n", 1)[0])
        elif kind == "failed":
            self._decide(int(message["code"]) or 1, str(message["cause"]))
        self._changed.set()

    def _result(self, member: str, rank: int, code: int, cause: str) -> None:
        self._tell("rank.ended", rank=rank, code=code)
        self._results[rank] = code
        if code and self._stopping is None:
            lost = "".join(f"; {host} had been lost: {why}" for host, why in self.lost_hosts.items())
            verdict = Verdict(code, cause)
            verdict = Verdict.of(code, verdict.headline + lost, verdict.log)
            if verdict.is_consequence:
                # A rank that fails takes the others with it, and they may say so before its own launcher does, or
                # before it is known to be lost.
                wait_s = self.place.settings.lease_s / 4 + 1.0
                asyncio.get_running_loop().call_later(wait_s, self._decide, verdict.code, verdict.cause)
            else:
                self._decide(verdict.code, verdict.cause)
        elif len(self._results) == self.place.size:
            self.trained_s = self._clock.monotonic()
            if self._stopping is None or not any(self._results.values()):
                self._decide(0, "training is complete")
            else:
                self._decide(self._stopping.code, self._stopping.cause)

    def _stop(self, verdict: Verdict) -> None:
        """Everybody's script is told to stop; the job is over when all have, or `STOP_S` later."""
        if self._stopping is not None:
            return
        self._stopping = verdict
        if not self._begun:
            self._decide(verdict.code, verdict.cause)
            return
        self._tell("job.stopping", cause=verdict.headline)
        self._coordinator.broadcast({"type": "stop"})
        self._on_stop()
        late = f"{verdict.headline}; not every rank had stopped after {STOP_S:g} s"
        asyncio.get_running_loop().call_later(STOP_S, self._decide, verdict.code, late)

    def _lost(self, member: str, reason: str) -> None:
        if self._can_go_on_without(member):
            self._without(member, reason)
        else:
            self._decide(1, f"{member} was lost: {reason}")

    def _left(self, member: str, code: int) -> None:
        self.exit_codes[member] = code
        if self._can_go_on_without(member):
            self._without(member, f"it left (exit code {code})")
            return
        # A member that goes before the end has failed and could not say why.
        self._decide(code or 1, f"{member} left before the end (exit code {code})")

    def _can_go_on_without(self, member: str) -> bool:
        return self._begun and member in self.place.roles.data_hosts and not self._verdict.done()

    def _without(self, host: str, reason: str) -> None:
        if host in self.lost_hosts:
            return
        self.lost_hosts[host] = reason
        if not self.serving and self.place.settings.on_data_loss == "stop" and self._stopping is None:
            self._decide(
                1, f"{host} was lost: {reason}; no host serves data any more (--on_data_loss local goes on without)"
            )
            return
        self._tell("host.lost", host=host, reason=reason, serving=list(self.serving))
        self._on_host_lost(host)

    @property
    def serving(self) -> tuple[str, ...]:
        """The hosts that serve data and are not lost."""
        return tuple(host for host in self.place.serving_hosts if host not in self.lost_hosts)

    def _decide(self, code: int, cause: str) -> None:
        if code and self._stopping is not None and code != self._stopping.code:
            # What breaks while a job stops is part of its stopping.
            code, cause = self._stopping.code, f"{self._stopping.headline}; then: {cause}"
        with contextlib.suppress(asyncio.InvalidStateError):
            verdict = Verdict(code, cause)
            self._verdict.set_result(verdict)
            self._tell("job.decided", code=code, cause=verdict.headline)

    def _tell(self, name: str, **fields: Any) -> None:
        self._observer(Event(name, self._clock.wall(), fields))
