"""Runs a loader in a process of its own, and reads the memory of that process and its workers."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

from benchmarks.loader.loaders import LOADERS, Loader
from benchmarks.peers import packages
from benchmarks.peers.peer import Job
from tfhet.errors import TfhetError, unknown

SAMPLE_S = 0.05
"""Time between two readings of the memory."""
LIMIT_S = 120.0
"""Maximum time of a run."""
SUBJECT = Path(__file__).with_name("subject.py")


@dataclass(frozen=True)
class Run:
    """The result of one run. Times begin before the import of the loader's modules."""

    images_per_s: float
    first_batch_s: float
    import_s: float
    peak_mib: float | None
    """Sum over all processes; None if it was not sampled."""
    import_mib: float | None
    """Memory at the end of the import."""
    versions: dict[str, str]
    """Of the loader's modules."""


def loader_named(name: str) -> Loader:
    """Returns a loader. Raises UsageError that lists the known ones."""
    if name not in LOADERS:
        unknown("loader", name, LOADERS)
    return LOADERS[name]


def run(loader: Loader, job: Job, seconds: float, cache: Path | None = None, *, is_sampled: bool) -> Run:
    """Runs a loader for the first epoch, then for whole epochs of at least `seconds` in total.

    Args:
        loader: The loader.
        job: The photos, and the number of threads or worker processes.
        seconds: Least time of the steady state.
        cache: See `packages.folder_of`.
        is_sampled: Whether the memory is read, which takes CPU time from the loader.

    Raises:
        TfhetError: The loader's error, or that it took too long.
    """
    request = {"seconds": seconds, "is_sampled": is_sampled}
    answer, peak_bytes = ask(loader, job, request, cache, is_sampled=is_sampled)
    rate, first_s, import_s = (float(answer[name]) for name in ("images_per_s", "first_batch_s", "import_s"))
    peak_mib = peak_bytes / 2**20 if is_sampled else None
    return Run(rate, first_s, import_s, peak_mib, answer.get("import_mib"), answer["versions"])


def ask(
    loader: Loader, job: Job, request: dict[str, Any], cache: Path | None = None, *, is_sampled: bool = False
) -> tuple[dict[str, Any], int]:
    """Returns the answer of a loader's process, and the peak of its memory in bytes. Raises TfhetError."""
    full = {"loader": loader.name, "imports": loader.imports, "job": asdict(job), **request}
    peak, deadline = 0, time.monotonic() + LIMIT_S
    with _started(loader, full, cache) as (process, answers, errors):
        while process.poll() is None:
            if time.monotonic() > deadline:
                raise TfhetError(f"loader {loader.name} took more than {LIMIT_S:g} s")
            if is_sampled:
                peak = max(peak, memory_bytes(process.pid))
            time.sleep(SAMPLE_S)
        answers.seek(0)
        if not (line := answers.read()):
            errors.seek(0)
            last = " | ".join(errors.read().strip().splitlines()[-2:]) or "it printed nothing"
            raise TfhetError(f"loader {loader.name} ended with exit code {process.returncode}: {last}")
    answer: dict[str, Any] = json.loads(line)
    if "error" in answer:
        raise TfhetError(f"loader {loader.name}: {answer['error'][:500]}")
    return answer, peak


def memory_bytes(pid: int) -> int:
    """Returns the memory of a process and all processes below it: the sum of PSS in /proc/PID/smaps_rollup, in which
    each shared page is divided among the processes that map it."""
    total = 0
    with contextlib.suppress(psutil.Error):
        whole = psutil.Process(pid)
        for process in (whole, *whole.children(recursive=True)):
            with contextlib.suppress(OSError, StopIteration):  # it has ended
                lines = Path(f"/proc/{process.pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
                total += 1024 * int(next(line.split()[1] for line in lines if line.startswith("Pss:")))
    return total


@contextlib.contextmanager
def _started(loader: Loader, request: dict[str, Any], cache: Path | None) -> Iterator[Any]:
    """The loader's process with its output files. Its workers end with the context, too."""
    with tempfile.TemporaryFile("w+") as answers, tempfile.TemporaryFile("w+", errors="replace") as errors:
        env, command = packages.environment_of(loader, cache), [sys.executable, "-P", str(SUBJECT)]
        if not loader.is_tfhet and (folder := packages.folder_of(loader, cache)).is_dir():
            # Only its own packages: some libraries import more when TensorFlow or scikit-learn are installed.
            env["PYTHONPATH"], command[1:1] = os.pathsep.join([str(folder), str(packages.CHECKOUT)]), ["-S"]
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=answers, stderr=errors, text=True, env=env, start_new_session=True
        )
        assert process.stdin is not None
        try:
            with contextlib.suppress(OSError), process.stdin:  # it has ended: its error says why
                process.stdin.write(json.dumps(request))
            yield process, answers, errors
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
