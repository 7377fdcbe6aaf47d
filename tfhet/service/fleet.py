"""The fleet: the tf.data service processes of one host, started and ended by its launcher. Needs no TensorFlow."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tfhet.cluster import check_free
from tfhet.errors import JobFailed, NotReady
from tfhet.process import Child, OnLine, describe_exit

_MARK = "@tfhet "  # as in tfhet.service.server, which this process must not import


class Fleet:
    """Dispatcher (on one host of the job) and workers of this host.

    `tell` receives (event name, fields); `on_line` the output, line by line, for the log.
    """

    def __init__(
        self,
        host: str,
        address: str,
        env: Mapping[str, str],
        *,
        on_line: OnLine,
        tell: Callable[[str, Mapping[str, object]], None] | None = None,
    ):
        self.host = host
        self.workers_registered = 0
        """Workers that the dispatcher on this host knows; 0 where there is none."""
        self.native: frozenset[str] | None = None
        """The compiled ops that all processes of the fleet have; None before the first serves."""
        self._address = address
        self._env = dict(env)
        self._on_line = on_line
        self._tell = tell or (lambda event, fields: None)
        self._children: dict[str, Child] = {}
        self._ready: dict[str, asyncio.Event] = {}

    async def start_dispatcher(self, port: int, deadline_s: float) -> None:
        """Starts the dispatcher and waits until it serves. Raises UsageError for a busy port, NotReady, JobFailed."""
        check_free(port)
        await self._start("dispatcher", ["dispatcher", "--port", str(port)])
        await self._wait_ready(["dispatcher"], deadline_s)

    async def start_workers(self, ports: Sequence[int], dispatcher: str, deadline_s: float) -> None:
        """Starts one worker for each port and waits until they serve. Raises as `start_dispatcher` does."""
        for port in ports:
            check_free(port)
        names = [f"worker-{index}" for index in range(len(ports))]
        for name, port in zip(names, ports, strict=True):
            await self._start(
                name, ["worker", "--port", str(port), "--address", self._address, "--dispatcher", dispatcher]
            )
        await self._wait_ready(names, deadline_s)

    async def failure(self) -> JobFailed:
        """Returns when a process of the fleet has ended that nobody stopped; waits for ever otherwise."""
        while not self._children:
            await asyncio.sleep(0.1)
        waits = {asyncio.create_task(child.wait()): name for name, child in self._children.items()}
        try:
            done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waits:
                task.cancel()
        return self._died(waits[done.pop()])

    async def stop(self, grace_s: float = 2.0) -> None:
        """Ends all its processes, side by side: when a fleet is stopped, nobody reads from it any more."""
        await asyncio.gather(*(child.stop(grace_s) for child in self._children.values()))
        self._children.clear()

    async def _start(self, name: str, arguments: Sequence[str]) -> None:
        self._ready[name] = asyncio.Event()
        command = [sys.executable, "-m", "tfhet.service.server", *arguments]
        self._children[name] = await Child.start(
            name, command, env=self._env, on_line=lambda line: self._heard(name, line)
        )
        self._tell("service.started", {"process": name, "pid": self._children[name].pid})

    def _heard(self, name: str, line: str) -> None:
        if not line.startswith(_MARK):
            self._on_line(f"[{name}] {line}")
            return
        fields = json.loads(line[len(_MARK) :])
        event = fields.pop("event")
        if event == "ready":
            kernels = frozenset(fields.get("native", ()))
            self.native = kernels if self.native is None else self.native & kernels
            self._ready[name].set()
        elif event == "workers":
            self.workers_registered = int(fields["count"])
        self._tell(f"service.{event}", {"process": name, **fields})

    async def _wait_ready(self, names: Sequence[str], deadline_s: float) -> None:
        async def all_ready() -> None:
            for name in names:
                await self._ready[name].wait()

        ready, failed = asyncio.create_task(all_ready()), asyncio.create_task(self.failure())
        try:
            both: set[asyncio.Task[Any]] = {ready, failed}
            done, _ = await asyncio.wait(both, timeout=deadline_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ready.cancel()
            failed.cancel()
        if ready in done:
            return
        if failed in done:
            raise failed.result()
        late = [name for name in names if not self._ready[name].is_set()]
        raise NotReady(f"{self.host}: {', '.join(late)} did not serve within {deadline_s:g} s")

    def _died(self, name: str) -> JobFailed:
        child = self._children[name]
        code = child.code or 0
        return JobFailed(
            f"{name} on {self.host} ended by itself ({describe_exit(code)})",
            host=self.host,
            code=code,
            log_tail=child.tail,
        )
