"""Runs a training script in its own process until it passes its training data to tfhet, which are profiled then."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tfhet.cluster import Rank, environment, keep_free
from tfhet.errors import DataError, NotReady, UsageError
from tfhet.events import Event, Observer, ignore
from tfhet.planes import with_malloc_tunables
from tfhet.planes.ray import alone_variables, end_marked
from tfhet.process import Child, describe_exit
from tfhet.profile import handed_over
from tfhet.profile.effort import Effort
from tfhet.profile.handed_over import FAILURE, REACHED, RECORD
from tfhet.profile.result import Profile
from tfhet.profile.target import makes_ray
from tfhet.record import Record, RunFolder
from tfhet.strategies.tensorflow import VARIABLE as TF_CONFIG, WORKER, Tasks
from tfhet.strategies.torch import TorchRendezvous
from tfhet.telemetry import gpu_count

RAY = "ray"
"""Name of the folder of a Ray node."""
GRACE_S = 10.0
"""Seconds that the script may take to end after the measurement."""
LOOK_S = 0.1
ONLY_HOST = "algo-1"
PARAMETER_SERVERS = "ParameterServerStrategy"
BUDGETS = 20.0
"""Maximum duration of measuring as a multiple of the budget's CPU seconds, after the script's deadline."""


async def measure_script(
    script: Path, arguments: Sequence[str], effort: Effort, deadline_s: float, observer: Observer = ignore
) -> Profile:
    """Returns the profile of a script's training data, or of a Ray data set FILE.py:NAME. Its output goes to stderr.
    deadline_s: seconds in which the script must pass its data. Raises UsageError if the file does not exist,
    or ends before the call, NotReady if the script is late, and DataError if the data cannot be profiled."""
    if not script.is_file() and not makes_ray(str(script)):
        raise UsageError(f"--script {script}: no such file")
    needs_servers = script.is_file() and PARAMETER_SERVERS in script.read_text(encoding="utf-8", errors="replace")
    with tempfile.TemporaryDirectory(prefix="tfhet-profile-") as name, _one_rank() as place:
        folder = Path(name)
        if needs_servers:  # the only worker would serve until the deadline
            del place[TF_CONFIG]

        def look() -> None:
            for event in RunFolder(folder).events()[-1:]:
                observer(Event(event["event"], event["time_s"], event))

        words = [name, str(effort.budget_s), str(effort.repeats), str(script), *arguments]
        command = [sys.executable, "-m", handed_over.__name__, *words]
        env = {**_one_host(folder), **environment(), **place, "PYTHONUNBUFFERED": "1"}
        env = alone_variables(with_malloc_tunables(env), folder / RAY)
        child = await Child.start(script.name, command, env=env, on_line=_say)
        try:
            late = f"{script} has not called tfhet.distribute or tfhet.batches within {deadline_s:g} s (--deadline_s)"
            await _until([folder / REACHED], child, deadline_s, late)
            limit_s = deadline_s + BUDGETS * effort.budget_s
            late = f"the data of {script} were not measured within {limit_s:g} s: give a smaller --budget_s"
            await _until([folder / RECORD, folder / FAILURE], child, limit_s, late, look)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(GRACE_S):
                    await child.wait()
        finally:
            code = await child.stop(GRACE_S)
            end_marked(folder / RAY)
        if (folder / FAILURE).exists():
            raise DataError(f"{script} cannot be profiled: {(folder / FAILURE).read_text()}", str(script))
        if not (folder / RECORD).exists():
            when = "before it handed data for training to tfhet.distribute or tfhet.batches, which would be profiled"
            when = "while its data were measured" if (folder / REACHED).exists() else when
            last = next((f": {line.strip()}" for line in reversed(child.tail) if line.strip()), "") if code else ""
            if code and needs_servers:
                last = f"{last.removesuffix('.')}. With {PARAMETER_SERVERS}, workers make data: profile FILE.py:NAME"
            raise UsageError(f"{script} ended with {describe_exit(code, child.tail)} {when}{last}")
        return Profile.of(Record.read(folder / RECORD))


def _one_host(folder: Path) -> dict[str, str]:
    """Variables of SageMaker that scripts read without a default, for a job of this host alone."""
    return {
        "SM_HOSTS": json.dumps([ONLY_HOST]),
        "SM_CURRENT_HOST": ONLY_HOST,
        "SM_NUM_GPUS": str(gpu_count({})),
        "SM_NUM_CPUS": str(os.cpu_count() or 1),
        "SM_MODEL_DIR": str(folder / "model"),
        "SM_OUTPUT_DATA_DIR": str(folder / "output"),
    }


@contextlib.contextmanager
def _one_rank() -> Iterator[dict[str, str]]:
    """The variables of torchrun's only rank and of TF_CONFIG's only worker, whose ports the block keeps free."""
    with keep_free(socket.SO_REUSEADDR) as store, keep_free() as server:
        interface = next((name for _, name in socket.if_nameindex() if name.startswith("lo")), "lo")
        torch = TorchRendezvous("127.0.0.1", store.getsockname()[1], interface)
        tasks = Tasks({WORKER: [f"127.0.0.1:{server.getsockname()[1]}"]})
        yield {**torch.variables("", Rank(0, 1, 0, 1, "profile")), **tasks.of_task(WORKER, 0)}


async def _until(
    paths: Sequence[Path], child: Child, limit_s: float, late: str, look: Callable[[], None] = lambda: None
) -> None:
    """Waits for one of some files or the end of the child, and calls `look` meanwhile; raises NotReady(late)."""
    try:
        async with asyncio.timeout(limit_s):
            while child.code is None and not any(path.exists() for path in paths):
                look()
                await asyncio.sleep(LOOK_S)
            look()
    except TimeoutError:
        raise NotReady(late) from None


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
