"""The recorder of a process: what was requested and delivered, appended to a file by a thread.

The file has one JSON value per line: objects that describe the process, its readers and its passes, and for each
delivery the list `[pass, requested_s, delivered_s, examples, is_grad_enabled, optimizer_steps, device_wait_s]` with
times on the monotonic clock. The end of a pass has -1 examples.
"""

from __future__ import annotations

import atexit
import json
import os
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, ClassVar

FLUSH_S = 0.5
"""Seconds between two writes."""
MOST_ROWS = 1_000_000
"""Number of deliveries that a process records."""
LAST_S = 2.0
"""Seconds that a process waits at its end for its disk."""
END, NO_BATCH = -1, -2
"""Number of examples of a row that is the end of a pass; and of a request that failed, which has no row."""
LATE_S = 30.0
"""Seconds after which a delivery is recorded without the time of the device."""
now = time.monotonic
_NOTHING = object()
"""In the place of a batch at the end of a pass."""


class Pass:
    """One pass over a reader. The caller notes each request and each delivery."""

    def __init__(self, recorder: Recorder, reader: int, kind: str):
        self.number = recorder.number()
        thread = threading.get_ident()
        recorder.describe({"kind": "pass", "pass": self.number, "reader": reader, "of": kind, "thread": thread})


class Recorder:
    """Records in this process; one per process (`here`)."""

    _of_process: Recorder | None = None
    folder = ""
    """Folder of the files; "" if nothing is recorded."""
    is_worker = False
    """Whether this process prepares data for another one."""
    training_state: Callable[[], tuple[bool, int]] | None = None
    """Returns whether gradients are enabled, and the number of optimizer steps."""
    device_marks: ClassVar[list[Any]] = []
    """Make marks of the work of the accelerator (`torch_device.Marks`, `jax_device.Marks`)."""

    def __init__(self) -> None:
        self.optimizer_steps = 0
        self.optimizer_thread: int | None = None
        """Thread of the last step of an optimizer."""
        self.before_write: list[Callable[[], None]] = []
        """Called in the thread before each write."""
        self.pending: dict[int, float] = {}
        """Requests that are not answered: their times by thread."""
        self._rows: deque[Any] = deque()
        self._readers: dict[str, int] = {}
        self._count = self._numbers = 0
        self._rank: dict[str, Any] = {}
        self._file: Any = None
        self._failed = False
        self._writing, self._closes = threading.Lock(), threading.Event()
        self._thread: threading.Thread | None = None

    @classmethod
    def here(cls) -> Recorder | None:
        """The recorder of this process; None in one whose deliveries are not recorded."""
        if not cls.folder or cls.is_worker:
            return None
        if cls._of_process is None:
            cls._of_process = cls()
        return cls._of_process

    @classmethod
    def forget(cls) -> None:
        """Ends recording without a last write: for the child of a fork, whose parent continues."""
        cls._of_process = None
        _depth.__dict__.clear()

    def number(self) -> int:
        self._numbers += 1
        return self._numbers

    def reader(self, name: str, facts: dict[str, Any], key: str = "") -> int:
        """Describes a reader; returns its number, which is the same for readers with the same facts."""
        key = json.dumps([name, key, facts], sort_keys=True, default=str)
        if key not in self._readers:
            self._readers[key] = self.number()
            self.describe({"kind": "reader", "reader": self._readers[key], "name": name, "facts": facts})
        return self._readers[key]

    def describe(self, content: dict[str, Any]) -> None:
        self._rows.append(content)
        self._start()

    def add(self, begun: Pass, requested_s: float, delivered_s: float, examples: int, mark: Any = None) -> None:
        """Adds a delivery, or the end of a pass. mark: of `device_marks`."""
        grad, steps = self.training_state() if self.training_state else (True, self.optimizer_steps)
        if self._count < MOST_ROWS:
            self._count += 1
            self._rows.append((begun.number, requested_s, delivered_s, examples, int(grad), steps, mark))
            if self._count == MOST_ROWS:
                self._rows.append({"kind": "full", "rows": MOST_ROWS})

    def write(self, is_last: bool = False) -> None:
        """Writes what is new. Rows whose mark the device has not reached wait, unless it is the last call."""
        with self._writing:
            for each in self.before_write:
                each()
            lines = []
            rank = {**rank_of_process(), "training_thread": self.optimizer_thread or threading.main_thread().ident}
            if rank != self._rank:
                self._rank = rank
                ahead_s = time.time() - now()
                lines.append({"kind": "process", "pid": os.getpid(), "ahead_s": ahead_s, "argv": sys.argv[:8], **rank})
            while self._rows:
                row = self._rows[0]
                if isinstance(row, tuple):
                    *values, mark = row
                    device_s = mark.wait_s() if mark is not None else None
                    if device_s is None and mark is not None and not (is_last or mark.is_late()):
                        break
                    row = [*(round(each, 6) if isinstance(each, float) else each for each in values)]
                    row.append(None if device_s is None else round(device_s, 6))
                self._rows.popleft()
                lines.append(row)
            if lines:
                if self._file is None:
                    path = os.path.join(self.folder, f"notes-{socket.gethostname()}-{os.getpid()}.jsonl")
                    self._file = open(path, "a", encoding="utf-8")  # noqa: SIM115  open until the process ends
                self._file.write("".join(json.dumps(line, default=str) + "\n" for line in lines))
                self._file.flush()

    def close(self) -> None:
        """Writes the rest and ends the thread. Safe to call again."""
        self._closes.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(LAST_S)
        try:
            self.write(is_last=True)
        except Exception as error:
            failed("writing", error)

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="tfhet-watch", daemon=True)
            self._thread.start()
            atexit.register(self.close)

    def _run(self) -> None:
        while not self._closes.wait(FLUSH_S):
            try:
                self.write()
            except Exception as error:
                failed("writing", error)


class _Depth(threading.local):
    value = 0


_depth = _Depth()
_said: set[str] = set()


def failed(where: str, error: BaseException) -> None:
    """Writes an error of the hooks to the log, once for each place: it must not reach the script."""
    if where in _said:
        return
    _said.add(where)
    try:
        with open(os.path.join(Recorder.folder, "errors.log"), "a", encoding="utf-8") as file:
            file.write(f"process {os.getpid()}: {where}: {type(error).__name__}: {error}\n")
    except OSError:
        pass


def noted(call: Callable[[], Any], pass_of: Callable[[Recorder], Pass], since_s: float = 0.0) -> Any:
    """Calls `call`, which returns the next batch, and notes the delivery. A call within another one is no delivery to
    the script. since_s: seconds that the script waited for this batch before the call."""
    asked_s = now() - since_s
    recorder = Recorder.here()
    if recorder is None or _depth.value:
        return call()
    try:
        begun = pass_of(recorder)
        marks = (each.request() for each in recorder.device_marks)
        mark = next((each for each in marks if each is not None), None)
        recorder.pending[threading.get_ident()] = asked_s
    except Exception as error:
        failed("a request", error)
        return call()
    _depth.value, examples = 1, NO_BATCH
    try:
        batch = call()
        examples = 0
    except StopIteration:
        examples = END
        raise
    finally:
        delivered_s = now()
        _depth.value = 0
        recorder.pending.pop(threading.get_ident(), None)
        if examples == END:
            _keep(recorder, begun, asked_s, delivered_s)
    _keep(recorder, begun, asked_s, delivered_s, batch, mark)
    return batch


def _keep(
    recorder: Recorder, begun: Pass, asked_s: float, delivered_s: float, batch: Any = _NOTHING, mark: Any = None
) -> None:
    """Adds a delivery, or without a batch the end of a pass."""
    try:
        if mark is not None and batch is not _NOTHING:
            mark.delivered()
        recorder.add(begun, asked_s, delivered_s, END if batch is _NOTHING else examples_in(batch), mark)
    except Exception as error:
        failed("a delivery", error)


def examples_in(batch: Any, depth: int = 3) -> int:
    """The length of the first axis of the first array in a batch; 1 if it has none."""
    shape = getattr(batch, "shape", None)
    if shape is not None:
        return int(shape[0] or 0) if len(shape) else 1
    if depth and isinstance(batch, (list, tuple)) and batch:
        return examples_in(batch[0], depth - 1) if not isinstance(batch[0], (str, int, float)) else len(batch)
    if depth and hasattr(batch, "values") and batch:
        return examples_in(next(iter(batch.values())), depth - 1)
    return 1


def rank_of_process() -> dict[str, Any]:
    """The place of this process among those that train together, as launchers and frameworks state it."""
    env = os.environ
    place: dict[str, Any] = {"rank": 0, "size": 1, "host": socket.gethostname(), "source": ""}
    for rank, size in (
        ("RANK", "WORLD_SIZE"),
        ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
        ("PMI_RANK", "PMI_SIZE"),
        ("HOROVOD_RANK", "HOROVOD_SIZE"),
        ("SLURM_PROCID", "SLURM_NTASKS"),
    ):
        if env.get(rank, "").isdecimal() and env.get(size, "").isdecimal():
            place.update(rank=int(env[rank]), size=int(env[size]), source=rank)
            break
    distributed = sys.modules.get("torch.distributed")
    jax: Any = getattr(sys.modules.get("jax._src.distributed"), "global_state", None)
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        place.update(rank=distributed.get_rank(), size=distributed.get_world_size(), source="torch.distributed")
    elif (getattr(jax, "num_processes", None) or 1) > 1:  # jax.distributed.initialize() was called
        place.update(rank=jax.process_id, size=jax.num_processes, source="jax.distributed")
    elif "ray.train" in sys.modules:
        try:
            context = sys.modules["ray.train"].get_context()
            place.update(rank=int(context.get_world_rank()), size=int(context.get_world_size()), source="ray.train")
        except Exception:  # this process is no worker of Ray Train
            pass
    return place


def _forked() -> None:
    Recorder.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
