"""One host's life: find the place, join, serve or train, report, leave. Every wait in it has an end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Awaitable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from tfhet.clock import SYSTEM
from tfhet.cluster import NATIVE, JobContext, Serving, job_name
from tfhet.control import Message, Secret
from tfhet.deadline import Deadline
from tfhet.errors import JobFailed, TfhetError, UsageError
from tfhet.events import Event, Observer, ignore
from tfhet.launch.branch import Branch
from tfhet.launch.chief import LINGER_S, SCRIPT_GRACE_S, STOP_S, Chief
from tfhet.launch.emf import emf_line
from tfhet.launch.endpoint import Endpoint
from tfhet.launch.exposition import Exposition, labels
from tfhet.launch.failure import write_failure
from tfhet.launch.hearing import Hearing
from tfhet.launch.lineage import first_gone, watched
from tfhet.launch.noise import is_noise
from tfhet.launch.outcome import write_outcome
from tfhet.launch.place import Place
from tfhet.launch.recovery import Recovery
from tfhet.launch.reserve import Reserve
from tfhet.launch.ring import Meeting
from tfhet.launch.sampler import Sampler
from tfhet.launch.toolkit import release
from tfhet.launch.verdict import Verdict
from tfhet.messages import HostLine, JobResultLine, MetricLine, RestartLine
from tfhet.process import Child
from tfhet.record import RunFolder
from tfhet.record.folder import PARTS
from tfhet.service import Fleet
from tfhet.service.cpus import usable
from tfhet.service.memory import in_huge_pages

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
KILL_GRACE_S = 1.0
"""How long a training script may take to end after SIGTERM when the job has failed. Not long: one that hears the signal
as the wish to stop may wait for others in an allreduce."""
SERVER_GRACE_S = 1.0
"""How long a dispatcher or worker may."""


_BY = {
    "mpirun": "started by mpirun",
    "horovodrun": "started by horovodrun, or with its variables",
    "pmi": "started by a PMI launcher",
    "alone": "without MPI",
}


class Link(Protocol):
    """What chief and branch have in common."""

    async def join(self) -> None: ...

    async def started(self) -> Message: ...

    def report(self, message: Mapping[str, object]) -> None: ...

    async def ended(self) -> Verdict: ...

    def clock_offset(self) -> tuple[float, float] | None: ...

    async def leave(self, code: int, cause: str, hurry: asyncio.Future[Any]) -> None: ...


class Launcher:
    """The launcher of one host, or of one rank of it."""

    def __init__(self, place: Place, script_arguments: Sequence[str]):
        self.place = place
        self.began_s = SYSTEM.wall()
        self._arguments = list(script_arguments)
        self._fleet: Fleet | None = None
        self._trainer: Child | None = None
        self._is_stopping = False
        self._ending: asyncio.Task[int] | None = None
        self._hearing = Hearing(self.say, self._write_emf, self._reads)
        self._record = place.paths.output_data / "tfhet"
        self._timeline = self._record / PARTS
        self._recovery = Recovery(self._record, self.say)
        # One launcher writes the events of the job: lines of several hosts would need one clock.
        self._observe: Observer = self._write_event if place.is_chief else ignore

    async def run(self) -> int:
        """Lives to the end and gives the exit code."""
        place = self.place
        stopped: asyncio.Future[Verdict] = asyncio.get_running_loop().create_future()
        self._on_signals(stopped)
        names = {*place.roles.data_hosts, *place.roles.dnn_hosts}
        secret = Secret.from_env(place.env, job_name(place.env), names)
        self.say(self._introduction(secret))
        self.say(str(self._host_line()))
        link: Chief | Branch
        if place.is_chief:
            link = chief = Chief(
                place,
                secret,
                self._observe,
                on_stop=self._stop_script,
                on_host_lost=lambda host: self._recovery.go_on_without(chief, self._fleet, host),
            )
        else:
            link = Branch(place, secret, self._observe, on_stop=self._stop_script)
        watching = asyncio.create_task(self._watch(stopped), name="ancestors")
        sampling = asyncio.create_task(self._sample(link), name="sampler")
        exposing = asyncio.create_task(self._expose(), name="metrics")
        work = asyncio.create_task(self._work(link), name="work")
        ended = asyncio.create_task(link.ended(), name="end")
        every: set[asyncio.Future[Any]] = {work, ended, stopped}
        await asyncio.wait(every, return_when=asyncio.FIRST_COMPLETED)
        verdict = await self._conclude(link, work, ended, stopped)
        if verdict.code:  # at once: mpirun kills this host's launchers soon after another one's has failed
            self._tell_why(verdict)
        for task in (work, ended, watching, sampling, exposing):
            task.cancel()
        await asyncio.wait({work}, timeout=1.0)  # what it is starting must be there to be stopped
        if place.is_chief:  # the others hear of it at once, and end side by side with this host's processes
            await asyncio.gather(link.leave(verdict.code, verdict.cause, stopped), self._stop_children())
        else:  # who has left has nothing running any more
            await self._stop_children()
            await link.leave(verdict.code, verdict.cause, stopped)
        await asyncio.gather(work, ended, watching, sampling, exposing, return_exceptions=True)
        self._close(link, verdict)
        return verdict.code

    async def _work(self, link: Link) -> None:
        place = self.place
        await link.join()
        serving = asyncio.create_task(self._serve(link)) if place.serves else None
        training = asyncio.create_task(self._train(link)) if place.rank is not None else None
        tasks = {task for task in (serving, training) if task is not None}
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, link: Link) -> None:
        """Starts this host's data service and watches it. Ends by raising only."""
        place, deadline_s = self.place, self.place.settings.ready_timeout_s

        def tell(event: str, fields: Mapping[str, object]) -> None:
            if event == "service.workers":
                link.report({"type": "workers", "count": fields["count"]})
                if isinstance(link, Chief) and self._fleet is not None:
                    self._recovery.expect_workers(link, self._fleet)
            elif event == "service.died":
                self.say(f"{fields['cause']}; starting it again")
                self.say(str(RestartLine(str(fields["process"]), int(str(fields["code"])))))
                told = {name: fields[name] for name in ("process", "code", "cause")}
                link.report({"type": "restarted", "host": place.host, **told})

        self._fleet = Fleet(
            place.host,
            place.address(place.host),
            place.env,
            on_line=self.say,
            tell=tell,
            folder=place.paths.base / "tfhet",
            gives_way=place.rank is not None,  # to the training, beside which it runs
        )
        keep, cpus = place.settings.reserve_cpus, usable()
        if keep > 0 and place.own_workers and place.rank is not None and self._fleet.keep_off(keep) == cpus:
            self.say(f"--reserve_cpus {keep} is not kept: of {len(cpus)} CPUs none would be left for the workers")
        if place.dispatches:
            await self._fleet.start_dispatcher(place.ports.dispatcher, deadline_s)
        assert place.dispatcher is not None
        if place.own_workers:
            await self._fleet.start_workers(place.ports.workers, place.dispatcher, deadline_s)
        link.report({"type": "serving", "host": place.host, "native": sorted(self._fleet.native or ())})
        raise await self._fleet.failure()

    async def _train(self, link: Link) -> None:
        """Runs this rank's script once all is ready, and reports how it ended."""
        place, script = self.place, self.place.settings.train_script
        if script and not Path(script).is_file():
            raise UsageError(f"--train_script {script}: no such file, seen from {Path.cwd()}")
        start = await link.started()
        assert place.rank is not None
        job = JobContext(
            job_id=str(start["job_id"]),
            mode=place.mode,
            rank=place.rank.rank,
            size=place.rank.size,
            local_rank=place.rank.local_rank,
            local_size=place.rank.local_size,
            dispatcher=place.dispatcher,
            workers=place.workers,
            data_hosts=place.roles.data_hosts,
            seed=place.settings.job_seed,
            host=place.host,
            group=place.identity.current_group,
            output_dir=str(place.paths.output_data),
            record_dir=str(self._record),
            timeline_dir=str(self._timeline) if place.settings.timeline == "steps" else None,
        )
        command = [sys.executable, *([script] if script else ["-m", "tfhet.trainer"]), *self._arguments]
        env = in_huge_pages({**place.env, **job.to_env(), "PYTHONUNBUFFERED": "1"})
        if start.get("ring") is not None:
            env = Meeting.parse(start["ring"]).environment(place.host, place.rank, env)
        if start.get("native") is not None and env.get(NATIVE) != "off":
            env[NATIVE] = ",".join(start["native"]) or "off"
        self._observe(Event("training.started", SYSTEM.wall(), {"command": command, "job_id": job.job_id}))
        if place.is_chief:
            self._recovery.tell(Serving(place.serving_hosts))
        self._trainer = await Child.start(f"rank {job.rank}", command, env=env, on_line=self._hearing.hear)
        if self._is_stopping:
            self._stop_script()
        if not script:
            self._hearing.expect_progress()
        stall = asyncio.create_task(self._stall(self._trainer), name="stall")
        measuring = asyncio.create_task(self._measure(self._trainer), name="reserve")
        try:
            code = await self._trainer.wait()
        finally:
            stall.cancel()
            measuring.cancel()
        if stall.done() and not stall.cancelled():
            raise JobFailed(
                f"rank {job.rank} on {place.host} took no step for {place.settings.stall_timeout_s:g} s; it waits for "
                "data, or for another rank, or hangs (--stall_timeout_s)",
                log_tail=self._trainer.tail,
            )
        name, tail = script or "the built-in trainer", self._trainer.tail
        verdict = Verdict.of_script(code, f"{name} ended on {place.host}, rank {job.rank}", tail)
        link.report({"type": "result", "rank": job.rank, "code": verdict.code, "cause": verdict.cause})

    def _reads(self, endlessly: bool) -> None:
        if self._recovery.reads(endlessly):
            self._observe(Event("training.reading", SYSTEM.wall(), {}))

    async def _stall(self, script: Child) -> None:
        """Returns when a script that told of its progress has stopped to, for too long, having killed it."""
        await self._hearing.stalls(self.place.settings.stall_timeout_s)
        script.kill()

    async def _measure(self, script: Child) -> None:
        """Lets the workers of this host keep off as many CPUs as its training is seen to use."""

        def keep(reserve: int, used: float) -> None:
            if self._fleet is not None and place.rank is not None:
                cpus = self._fleet.keep_off(reserve)
                self._observe(Event("workers.confined", SYSTEM.wall(), {"cpus": list(cpus), "training_uses": used}))

        place = self.place
        if place.settings.reserve_cpus < 0 and place.rank is not None and place.own_workers:
            await Reserve(place.rank.local_size, keep).follow(script.pid)

    async def _sample(self, link: Link) -> None:
        """Notes what this launcher's processes use, and, where it leads its host, what the host does."""
        if self.place.settings.timeline != "off":
            await Sampler.of(self.place, self._timeline, self._processes, link.clock_offset, self.say).run()

    async def _expose(self) -> None:
        """Answers Prometheus, where it is wanted."""
        place, exposed = self.place, Exposition(self.place, self._hearing, self._processes, lambda: self._fleet)
        if place.metrics_port is not None:
            await Endpoint(exposed.text, self.say).run(place.address(place.host), place.metrics_port)

    def _processes(self) -> dict[str, int]:
        """Ids of what runs for this launcher, by name."""
        script, rank = self._trainer, self.place.rank
        running = {} if script is None or rank is None or script.code is not None else {f"rank-{rank.rank}": script.pid}
        return {"launcher": os.getpid(), **running, **(self._fleet.pids if self._fleet is not None else {})}

    def _stop_script(self) -> None:
        """Tells the script to stop, now or when it has started; the job goes on until all have."""
        self._is_stopping = True
        if self._trainer is not None and self._ending is None:
            self.say(f"the script is told to stop; it has {SCRIPT_GRACE_S:g} s")
            self._ending = asyncio.create_task(self._trainer.stop(SCRIPT_GRACE_S), name="stop")

    async def _conclude(
        self,
        link: Link,
        work: asyncio.Task[None],
        ended: asyncio.Task[Verdict],
        stopped: asyncio.Future[Verdict],
    ) -> Verdict:
        """The verdict: the job's, once it is known; until then this launcher's own."""
        if not ended.done() and not stopped.done() and work.done() and (error := work.exception()) is not None:
            own = Verdict.of_error(error, self.place.label)
            try:
                link.report({"type": "failed", "code": own.code, "cause": own.cause})
                if self.place.rank is None:
                    # Others may go on without this host; it ends with the job, whose lease bounds the wait.
                    self.say(f"serves no more: {own.headline}")
                    await self._stop_children()
                    await asyncio.wait({ended, stopped}, return_when=asyncio.FIRST_COMPLETED)
                else:
                    await asyncio.wait({ended}, timeout=self.place.settings.lease_s)
            except TfhetError:
                return own
            if not ended.done() and not stopped.done():
                return own
        if not ended.done() and not stopped.done():
            await asyncio.wait({ended, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if not ended.done():
            own = stopped.result()
            try:
                link.report({"type": "stop", "code": own.code, "cause": own.cause})
                async with Deadline(STOP_S + LINGER_S):
                    return await asyncio.shield(ended)
            except (TfhetError, asyncio.TimeoutError):
                return own
        return ended.result()

    async def _stop_children(self) -> None:
        ends: list[Awaitable[object]] = []
        if self._ending is not None:
            self._ending.cancel()
            await asyncio.gather(self._ending, return_exceptions=True)
        if self._trainer is not None:
            ends.append(self._trainer.stop(KILL_GRACE_S))
        if self._fleet is not None:
            ends.append(self._fleet.stop(SERVER_GRACE_S))
        await asyncio.gather(*ends)

    def _tell_why(self, verdict: Verdict) -> None:
        self.say(str(JobResultLine(verdict.code, verdict.headline)))
        write_failure(self.place.paths.failure, verdict.headline, self.place.label, verdict.code, verdict.log)
        release(self.place)

    def _close(self, link: Link, verdict: Verdict) -> None:
        if isinstance(link, Chief):
            try:
                write_outcome(RunFolder(self._record), self.place, link, verdict, self.began_s)
            except OSError as error:  # a full disk: the exit code must not be lost over it
                self.say(f"the record cannot be written: {error}")

    def _introduction(self, secret: Secret) -> str:
        place = self.place
        rank = place.rank
        part = "delivers data" if rank is None else f"rank {rank.rank} of {rank.size} ({_BY[rank.by]})"
        served = f"dispatcher {place.dispatcher}, {place.workers} workers" if place.dispatcher else "no data service"
        weak = "; secret derived from the job's name (set TFHET_SECRET for a real one)" if secret.derived else ""
        return f"{place.mode} job: {part}, {served}, group {place.identity.current_group}{weak}"

    def _host_line(self) -> HostLine:
        place = self.place
        role, plane = "dnn" if place.rank else "data", {"workers": str(place.workers)}
        return HostLine(place.mode, role, place.identity.current_group, place.size, plane)

    def _on_signals(self, stopped: asyncio.Future[Verdict]) -> None:
        def on_signal(number: signal.Signals) -> None:
            if not stopped.done():
                stopped.set_result(Verdict(128 + number, f"{self.place.label} was told to stop ({number.name})"))

        loop = asyncio.get_running_loop()
        for number in STOP_SIGNALS:
            loop.add_signal_handler(number, on_signal, number)

    async def _watch(self, stopped: asyncio.Future[Verdict]) -> None:
        """Takes the death of who started mpirun for the wish to stop, of which it cannot tell us any more."""
        line = watched(self.place.env, self.place.rank)
        if line:
            gone = await first_gone(line)
            if not stopped.done():
                why = f"{gone.name}, process {gone.pid}, by which it was started, is gone"
                stopped.set_result(Verdict(128 + signal.SIGTERM, f"{self.place.label} was told to stop ({why})"))

    def say(self, line: str) -> None:
        """One line of the log, with the host in front; lines that mean nothing are left out."""
        if not is_noise(line):
            _print(f"[{self.place.label}] {line}")

    def _write_emf(self, line: MetricLine) -> None:
        """Below a metric line, for CloudWatch, where it is wanted. Nothing stands in front of it: it is to be JSON."""
        if self.place.settings.emf_namespace:
            _print(emf_line(self.place.settings.emf_namespace, labels(self.place), line, SYSTEM.wall()))

    def _write_event(self, event: Event) -> None:
        try:
            RunFolder(self._record).write_event(event)
        except OSError as error:
            self.say(f"the event {event.name} cannot be recorded: {error}")


def _print(line: str) -> None:
    with contextlib.suppress(OSError):  # who reads our log may be gone before us
        # In one write: mpirun, which puts a prefix before what it gets, would tear the line from its end.
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
