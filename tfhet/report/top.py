"""`tfhet top`: a run as it goes on, redrawn on a terminal, as plain lines elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import IO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from tfhet import clock as clocks
from tfhet.errors import UsageError
from tfhet.record import MetricLine, RunFolder
from tfhet.report import numbers
from tfhet.report.live import Picture, Watcher, told
from tfhet.report.tables import show, table

STALE_S = 60.0
"""After so long without a change the view says so."""
GIVE_UP_S = 1800.0
"""After so long it ends: who wrote the folder is gone."""
_BARS = "▁▂▃▄▅▆▇█"
_STEPS_DRAWN = 40
_INCIDENTS_SHOWN = 5


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
        for part in parts(picture, folder, stale_s):
            _write(part, out)
        return 0
    view = _Redrawn(out, folder, stale_s) if out.isatty() else _Lines(out, stale_s)
    began = clock.monotonic()
    try:
        with view:
            while True:
                view.show(picture)
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


def parts(picture: Picture, folder: RunFolder, stale_s: float = STALE_S) -> list[RenderableType]:
    """The picture as tables and lines."""
    now = picture.steps[-1] if picture.steps else None
    rows: list[tuple[str, object]] = [
        ("run", str(folder.path)),
        ("state", picture.state),
        ("for", numbers.duration(picture.elapsed_s)),
        ("step", f"{now.step}, epoch {now.epoch}" if now else None),
        ("step time", f"{numbers.number(now.step_ms)} ms  {_drawn(picture.steps)}" if now else None),
        ("waiting for data", numbers.percent(now.wait_pct) if now else None),
        ("examples/s", now.examples_per_s if now else None),
        ("loss", f"{now.loss:.4f}" if now and now.loss is not None else None),
        ("data workers", picture.workers),
        ("restarts", picture.restarts),
    ]
    made: list[RenderableType] = [table(rows, columns=("what", "value"), header=False)]
    if picture.hosts:
        made.append(table(list(picture.hosts.items()), columns=("host or member", "does")))
    last = picture.incidents[-_INCIDENTS_SHOWN:]
    if last:
        title = f"faults, the last {len(last)} of {len(picture.incidents)}"
        made.append(table([[told(event)] for event in last], columns=(title,)))
    if warning := stale(picture, stale_s):
        made.append(Text(warning, style="bold"))
    return made


def stale(picture: Picture, stale_s: float) -> str:
    """That nothing has changed for long; "" while that is not so."""
    if picture.is_over or picture.quiet_s is None or picture.quiet_s <= stale_s:
        return ""
    return f"nothing has changed in this folder for {numbers.duration(picture.quiet_s)}: does the run still go on?"


def line(step: MetricLine) -> str:
    """The numbers of a step as a plain line."""
    loss = "" if step.loss is None else f" loss={step.loss:.4f}"
    return (
        f"step={step.step} epoch={step.epoch} step_ms={step.step_ms:g} wait_pct={step.wait_pct:g} "
        f"examples_per_s={step.examples_per_s:g}{loss}"
    )


def _drawn(steps: Sequence[MetricLine]) -> str:
    """The last step times as little bars, from 0 up."""
    times = [step.step_ms for step in steps[-_STEPS_DRAWN:]]
    most = max(times, default=0.0)
    return "".join(_BARS[round(time / most * (len(_BARS) - 1))] for time in times) if most > 0 else ""


def _write(part: RenderableType, out: IO[str]) -> None:
    if isinstance(part, Text):
        out.write(f"{part.plain}\n")
    else:
        show(part, out)  # type: ignore[arg-type]


class _Redrawn:
    """A picture that is drawn over the last one."""

    def __init__(self, out: IO[str], folder: RunFolder, stale_s: float):
        self._live = Live(console=Console(file=out), auto_refresh=False, transient=False)
        self._folder, self._stale_s = folder, stale_s

    def __enter__(self) -> _Redrawn:
        self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._live.stop()

    def show(self, picture: Picture) -> None:
        self._live.update(Group(*parts(picture, self._folder, self._stale_s)), refresh=True)


class _Lines:
    """A line for everything that is new."""

    def __init__(self, out: IO[str], stale_s: float):
        self._out, self._stale_s = out, stale_s
        self._state = ""
        self._step = -1
        self._incidents = 0
        self._is_stale = False

    def __enter__(self) -> _Lines:
        return self

    def __exit__(self, *error: object) -> None:
        self._out.flush()

    def show(self, picture: Picture) -> None:
        new = [step for step in picture.steps if step.step > self._step]
        lines = [line(step) for step in new]
        lines += [told(event) for event in picture.incidents[self._incidents :]]
        if picture.state != self._state:
            lines.append(picture.state)
        warning = stale(picture, self._stale_s)
        if warning and not self._is_stale:
            lines.append(warning)
        self._state, self._is_stale, self._incidents = picture.state, bool(warning), len(picture.incidents)
        self._step = new[-1].step if new else self._step
        for text in lines:
            self._out.write(f"[top] {text}\n")
        self._out.flush()
