"""`tfhet top`: the folder of a run, shown while the run goes on."""

from __future__ import annotations

from typing import IO

from tfhet import clock as clocks
from tfhet.errors import UsageError
from tfhet.record import RunFolder
from tfhet.report import numbers
from tfhet.report.picture import Watcher
from tfhet.report.screen import screen, write

STALE_S = 60.0
"""Seconds without a change after which the view says so."""
GIVE_UP_S = 1800.0
"""Seconds without a change after which the view ends: the writer of the folder is gone."""


def top(
    folder: RunFolder,
    out: IO[str],
    *,
    once: bool = False,
    every_s: float = 1.0,
    stale_s: float = STALE_S,
    give_up_s: float = GIVE_UP_S,
    clock: clocks.Clock = clocks.SYSTEM,
) -> int:
    """Shows the run in `folder` until it ends, or Ctrl-C. The exit code: 1 when the run failed or was given up on.

    once: one picture, and back with 0. Raises UsageError where there is no folder, DataError for a summary that cannot
    be read.
    """
    if not folder.path.is_dir():
        raise UsageError(
            f"no run at {folder.path}: name the folder of a run (`tfhet simulate` says it, --run-dir sets it)"
        )
    watcher = Watcher(folder, clock)
    picture = watcher.look()
    if once:
        write(picture, out, stale_s)
        return 0
    began = clock.monotonic()
    try:
        with screen(out, "top", stale_s=stale_s) as view:
            while True:
                view.show(picture, clock.monotonic())
                if picture.is_over:
                    return 0 if picture.exit_code == 0 else 1
                silent_s = picture.quiet_s if picture.quiet_s is not None else clock.monotonic() - began
                if silent_s > give_up_s:
                    break
                clock.sleep(every_s)
                picture = watcher.look()
    except KeyboardInterrupt:
        return 0
    out.write(f"nothing has changed in {folder.path} for {numbers.duration(silent_s)}: given up\n")
    return 1
