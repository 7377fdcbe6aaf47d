"""The channels of a simulated job: directories on this machine, and the demonstration data, written on first use."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from tfhet.cluster import cache_dir
from tfhet.errors import JobFailed, UsageError
from tfhet.process import Child, describe_exit
from tfhet.simulate.drive import drive

DIGITS = "digits"
"""A channel's directory that begins so is a part of the demonstration data: `digits/train`."""

OnLine = Callable[[str], None]


def found(channels: Mapping[str, str], env: Mapping[str, str], on_line: OnLine) -> dict[str, Path]:
    """Directories of the channels that exist, by name; one that does not is the job's own error to find.

    Raises UsageError when the demonstration data cannot be written, JobFailed when told to stop meanwhile.
    """
    there = {}
    for name, text in channels.items():
        parts = Path(text).parts
        if parts[:1] == (DIGITS,):
            there[name] = _digits(env, on_line).joinpath(*parts[1:])
        elif Path(text).is_dir():
            there[name] = Path(text)
        else:
            on_line(f"[simulate] channel {name}: {text} is no directory; the job will not see it")
    return there


def _digits(env: Mapping[str, str], on_line: OnLine) -> Path:
    directory = cache_dir(env) / DIGITS / "16-shards"
    if not directory.is_dir():
        on_line(f"[simulate] writing the demonstration data to {directory}")
        drive(lambda stop: _write_digits(directory, env, on_line, stop))
    return directory


async def _write_digits(directory: Path, env: Mapping[str, str], on_line: OnLine, stop: asyncio.Event) -> None:
    # A process of its own: the simulator itself does not load TensorFlow.
    child = await Child.start(
        "digits", [sys.executable, "-m", "tfhet.source.digits", str(directory)], env=env, on_line=on_line
    )
    ended, stopped = asyncio.create_task(child.wait()), asyncio.create_task(stop.wait())
    await asyncio.wait({ended, stopped}, return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    code = await child.stop()
    await ended
    if stop.is_set():
        raise JobFailed("told to stop while the demonstration data was written")
    if code:
        raise UsageError(
            f"the demonstration data could not be written to {directory} ({describe_exit(code)}): "
            + "\n".join(child.tail)
        )
