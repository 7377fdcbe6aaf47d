"""One host's life: join, serve or train, report, leave. Every wait has a deadline."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tfhet.clock import SYSTEM
from tfhet.coroutines import in_thread
from tfhet.errors import TfhetError, UsageError
from tfhet.events import Event, Observer, ignore
from tfhet.launch.assignment import Assignment, introduction
from tfhet.launch.follower import Follower
from tfhet.launch.init import STOP_SIGNALS
from tfhet.launch.job_result import JobResult, forget_earlier_job, write_failure
from tfhet.launch.leader import LINGER_S, STOP_S, Leader
from tfhet.launch.output import Log, labels, load_page, metrics_of, write_outcome, write_page
from tfhet.launch.script import Script, environment_of
from tfhet.launch.script_output import ScriptOutput
from tfhet.messages import HostLine, JobResultLine, link as reports, rank
from tfhet.planes import Outlets
from tfhet.record import TIMELINE_FOLDER, RunFolder, TimelineFile
from tfhet.schema import to_json
from tfhet.telemetry import GpuMonitor, Metric, Sampler, gpu_count, host_counters, own_volume
from tfhet.trainer import Settings
from tfhet.writer import Writer

KILL_GRACE_S = 1.0
"""Seconds that a training script may take to end after SIGHUP when the job has failed; short, because a script that
handles the signal may wait for other ranks in an allreduce."""
SERVER_GRACE_S = 1.0
"""Seconds that a process of the data plane may take to end."""

Link = Leader | Follower


class Launcher:
    """The launcher of one host, or of one rank of it."""

    def __init__(self, assignment: Assignment, script_arguments: Sequence[str]):
        self.assignment = assignment
        self.place = assignment.place
        self.began_s = SYSTEM.wall()
        self._settings = assignment.settings
        self._arguments = list(script_arguments)
        self._link: Link | None = None
        self._has_read = False
        self._record = RunFolder(self.place.paths.output_data / "tfhet")
        if self.place.leads_host:
            forget_earlier_job(self.place.paths, self.began_s)
        log = Log(assignment, self._record)
        self.say, self._log = log.say, log
        self._output = ScriptOutput(log.say, log.write_emf, self._reads, self._pass_on)
        self._script = Script(assignment, self._output, log.say)
        self._timeline = self._record.path / TIMELINE_FOLDER
        # One launcher writes the events of the job: lines of several hosts would need one clock.
        self._events = Writer("events", self._write_event)
        self._observe: Observer = self._events.put if self.place.is_leader else ignore
        key = assignment.secret.derived_key("the data plane")
        ready_s, script = self._settings.ready_timeout_s, self._settings.train_script
        outlets = Outlets(log.say, self._report, self._observe, self._script.send, ready_s, key, script)
        self._side = assignment.plane.launcher_side(assignment.plane_settings, self.place, outlets)

    async def run(self) -> int:
        """Runs to the end of the job and returns the exit code."""
        place = self.place
        stopped: asyncio.Future[JobResult] = asyncio.get_running_loop().create_future()
        for number in STOP_SIGNALS:
            asyncio.get_running_loop().add_signal_handler(number, self._ask_to_stop, stopped, number, number.name)
        self.say(introduction(self.assignment, self._side.facts))
        self.say(str(self._host_line()))
        on_stop = self._script.request_stop
        if place.is_leader:
            link: Link = Leader(
                self.assignment,
                self._side,
                self._observe,
                on_stop=on_stop,
                on_host_lost=self._say_host_lost,
                on_gathered=self._script.send,
                progress=lambda: self._output.progress_count if self._has_read else None,
            )
        else:
            lost, gathered = self._side.gone, self._script.send
            link = Follower(self.assignment, on_stop=on_stop, on_host_lost=lost, on_gathered=gathered)
        self._link = link
        background = [
            asyncio.create_task(self._watch_source(stopped), name="source of ranks"),
            asyncio.create_task(self._sample(link), name="sampler"),
            asyncio.create_task(self._expose(), name="metrics"),
        ]
        work = asyncio.create_task(self._work(link), name="work")
        ended = asyncio.create_task(link.ended(), name="end")
        every: set[asyncio.Future[Any]] = {work, ended, stopped}
        await asyncio.wait(every, return_when=asyncio.FIRST_COMPLETED)
        result = await self._conclude(link, work, ended, stopped)
        if result.code:  # at once: the program that started the ranks may kill this launcher soon
            self._report_failure(result)
        for task in (work, ended, *background):
            task.cancel()
        await asyncio.wait({work}, timeout=1.0)  # processes that it is starting must exist to be stopped
        if place.is_leader:  # the followers end at the same time as this host's processes
            await asyncio.gather(link.leave(result.code, result.cause, stopped), self._stop_children())
        else:  # a follower leaves after its processes have ended
            await self._stop_children()
            await link.leave(result.code, result.cause, stopped)
        await asyncio.gather(work, ended, *background, return_exceptions=True)
        self._events.close()
        if isinstance(link, Leader):
            try:
                given = (result, self.began_s, self._side.use(), self._has_read)
                summary = write_outcome(self._record, self.assignment, link, *given)
            except OSError as error:  # a full disk must not change the exit code
                self.say(f"the record cannot be written: {error}")
            else:
                for failure in summary.failures:
                    self.say(f"Error: {failure}")
                await write_page(self._record, self.say)
        self._log.close()
        return result.code

    def _ask_to_stop(self, stopped: asyncio.Future[JobResult], number: signal.Signals, why: str) -> None:
        """Accepts the first request to stop this launcher, and with it the job."""
        if not stopped.done():
            stopped.set_result(JobResult(128 + number, f"{self.place.label} was asked to stop ({why})"))

    async def _watch_source(self, stopped: asyncio.Future[JobResult]) -> None:
        """Treats the end of the program that started the ranks as a request to stop."""
        source = self.assignment.source
        if source is not None:
            self._ask_to_stop(stopped, signal.SIGTERM, await source.gone(self.place))

    async def _work(self, link: Link) -> None:
        await link.join()
        self.assignment.check_packages()
        tasks = {asyncio.create_task(self._side.serve())}
        if self.place.rank is not None:
            tasks.add(asyncio.create_task(self._train(link)))
        if self.place.roles.current in self.assignment.strategy.roles:
            tasks.add(asyncio.create_task(self._serve_strategy(link)))
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve_strategy(self, link: Link) -> None:
        start = await link.started()
        await self.assignment.strategy.serve(self.place, start.strategy, self.say)

    async def _train(self, link: Link) -> None:
        """Runs this rank's script when all is ready, and reports its end."""
        place, script = self.place, self._settings.train_script
        if script and not Path(script).is_file():
            raise UsageError(f"--train_script {script}: no such file, seen from {Path.cwd()}")
        if script:
            self.assignment.strategy.check_script(script, place.size, place.env)
        else:
            await in_thread(Settings.parse(self._arguments).channel, place.paths)
        start = await link.started()
        rank = place.rank
        assert rank is not None
        command = [sys.executable, *([script] if script else ["-m", "tfhet.trainer"]), *self._arguments]
        timeline = self._timeline if self._settings.timeline == "steps" else None
        env = environment_of(self.assignment, self._side, start, self._record.path, timeline)
        facts = {"command": command, "job_id": start.job_id, "sees_reads": self.assignment.plane.sees_reads}
        self._observe(Event("training.started", SYSTEM.wall(), facts))
        pid = await self._script.start(command, env)
        background = [asyncio.create_task(self._side.beside(pid), name="beside")]
        background += [asyncio.create_task(load_page(), name="page")] if place.is_leader else []
        try:
            result = await self._script.ended()
        finally:
            for task in background:
                task.cancel()
        link.report(reports.RankResult(rank.rank, result.code, result.cause))

    def _reads(self, endlessly: bool) -> None:
        self._side.reads(endlessly)
        if not self._has_read:
            self._has_read = True
            self._script.has_begun_to_read()
            self._observe(Event("training.reading", SYSTEM.wall(), {}))

    def _pass_on(self, report: rank.LeaderReport) -> None:
        assert self.place.rank is not None
        self._report(reports.ScriptReport(self.place.rank.rank, to_json(report)))

    def _report(self, report: reports.Report) -> None:
        if self._link is not None:
            self._link.report(report)

    def _say_host_lost(self, host: str) -> None:
        leader = self._link
        assert isinstance(leader, Leader)
        left = ", ".join(leader.serving) or "no host"
        self.say(f"{host} was lost: {leader.lost_hosts[host]}; training continues, {left} serves data")
        self._side.gone(host)

    async def _sample(self, link: Link) -> None:
        """Records the usage of this launcher's processes, and of the host if this launcher leads it."""
        place, file = self.place, TimelineFile(self._timeline / f"use-{self.place.member}.jsonl")
        if self._settings.timeline != "off":
            counters = host_counters() if place.leads_host else None
            gpus = GpuMonitor().start() if place.leads_host and gpu_count(place.env) else None
            volume = own_volume(place.paths.input_data, place.paths.model) if place.leads_host else None
            given = (self._processes, link.clock_offset, counters, gpus, self.say, volume)
            await Sampler(place.host, place.member, file, *given).run()

    async def _expose(self) -> None:
        """Runs the Prometheus endpoint, if the settings ask for it."""
        place, port = self.place, self.assignment.metrics_port
        if port is not None:

            def metrics() -> dict[Metric, float]:
                return metrics_of(place, self._output, self._processes(), self._side.metrics())

            from tfhet.telemetry import serve_metrics  # its import takes as long as the rest of a launcher's

            try:
                at = await in_thread(place.listening, place.address(place.host))
            except TfhetError as error:
                self.say(f"no metrics at --metrics_port: {error}")
            else:
                await serve_metrics(at, port, metrics, labels(place), self.say)

    def _processes(self) -> dict[str, int]:
        """Ids of the processes that run for this launcher, by name."""
        pid, rank = self._script.pid, self.place.rank
        running = {} if pid is None or rank is None else {f"rank-{rank.rank}": pid}
        return {"launcher": os.getpid(), **running, **self._side.processes()}

    async def _conclude(
        self, link: Link, work: asyncio.Task[None], ended: asyncio.Task[JobResult], stopped: asyncio.Future[JobResult]
    ) -> JobResult:
        """The job result: the leader's if it is known, else this launcher's own."""
        if not ended.done() and not stopped.done() and work.done() and (error := work.exception()) is not None:
            own = JobResult.of_error(error, self.place.label, self.assignment.plane.is_noise)
            try:
                link.report(reports.Failed(own.code, own.cause))
                if self.place.rank is None:
                    # The job may continue without this host, which ends with the job; the lease bounds the wait.
                    self.say(f"serves no more: {own.headline}")
                    await self._stop_children()
                    await asyncio.wait({ended, stopped}, return_when=asyncio.FIRST_COMPLETED)
                else:
                    await asyncio.wait({ended}, timeout=self._settings.lease_s)
            except TfhetError:
                return own
            if not ended.done() and not stopped.done():
                return own
        if not ended.done() and not stopped.done():
            await asyncio.wait({ended, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if not ended.done():
            own = stopped.result()
            try:
                link.report(reports.StopWish(own.code, own.cause))
                async with asyncio.timeout(STOP_S + LINGER_S):
                    return await asyncio.shield(ended)
            except (TfhetError, TimeoutError):
                return own
        return ended.result()

    async def _stop_children(self) -> None:
        await asyncio.gather(self._script.stop(KILL_GRACE_S), self._side.stop(SERVER_GRACE_S))
        own, rank = self._script.unreported_failure(), self.place.rank
        if own is not None and rank is not None and not self.assignment.strategy.is_consequence(own.headline):
            with contextlib.suppress(TfhetError):  # the link may be what has failed
                self._report(reports.RankResult(rank.rank, own.code, own.cause))

    def _report_failure(self, result: JobResult) -> None:
        self.say(str(JobResultLine(result.code, result.headline)))
        file, label = self.place.paths.failure, self.place.label
        write_failure(file, result.headline, label, result.code, result.log, self.began_s)
        if self.assignment.source is not None:
            self.assignment.source.release(self.place)

    def _host_line(self) -> HostLine:
        role, group = self.place.roles.current.name, self.place.identity.current_group
        return HostLine(self.place.mode, role, group, self.place.size, self._side.facts)

    def _write_event(self, event: Event) -> None:
        try:
            self._record.write_event(event)
        except OSError as error:
            self.say(f"the event {event.name} cannot be recorded: {error}")
