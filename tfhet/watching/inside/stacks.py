"""Samples of Python stacks: which function of the input code costs the time.

A daemon thread looks at one thread about 50 times a second and counts the innermost frame that belongs to the script's
own code or to a transform, not to PyTorch, NumPy, Pillow or the standard library. Between two samples in a row it also
measures whether the thread computed, or waited, for a file for example.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable
from types import FrameType
from typing import Any

from tfhet.watching.inside.recorder import Recorder, failed, now

EVERY_S = 0.02
COMPUTES = 0.5
"""Share of the time between two samples for which a thread must run, or wait for a CPU, to count as computing."""
SWITCH_S = 0.001
"""Seconds after which Python interrupts a thread for the sampler. With Python's 5 ms, operations that release the lock
are sampled instead of the Python code between them."""
WRITE_S = 1.0
MOST_LABELS = 300
"""Number of functions that are told apart; the others count as `other`."""
COLLATE, TRANSFER, READ, IDLE = "collate", "hand-over to the main process", "reading files", ""
_HERE = os.path.dirname(os.path.abspath(__file__))
_STDLIB = os.path.dirname(os.__file__)
_PACKAGES = (
    "torch",
    "numpy",
    "PIL",
    "cv2",
    "scipy",
    "pandas",
    "pyarrow",
    "h5py",
    "accelerate",
    "datasets",
    "lightning",
    "ray",
    "tensorflow",
    "transformers",
)
_READS = ("open", "read", "readinto", "load", "imread", "fromfile", "read_array", "memmap", "getmember")
_PLUMBING = ("Compose.__call__", "Compose.forward", "Sequential.forward", "Subset.__getitem__", "Subset.__getitems__")


class StackSampler:
    """Samples one thread. is_busy: returns the thread to look at, or None if nothing is to be counted."""

    def __init__(self, role: str, is_busy: Callable[[], int | None]):
        self.counts: Counter[str] = Counter()
        self.timed: Counter[str] = Counter()
        """Samples that tell whether the thread computed."""
        self.waited: Counter[str] = Counter()
        """Samples of these in which it did not."""
        self._before: tuple[int, float, float] | None = None
        """Thread, time and CPU seconds of the sample before, if that was counted."""
        self._role, self._is_busy = role, is_busy
        self._closes = threading.Event()
        self._parent = os.getppid()
        self._written_s, self._written = now(), 0
        self._writing = threading.Lock()
        sys.setswitchinterval(min(sys.getswitchinterval(), SWITCH_S))
        self._thread = threading.Thread(target=self._run, name="tfhet-stacks", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closes.set()
        self._write()

    def _run(self) -> None:
        while not self._closes.wait(EVERY_S):
            try:
                thread = self._is_busy()
                if thread is None:
                    self._before = None
                else:
                    self._time(thread, self.sample(sys._current_frames().get(thread)))
                if now() >= self._written_s + WRITE_S:
                    self._write()
            except Exception as error:
                failed("sampling stacks", error)

    def sample(self, frame: FrameType | None) -> str:
        """Counts a stack, the innermost frame first; returns its label, "" if it does not count."""
        label = label_of(frame, self._role)
        if label:
            known = label in self.counts or len(self.counts) < MOST_LABELS
            label = label if known else "other"
            self.counts[label] += 1
        return label

    def _time(self, thread: int, label: str) -> None:
        """Counts whether the thread computed since the sample before."""
        used_s = used_cpu_s(thread) if label else None
        at_s, before = now(), self._before
        self._before = None if used_s is None else (thread, at_s, used_s)
        if before is not None and used_s is not None and before[0] == thread:
            self.timed[label] += 1
            self.waited[label] += used_s - before[2] < COMPUTES * (at_s - before[1])

    def _write(self) -> None:
        self._written_s = now()
        with self._writing:
            total = sum(self.counts.values())
            if total == self._written or not Recorder.folder:
                return
            self._written = total
            write_samples(self._role, self._parent, self.counts, self.timed, self.waited)


def write_samples(
    role: str, parent: int, counts: dict[str, int], timed: dict[str, int], waited: dict[str, int], suffix: str = ""
) -> None:
    """Writes the samples of this process. role: `worker`, `main` or `core`. suffix: of the file's name."""
    path = os.path.join(Recorder.folder, f"stacks-{os.getpid()}{suffix}.json")
    content: dict[str, Any] = {"pid": os.getpid(), "parent": parent, "role": role}
    content |= {"counts": dict(counts), "timed": dict(timed), "waited": dict(waited)}
    try:
        with open(f"{path}.part", "w", encoding="utf-8") as file:
            json.dump(content, file)
        os.replace(f"{path}.part", path)
    except OSError as error:
        failed("writing stacks", error)


def used_cpu_s(thread: int) -> float | None:
    """Seconds for which a thread of this process ran or waited for a CPU; None if the system does not say."""
    number = next((each.native_id for each in threading.enumerate() if each.ident == thread), None)
    try:
        with open(f"/proc/self/task/{number}/schedstat", encoding="ascii") as file:
            ran_ns, delayed_ns, _ = file.read().split()
        return (int(ran_ns) + int(delayed_ns)) / 1e9
    except (OSError, ValueError):
        return None


def start_in_worker() -> StackSampler | None:
    """Samples the calling thread, of a worker of a loader, while it makes batches."""
    if not Recorder.folder:
        return None
    thread = threading.get_ident()
    try:
        return StackSampler("worker", lambda: thread)
    except Exception as error:
        failed("sampling stacks", error)
        return None


def sample_requests(recorder: Recorder) -> None:
    """Samples the threads of this process that wait for a batch, which it makes itself."""
    holder: Any = recorder
    if getattr(holder, "stack_sampler", None) is None:
        holder.stack_sampler = StackSampler("main", lambda: next(iter(list(recorder.pending)), None))


def label_of(frame: FrameType | None, role: str) -> str:
    """The name under which a stack is counted; "" for a worker that has nothing to do. role: `worker` or `main`."""
    frames = []
    while frame is not None:
        frames.append(frame)
        frame = frame.f_back
    at = next((index for index, each in enumerate(frames) if _is_fetch(each)), None)
    if at is None:
        inner = [each for each in frames if each.f_code.co_filename.startswith(_HERE)]
        if role == "worker" or not inner:  # a worker outside of `fetch` waits for an index, or hands a batch over
            names = {each.f_code.co_name for each in frames[:8]}
            return TRANSFER if "put" in names or "reduce_storage" in names else IDLE
        at = frames.index(inner[0])
    reads = False
    for each in frames[:at]:
        path, name = each.f_code.co_filename, getattr(each.f_code, "co_qualname", each.f_code.co_name)
        if path.endswith(("/_utils/collate.py", "/_utils/pin_memory.py")):
            return COLLATE
        if _is_library(path) or name in _PLUMBING:
            reads = reads or each.f_code.co_name in _READS
            continue
        return f"{name} in {os.path.basename(path)}{f' ({READ})' if reads else ''}"
    return COLLATE if at and frames[at - 1].f_code.co_name == "default_collate" else "the reader itself"


def _is_fetch(frame: FrameType) -> bool:
    return frame.f_code.co_name == "fetch" and frame.f_code.co_filename.endswith("/_utils/fetch.py")


def _is_library(path: str) -> bool:
    if path.startswith("<"):
        return True
    if "site-packages" in path or "dist-packages" in path:
        package = path.replace("dist-packages", "site-packages").rpartition("site-packages/")[2].partition("/")[0]
        is_helper = package == "torchvision" and ("/functional" in path or "functional" in os.path.basename(path))
        return package in _PACKAGES or is_helper
    return path.startswith(_STDLIB)
