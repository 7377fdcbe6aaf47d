"""One host's life: find the place, join, serve or train, report, leave. Every wait in it has an end."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from tfhet.clock import SYSTEM
from tfhet.cluster import NATIVE, JobContext, environment, host_paths, job_name
from tfhet.control import Message, Secret
from tfhet.deadline import Deadline
from tfhet.errors import JobFailed, TfhetError, UsageError
from tfhet.events import Event, Observer, ignore
from tfhet.launch.branch import Branch
from tfhet.launch.chief import Chief
from tfhet.launch.failure import write_failure
from tfhet.launch.noise import is_noise
from tfhet.launch.outcome import write_outcome
from tfhet.launch.place import Place
from tfhet.launch.settings import LaunchSettings
from tfhet.launch.verdict import Verdict
from tfhet.process import Child, describe_exit
from tfhet.record import RunFolder
from tfhet.service import Fleet

_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
STOP_GRACE_S = 5.0
"""How long a training script may take to end after SIGTERM."""
SERVER_GRACE_S = 1.0
"""How long a dispatcher or worker may."""


class Link(Protocol):
    """What chief and branch have in common."""

    async def join(self) -> None: ...

    async def started(self) -> Message: ...

    def report(self, message: Mapping[str, object]) -> None: ...

    async def ended(self) -> Verdict: ...

    async def leave(self, code: int, cause: str, hurry: asyncio.Future[Any]) -> None: ...


class Launcher:
    """The launcher of one host, or of one rank of it."""

    def __init__(self, place: Place, script_arguments: Sequence[str]):
        self.place = place
        self.began_s = SYSTEM.wall()
        self._arguments = list(script_arguments)
        self._fleet: Fleet | None = None
        self._trainer: Child | None = None
        self._record = place.paths.output_data / "tfhet"
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
        link: Chief | Branch = (
            Chief(place, secret, self._observe) if place.is_chief else Branch(place, secret, self._observe)
        )
        work = asyncio.create_task(self._work(link), name="work")
        ended = asyncio.create_task(link.ended(), name="end")
        every: set[asyncio.Future[Any]] = {work, ended, stopped}
        await asyncio.wait(every, return_when=asyncio.FIRST_COMPLETED)
        verdict = await self._conclude(link, work, ended, stopped)
        work.cancel()
        ended.cancel()
        await asyncio.wait({work}, timeout=1.0)  # what it is starting must be there to be stopped
        if place.is_chief:  # the others hear of it at once, and end side by side with this host's processes
            await asyncio.gather(link.leave(verdict.code, verdict.cause, stopped), self._stop_children())
        else:  # who has left has nothing running any more
            await self._stop_children()
            await link.leave(verdict.code, verdict.cause, stopped)
        await asyncio.gather(work, ended, return_exceptions=True)
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
            elif event == "service.died":
                self.say(f"{fields['cause']}; starting it again")
                told = {name: fields[name] for name in ("process", "code", "cause")}
                link.report({"type": "restarted", "host": place.host, **told})

        self._fleet = Fleet(
            place.host,
            place.address(place.host),
            place.env,
            on_line=self.say,
            tell=tell,
            folder=place.paths.base / "tfhet",
        )
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
        )
        command = [sys.executable, *([script] if script else ["-m", "tfhet.trainer"]), *self._arguments]
        env = {**place.env, **job.to_env(), "PYTHONUNBUFFERED": "1"}
        if start.get("native") is not None and env.get(NATIVE) != "off":
            env[NATIVE] = ",".join(start["native"]) or "off"
        self._observe(Event("training.started", SYSTEM.wall(), {"command": command, "job_id": job.job_id}))
        self._trainer = await Child.start(f"rank {job.rank}", command, env=env, on_line=self.say)
        code = await self._trainer.wait()
        name, tail = script or "the built-in trainer", self._trainer.tail
        cause = f"{name} ended on {place.host}, rank {job.rank}: {describe_exit(code)}{_last_word(tail)}"
        verdict = Verdict.of(_exit_code(code), cause, tail)
        link.report({"type": "result", "rank": job.rank, "code": verdict.code, "cause": verdict.cause})

    async def _conclude(
        self,
        link: Link,
        work: asyncio.Task[None],
        ended: asyncio.Task[Verdict],
        stopped: asyncio.Future[Verdict],
    ) -> Verdict:
        """The verdict: the job's, once it is known; until then this launcher's own."""
        if stopped.done():
            own = stopped.result()
        elif work.done() and (error := work.exception()) is not None:
            own = self._verdict_of(error)
        else:
            await asyncio.wait({ended, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if ended.done():
                return ended.result()
            own = stopped.result()
        if not ended.done():
            try:
                link.report({"type": "failed", "code": own.code, "cause": own.cause})
                async with Deadline(self.place.settings.lease_s):
                    return await asyncio.shield(ended)
            except (TfhetError, asyncio.TimeoutError):
                return own
        return ended.result()

    def _verdict_of(self, error: BaseException) -> Verdict:
        if isinstance(error, JobFailed):
            return Verdict.of(_exit_code(error.code) or 1, str(error), error.log_tail)
        if isinstance(error, TfhetError):
            return Verdict.of(error.exit_code, f"{self.place.label}: {error}")
        return Verdict.of(1, f"{self.place.label}: {type(error).__name__}: {error}")

    async def _stop_children(self) -> None:
        ends: list[Awaitable[object]] = []
        if self._trainer is not None:
            ends.append(self._trainer.stop(STOP_GRACE_S))
        if self._fleet is not None:
            ends.append(self._fleet.stop(SERVER_GRACE_S))
        await asyncio.gather(*ends)

    def _close(self, link: Link, verdict: Verdict) -> None:
        if verdict.code:
            self.say(f"the job ended with exit code {verdict.code}: {verdict.headline}")
            write_failure(self.place.paths.failure, verdict.headline, self.place.label, verdict.code, verdict.log)
        if isinstance(link, Chief):
            try:
                write_outcome(RunFolder(self._record), self.place, link, verdict, self.began_s)
            except OSError as error:  # a full disk: the exit code must not be lost over it
                self.say(f"the record cannot be written: {error}")

    def _introduction(self, secret: Secret) -> str:
        place = self.place
        part = "delivers data" if place.rank is None else f"rank {place.rank.rank} of {place.rank.size}"
        served = f"dispatcher {place.dispatcher}, {place.workers} workers" if place.dispatcher else "no data service"
        weak = "; secret derived from the job's name (set TFHET_SECRET for a real one)" if secret.derived else ""
        return f"{place.mode} job: {part}, {served}{weak}"

    def _on_signals(self, stopped: asyncio.Future[Verdict]) -> None:
        def on_signal(number: signal.Signals) -> None:
            if not stopped.done():
                stopped.set_result(Verdict(128 + number, f"{self.place.label} was told to stop ({number.name})"))

        loop = asyncio.get_running_loop()
        for number in _STOP_SIGNALS:
            loop.add_signal_handler(number, on_signal, number)

    def say(self, line: str) -> None:
        """One line of the log, with the host in front; lines that mean nothing are left out."""
        if not is_noise(line):
            with contextlib.suppress(OSError):  # who reads our log may be gone before us
                print(f"[{self.place.label}] {line}", flush=True)

    def _write_event(self, event: Event) -> None:
        try:
            RunFolder(self._record).write_event(event)
        except OSError as error:
            self.say(f"the event {event.name} cannot be recorded: {error}")


def _exit_code(code: int) -> int:
    """A code that a process can exit with: a signal as shells say it, 128 + its number."""
    return code if code >= 0 else 128 - code


def _last_word(tail: Iterable[str]) -> str:
    """The last line that says something, which after a traceback is the error."""
    said = [line.strip() for line in tail if line.strip() and not is_noise(line)]
    return f": {said[-1][:300]}" if said else ""


def main(argv: Sequence[str] | None = None, env: Mapping[str, str] | None = None) -> int:
    """Runs the launcher; the exit code. Wrong use ends it at once, with the reason in the failure file.

    Without `argv` this process is the launcher's own, about to exit: a signal can no longer change its code.
    """
    env = environment() if env is None else env
    try:
        settings, rest = LaunchSettings.parse(sys.argv[1:] if argv is None else argv)
        place = Place.of(env, settings)
    except TfhetError as error:
        print(f"[tfhet] error: {error}", file=sys.stderr, flush=True)
        write_failure(host_paths(env).failure, str(error), "the launcher", error.exit_code)
        return error.exit_code
    launcher = Launcher(place, rest)
    return asyncio.run(launcher.run() if argv is not None else _then_deaf(launcher.run()))


async def _then_deaf(running: Awaitable[int]) -> int:
    """The result, with the signals that stop a launcher ignored from then on: one that comes while Python shuts down
    (who told the chief to stop is still telling the others) would replace the job's exit code by its own."""
    code = await running
    signal.pthread_sigmask(signal.SIG_BLOCK, _STOP_SIGNALS)  # between the next two lines, too
    for number in _STOP_SIGNALS:
        asyncio.get_running_loop().remove_signal_handler(number)
        signal.signal(number, signal.SIG_IGN)
    return code
