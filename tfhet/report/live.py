"""A running job on the screen, for `top` and `follow`: redrawn on a terminal, plain lines elsewhere."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import IO

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from tfhet import clock as clocks
from tfhet.errors import UsageError
from tfhet.messages import MetricLine
from tfhet.record import RunFolder
from tfhet.report import numbers
from tfhet.report.log_lines import harmless, hue, is_error, printable
from tfhet.report.picture import Picture, Watcher, event_line
from tfhet.report.tables import FittedTable, show, table

GIVE_UP_S = 1800.0
"""Seconds without a change of the folder after which `top` ends."""
COST_EVERY_S = 60.0
"""Minimum seconds between two plain lines with the cost."""
INCIDENTS_SHOWN = 5


class Plain:
    """A screen that writes a line for each change."""

    def __init__(self, out: IO[str], command: str, *, has_log: bool = False):
        """command: first word of its own lines. has_log: whether `log` already gets the metric lines."""
        self._out, self._command, self._has_log = out, command, has_log
        self._state = ""
        self._incidents = 0
        self._shown_step = -1
        self._cost_at_s, self._cost_steps = -math.inf, 0
        """Time and number of metric lines at the last line with the cost."""

    def log(self, who: str, text: str, *, is_metric: bool) -> None:
        """Shows a line of the log. who: its host and group. is_metric: whether `show` gets its numbers too."""
        shown = printable(text)
        self._write(f"{who} | {'! ' if is_error(shown) else ''}{shown}")

    def say(self, text: str) -> None:
        self._write(f"[{self._command}] {text}")

    def show(self, picture: Picture, now_s: float) -> None:
        """Shows the state of the run. now_s: monotonic time."""
        new = [] if self._has_log else [step for step in picture.steps if step.step > self._shown_step]
        lines = [*map(step_line, new), *map(event_line, picture.incidents[self._incidents :])]
        has_news = bool(picture.cost) and len(picture.steps) > self._cost_steps
        if picture.state != self._state or (has_news and now_s - self._cost_at_s >= COST_EVERY_S):
            cost = f"; {picture.cost}" if picture.cost else ""
            lines.append(f"{picture.name}: {picture.state}{cost}" if self._has_log else picture.state)
            self._cost_at_s, self._cost_steps = now_s, len(picture.steps)
        self._state, self._incidents = picture.state, len(picture.incidents)
        self._shown_step = new[-1].step if new else self._shown_step
        for text in lines:
            self.say(text)
        self._out.flush()

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Leaves the screen to a question."""
        yield

    def _write(self, text: str) -> None:
        encoding = getattr(self._out, "encoding", None) or "utf-8"
        self._out.write(harmless(text).encode(encoding, "replace").decode(encoding) + "\n")


class Redrawn:
    """A screen that redraws the state below the log, which scrolls."""

    def __init__(self, out: IO[str]):
        self.live = Live(Text(""), console=Console(file=out), auto_refresh=False, transient=False)

    def log(self, who: str, text: str, *, is_metric: bool) -> None:
        if not is_metric:
            shown = printable(text)
            marked = (f"! {shown}", "red") if is_error(shown) else (shown, "")
            self._print(Text.assemble((who, hue(who.partition(" ")[0])), " | ", marked))

    def say(self, text: str) -> None:
        self._print(Text(harmless(text)))

    def _print(self, text: Text) -> None:
        self.live.console.print(text, highlight=False, soft_wrap=True)

    def show(self, picture: Picture, now_s: float) -> None:
        self.live.update(Group(*parts(picture)), refresh=True)

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        self.live.stop()
        try:
            yield
        finally:
            self.live.start()


Screen = Plain | Redrawn


@contextlib.contextmanager
def screen(out: IO[str], command: str, *, has_log: bool = False) -> Iterator[Screen]:
    """Yields the screen for `out`: redrawn on a terminal, else plain. Arguments as for `Plain`."""
    if out.isatty():
        redrawn = Redrawn(out)
        with redrawn.live:
            yield redrawn
        return
    yield Plain(out, command, has_log=has_log)
    out.flush()


def parts(picture: Picture) -> list[FittedTable]:
    now = picture.steps[-1] if picture.steps else None
    rows: list[tuple[str, object]] = [
        ("run", picture.name),
        ("state", picture.state),
        ("for", numbers.duration(picture.elapsed_s)),
        *([] if picture.quiet_s is None else [("unchanged for", numbers.duration(picture.quiet_s))]),
        *([("cost", picture.cost)] if picture.cost else []),
        ("step", f"{now.step}, epoch {now.epoch}" if now else None),
        ("step time", numbers.number(now.step_ms, unit="ms") if now else None),
        ("waiting for data", numbers.percent(now.wait_pct) if now else None),
        ("examples/s", now.examples_per_s if now else None),
        ("loss", f"{now.loss:.4f}" if now and now.loss is not None else None),
        ("data workers", picture.workers),
        ("restarts", picture.restarts),
    ]
    made = [table(rows, columns=("what", "value"), header=False)]
    if picture.hosts:
        made.append(table(list(picture.hosts.items()), columns=("host or member", "does")))
    if last := picture.incidents[-INCIDENTS_SHOWN:]:
        title = f"faults, the last {len(last)} of {len(picture.incidents)}"
        made.append(table([[event_line(event)] for event in last], columns=(title,)))
    return made


def step_line(step: MetricLine) -> str:
    """Returns the numbers of a step as a plain line."""
    loss = "" if step.loss is None else f" loss={step.loss:.4f}"
    return (
        f"step={step.step} epoch={step.epoch} step_ms={step.step_ms:g} wait_pct={step.wait_pct:g} "
        f"examples_per_s={step.examples_per_s:g}{loss}"
    )


def top(
    folder: RunFolder, out: IO[str], *, once: bool = False, every_s: float = 1.0, clock: clocks.Clock = clocks.SYSTEM
) -> int:
    """Shows a run every `every_s` seconds until it ends, or once. Returns the exit code: 1 if the run failed, or did
    not change for GIVE_UP_S seconds. Raises UsageError without the folder, DataError for an unreadable summary."""
    if not folder.path.is_dir():
        raise UsageError(f"no run at {folder.path}: name the folder of a run (`tfhet runs` lists them)")
    watcher = Watcher(folder, clock)
    picture = watcher.look()
    if once:
        for part in parts(picture):
            show(part, out)
        return 0
    began = clock.monotonic()
    with screen(out, "top") as view:
        while True:
            view.show(picture, clock.monotonic())
            if picture.is_over:
                return 0 if picture.exit_code == 0 else 1
            silent_s = picture.quiet_s if picture.quiet_s is not None else clock.monotonic() - began
            if silent_s > GIVE_UP_S:
                break
            clock.sleep(every_s)
            picture = watcher.look()
    out.write(f"nothing has changed in {folder.path} for {numbers.duration(silent_s)}: given up\n")
    return 1
