"""The fleet: the tf.data service processes of one host, started, kept alive and ended. Needs no TensorFlow."""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path

from tfhet.cluster import without_secrets
from tfhet.messages import server as messages
from tfhet.planes.cpus import confine, left_by, usable
from tfhet.planes.process import with_malloc_tunables
from tfhet.planes.supervised import Happening, Processes, RestartPolicy, Supervised
from tfhet.planes.tf_service import journal
from tfhet.planes.tf_service.settings import SERVER
from tfhet.process import OnLine

_CANNOT_REPORT = re.compile(r"\bworker_impl\.cc:\d+\] Failed to send task updates to dispatcher: NOT_FOUND: ")
"""A worker has finished a task of a dispatcher that was replaced. It reports all that it has finished at once, again
and again, and the dispatcher refuses all of it because of that task: its epoch would never end (TF 2.15.1). If the
number belongs to another task there, that one passes for finished. A new process has nothing to report."""
_LOG_LEVEL = "TF_CPP_MIN_LOG_LEVEL"


@dataclass(eq=False)
class Fleet(Processes):
    """Dispatcher (on one host of the job) and workers of this host."""

    host: str
    address: str
    env: Mapping[str, str]
    _: KW_ONLY
    key: bytes = field(repr=False)
    """Key of the job's data plane, 32 bytes."""
    on_line: OnLine
    """Called with each line of output."""
    observe: Callable[[str, Happening], None] = lambda name, happening: None
    """Called with the name of a process and what happens to it, or what it reports."""
    policy: RestartPolicy = RestartPolicy()
    folder: Path | None = None
    """Local folder for the dispatcher's journal and socket files; None: the system's for temporary files."""
    gives_way: bool = False
    """Whether its workers run only when no other process on the host wants the CPU."""
    encrypted: bool = False
    """Whether batches are encrypted; control connections always are."""
    listen: str = ""
    """The IP address at which its servers listen; "": `address`."""

    def __post_init__(self) -> None:
        super().__init__(self.host)
        self.workers_registered = 0
        """Workers that the dispatcher on this host knows; 0 where there is none."""
        self.native: frozenset[str] | None = None
        """The compiled ops that all processes have; None before the first serves."""
        self._env = with_malloc_tunables(without_secrets(self.env))
        if self._env.get(_LOG_LEVEL, "0") not in ("0", "1"):  # warnings have to be heard
            self._env[_LOG_LEVEL] = "1"
        self._cpus: tuple[int, ...] = ()
        self._workers: dict[str, list[str]] = {}  # arguments by name
        self._scratch: Path | None = None  # only this user may enter it
        self._dispatcher_port = 0
        self._generations = 0
        self._knows_workers = False

    async def start_dispatcher(self, port: int, deadline_s: float) -> None:
        """Starts the dispatcher and waits until it serves. Raises UsageError for a busy port, NotReady, JobFailed."""
        self.claim([port])
        self._dispatcher_port = port
        self._start("dispatcher", self._dispatcher_command())
        await self.wait_ready(deadline_s)

    def renew_dispatcher(self) -> None:
        """Replaces the dispatcher with one that knows no data set, which ends every reader's data set with an error.
        The old one would wait for ever for the tasks of a worker that is gone (TF 2.15.1)."""
        self.workers_registered, self._knows_workers = 0, False
        if "dispatcher" in self.servers:
            self.servers["dispatcher"].renew(self._dispatcher_command())

    def _dispatcher_command(self) -> list[str]:
        before, self._generations = self._generations, self._generations + 1
        work_dir, last = (self._own_folder() / f"generation-{number}" for number in (self._generations, before))
        journal.begin(work_dir, self._generations, last if before else None)
        return self._command("dispatcher", "--port", str(self._dispatcher_port), "--work_dir", str(work_dir))

    def _own_folder(self) -> Path:
        if self._scratch is None:
            try:
                if self.folder is not None:
                    self.folder.mkdir(exist_ok=True)  # without parents: where there is no SageMaker, none is made
                self._scratch = Path(tempfile.mkdtemp(prefix="tfhet-service-", dir=self.folder))
            except OSError:
                self._scratch = Path(tempfile.mkdtemp(prefix="tfhet-service-"))
        return self._scratch

    def _command(self, *arguments: str) -> list[str]:
        where = ["--address", self.address, "--listen", self.listen, "--folder", str(self._own_folder())]
        return [sys.executable, "-m", SERVER, *arguments, *where, *(["--encrypted"] if self.encrypted else [])]

    async def start_workers(self, ports: Sequence[int], dispatcher: str, deadline_s: float) -> None:
        """Starts one worker for each port and waits until they serve. Raises as `start_dispatcher` does."""
        self.claim(ports)
        names = [f"worker-{index}" for index in range(len(ports))]
        for name, port in zip(names, ports, strict=True):
            where = ["--port", str(port), "--dispatcher", dispatcher]
            self._workers[name] = [*where, *(["--gives_way"] if self.gives_way else [])]
            self._start(name, self._worker_command(name))
        await self.wait_ready(deadline_s)

    def keep_off(self, reserve: int) -> tuple[int, ...]:
        """Leaves `reserve` of the host's CPUs to others. Returns the CPUs that present and future workers use."""
        every = usable()
        left = left_by(reserve, every)
        if every and left != (self._cpus or every):
            self._cpus = left
            for name in self._workers:
                server = self.servers[name]
                server.command = self._worker_command(name)
                if server.pid is not None:
                    confine(server.pid, left)
        return left

    def _worker_command(self, name: str) -> list[str]:
        cpus = ["--cpus", ",".join(map(str, self._cpus))] if self._cpus else []
        return self._command("worker", *self._workers[name], *cpus)

    async def stop(self, grace_s: float = 2.0) -> None:
        await super().stop(grace_s)
        self._workers.clear()
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)
            self._scratch = None

    def _start(self, name: str, command: Sequence[str]) -> None:
        def observe(happening: Happening) -> None:
            if isinstance(happening, messages.Ready):
                kernels = frozenset(str(kernel) for kernel in happening.facts.get("native", ()))
                self.native = kernels if self.native is None else self.native & kernels
                self._knows_workers = self._knows_workers or name == "dispatcher"
            elif isinstance(happening, messages.Registered):
                if not self._knows_workers:  # from a dispatcher that was replaced
                    return
                self.workers_registered = happening.workers
            self.observe(name, happening)

        def hear(line: str) -> None:
            self.on_line(line)
            if name in self._workers and _CANNOT_REPORT.search(line) and server.pid is not None:
                self.on_line(f"[{name}] it has finished work of a dispatcher that was replaced, and is replaced, too")
                server.renew(self._worker_command(name))

        given = (name, self.host, command, self._env, hear, observe, self.policy)
        server = self.servers[name] = Supervised(*given, key=self.key)
