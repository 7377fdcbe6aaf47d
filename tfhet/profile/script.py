"""Runs a training script in its own process up to its call of `tfhet.distribute`, where its data are profiled."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from tfhet.cluster import environment
from tfhet.errors import DataError, NotReady, UsageError
from tfhet.events import Event, Observer, ignore
from tfhet.planes import with_malloc_tunables
from tfhet.planes.ray import alone_variables, end_marked
from tfhet.process import Child, describe_exit
from tfhet.profile import handed_over
from tfhet.profile.handed_over import FAILURE, REACHED, RECORD
from tfhet.profile.result import Profile
from tfhet.profile.rounds import Effort
from tfhet.profile.target import makes_ray
from tfhet.record import Record, RunFolder

RAY = "ray"
"""Name of the folder of a Ray node."""
GRACE_S = 10.0
"""Seconds that the script may take to end after the measurement."""
LOOK_S = 0.1
BUDGETS = 20.0
"""Maximum duration of measuring as a multiple of the budget's CPU seconds, after the script's deadline."""


async def measure_script(
    script: Path, arguments: Sequence[str], effort: Effort, deadline_s: float, observer: Observer = ignore
) -> Profile:
    """Returns the profile of a script's training data, or of a Ray data set FILE.py:NAME. Its output goes to stderr.
    deadline_s: seconds in which the script must call `tfhet.distribute`. Raises UsageError if the file does not exist,
    or ends before the call, NotReady if the script is late, and DataError if the data cannot be profiled."""
    if not script.is_file() and not makes_ray(str(script)):
        raise UsageError(f"--script {script}: no such file")
    with tempfile.TemporaryDirectory(prefix="tfhet-profile-") as name:
        folder = Path(name)

        def look() -> None:
            for event in RunFolder(folder).events()[-1:]:
                observer(Event(event["event"], event["time_s"], event))

        words = [name, str(effort.budget_s), str(effort.repeats), str(script), *arguments]
        command = [sys.executable, "-m", handed_over.__name__, *words]
        env = alone_variables(with_malloc_tunables(environment()), folder / RAY) | {"PYTHONUNBUFFERED": "1"}
        child = await Child.start(script.name, command, env=env, on_line=_say)
        try:
            late = f"{script} has not called tfhet.distribute within {deadline_s:g} s (--deadline_s)"
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
            when = "before it handed data for training to tfhet.distribute, which is what would be profiled"
            when = "while its data were measured" if (folder / REACHED).exists() else when
            last = next((f": {line.strip()}" for line in reversed(child.tail) if line.strip()), "") if code else ""
            raise UsageError(f"{script} ended with {describe_exit(code, child.tail)} {when}{last}")
        return Profile.of(Record.read(folder / RECORD))


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
