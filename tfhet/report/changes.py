"""Two runs: what changed in step, waiting, cost and settings, as far as the spread of their steps tells it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tfhet.advice import InputState, of_run, peaks
from tfhet.record import Figure, Interval, RunSummary, StepTime, median, percentile, wait_pct
from tfhet.report import numbers
from tfhet.report.cost import CostRow
from tfhet.report.run_view import RunView

UNKNOWN = "not known"
BLOCKS, LEAST_BLOCKS, LEAST_BLOCK = 10, 6, 8
"""Largest and least number of blocks into which the steps of a run are divided, and least number of steps in each."""
LEAST_STEPS = 10
"""Number of measured steps below which percentiles tell no two runs apart."""
LEAST_CHANGE, LEAST_POINTS = 1.05, 2.0
"""Ratio of times, and difference of shares in percentage points, up to which two runs count as alike: one run of each
does not show how much runs of the same script differ."""
COMMANDS = ("watch.started", "training.started")
"""Events with the command line of the script."""


def _blocks(view: RunView) -> list[Sequence[StepTime]]:
    """Returns the measured steps in consecutive blocks; [] if they are too few, or if their order is not known."""
    has_order = bool(view.timeline.steps) or not view.run.slow_steps
    steps = [step for step in view.waits.entries if 0 < step.dur_s < 1e12] if has_order else []
    count = min(BLOCKS, len(steps) // LEAST_BLOCK)
    if count < LEAST_BLOCKS:
        return []
    return [steps[at * len(steps) // count : (at + 1) * len(steps) // count] for at in range(count)]


def _mean_ms(steps: Sequence[StepTime]) -> float:
    return 1e3 * sum(step.times * step.dur_s for step in steps) / sum(step.times for step in steps)


def _percentiles(view: RunView) -> tuple[Figure | None, Figure | None]:
    """Returns step time in ms and share of waiting in percent, each with p10 and p90 as its interval."""
    step, entries = view.run.step_ms, view.waits.entries
    taken = (
        len(step.samples) if step and step.samples else view.run.steps or (step and step.p10 < step.p90 and LEAST_STEPS)
    )
    if step is None or not step.median > 0 or not taken or taken < LEAST_STEPS:
        return None, None
    time = Figure(step.median, step.p10, step.p90, "ms", taken)
    shares = [100.0 * min(1.0, max(0.0, each.wait_s / each.dur_s)) for each in entries if each.dur_s > 0]
    steady = view.waits.steady_pct
    if steady is None or len(shares) < LEAST_STEPS:
        return time, None
    return time, Figure(steady, percentile(shares, 10), percentile(shares, 90), "%", len(shares))


def _measured(views: Sequence[RunView]) -> tuple[list[tuple[Figure | None, Figure | None]], str]:
    """Returns step time and waiting of each run with intervals, and the kind of the intervals."""
    blocks = [_blocks(view) for view in views]
    if not all(blocks):
        return [_percentiles(view) for view in views], "p10 to p90 of the steps"
    found: list[tuple[Figure | None, Figure | None]] = [
        (_range([_mean_ms(block) for block in own], "ms"), _range([wait_pct(block) or 0.0 for block in own], "%"))
        for own in blocks
    ]
    return found, "range of means of consecutive steps"


def _range(means: Sequence[float], unit: str) -> Figure:
    """The median of means of blocks, and their range: blocks of one run are more alike than two runs."""
    return Figure(median(means), min(means), max(means), unit, len(means))


def is_apart(first: Figure | None, other: Figure | None) -> bool | None:
    """Returns whether the intervals of two shares are further apart than LEAST_POINTS; None if one is not known."""
    if first is None or other is None:
        return None
    return first.high + LEAST_POINTS < other.low or other.high + LEAST_POINTS < first.low


def _differs(ratio: Interval) -> bool:
    return ratio.low > LEAST_CHANGE or ratio.high < 1 / LEAST_CHANGE


def examples_per_step(run: RunSummary) -> int | None:
    """Returns the number of examples of a step, of all ranks together; None if it is not known."""
    return run.batch_size * (run.ranks or 1) if run.batch_size and run.batch_size > 0 else None


def command_of(view: RunView) -> str | None:
    """Returns the command line of a run; None if its folder does not name it."""
    found = view.folder.events() if view.folder else []
    commands = (event.get("command") for event in found if event.get("event") in COMMANDS)
    words = next(commands, None)
    return " ".join(map(str, words)) if isinstance(words, list) else None


def settings_of(view: RunView) -> dict[str, Any]:
    """Returns what a user sets: of the loader, the ranks and the batch."""
    run = view.run
    loader = {"reader": run.watched.get("reader"), **(run.watched.get("settings") or {})}
    return {**loader, "batch size per rank": run.batch_size, "ranks": run.ranks, "mode": run.mode}


def differing(runs: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Returns the values of each name by run, of the names whose values differ; None for a value that is not known."""
    names = dict.fromkeys(name for run in runs for name in run)
    values = {name: [run.get(name) for run in runs] for name in names}
    return {name: each for name, each in values.items() if any(value != each[0] for value in each)}


@dataclass(frozen=True)
class Change:
    """A run compared with the first one."""

    first: RunView
    other: RunView
    per: str
    """`step` or `example`; "" if neither can be compared."""
    steps: tuple[Figure | None, Figure | None]
    """Milliseconds per step."""
    waits: tuple[Figure | None, Figure | None]
    """Share of the steps' time that waits for data."""
    basis: str
    """Kind of their intervals."""
    faster: Interval | None
    """Time of the first run divided by the time of the other, per step or per example."""
    costs: Interval | None
    """Cost of the other divided by the cost of the first, likewise."""
    settings: Mapping[str, Sequence[Any]]
    """Values of both runs, of the settings that differ."""

    @classmethod
    def between(cls, first: RunView, other: RunView, bills: Sequence[CostRow]) -> Change:
        """Compares two runs. bills: of both (`cost_rows`)."""
        counts = [examples_per_step(view.run) for view in (first, other)]
        is_alike = counts[0] == counts[1] and (counts[0] is not None or first.run.ranks == other.run.ranks)
        per = "step" if is_alike else "example" if None not in counts else ""
        ((step, wait), (other_step, other_wait)), basis = _measured([first, other])
        faster = costs = None
        if per and step and other_step and min(step.low, other_step.low) > 0:
            more = 1.0 if per == "step" else (counts[1] or 1) / (counts[0] or 1)
            ends = (step.value / other_step.value, step.low / other_step.high, step.high / other_step.low)
            faster = Interval(*ends).times(more)
            rates = [row.bill.usd_per_hour for row in bills]
            costs = faster.inverse().times(rates[1] / rates[0]) if rates[0] and rates[1] else None
        settings = differing([settings_of(first), settings_of(other)])
        pair = (step, other_step), (wait, other_wait)
        return cls(first, other, per, *pair, basis, faster, costs, settings)

    @property
    def words(self) -> list[str]:
        """The change in sentences, the speed first."""
        names = [self.first.name, self.other.name]
        changed = [f"{name} {_shown(a)} -> {_shown(b)}" for name, (a, b) in self.settings.items()]
        found = [f"{self._speed(*names)}: {'; '.join([self._wait(*names), *changed])}."]
        if self.per == "example":
            counts = " and ".join(str(examples_per_step(view.run)) for view in (self.first, self.other))
            found.append(f"A step has {counts} examples, all ranks together, so the runs are compared per example.")
        views = {view.name: view.waits for view in (self.first, self.other)}
        for part in dict.fromkeys(name for waits in views.values() for name in peaks(waits)):
            before, after = (_part(waits, part) for waits in views.values())
            found.append(f"Share of the time that {part} cost: {before} in {names[0]}, {after} in {names[1]}.")
        verdicts = f"{self._verdict(self.first)}, and {self._verdict(self.other)}."
        found.append(verdicts.replace("whether", "Whether", 1) if verdicts.startswith("whether") else verdicts)
        if self.costs and _differs(self.costs):
            more = 100.0 * (self.costs.value - 1)
            found.append(f"Each {self.per} costs {abs(more):.0f} % {'more' if more > 0 else 'less'} in {names[1]}.")
        elif self.costs:
            found.append(f"The spread of the steps does not tell the costs per {self.per} apart.")
        return found

    def _speed(self, first: str, other: str) -> str:
        if self.faster is None:
            unmeasured = [name for name, step in zip((first, other), self.steps, strict=True) if step is None]
            reason = f"too few steps of {' and '.join(unmeasured)} were measured"
            reason = reason if unmeasured else "the number of examples of a step is not known"
            return f"Whether {other} is faster than {first} is not known ({reason})"
        ratio = self.faster
        if not _differs(ratio):
            counts = [examples_per_step(view.run) if self.per == "example" else 1 for view in (self.first, self.other)]
            pairs = [(step.value, count) for step, count in zip(self.steps, counts, strict=True) if step and count]
            before, after = (numbers.number(step_ms / count, unit="ms") for step_ms, count in pairs)
            times = f"by the spread of their steps ({after}, {before})"
            return f"{other} and {first} are not told apart per {self.per} {times}"
        word, shown = ("faster", ratio) if ratio.value > 1 else ("slower", ratio.inverse())
        ends = f"{numbers.number(shown.low)} to {numbers.number(shown.high)}"
        return f"{other} is {numbers.number(shown.value)} times {word} per {self.per} than {first} ({ends})"

    def _wait(self, first: str, other: str) -> str:
        before, after = (view.waits.steady_pct for view in (self.first, self.other))
        unknown = [name for name, pct in ((first, before), (other, after)) if pct is None]
        if unknown:
            return f"how long {' and '.join(unknown)} waits is {UNKNOWN}"
        where = " in the steady state" if peaks(self.first.waits) or peaks(self.other.waits) else ""
        if is_apart(*self.waits):
            who = "it" if self.faster and _differs(self.faster) else other
            return f"{who} waits {numbers.percent(after)} of the step{where} instead of {numbers.percent(before)}"
        told = "not told apart" if self.waits[0] and self.waits[1] else f"their spread is {UNKNOWN}"
        return f"{other} waits {numbers.percent(after)} of the step{where}, {first} {numbers.percent(before)} ({told})"

    @staticmethod
    def _verdict(view: RunView) -> str:
        state = of_run(view.run, waits=view.waits).state
        if state is InputState.UNKNOWN:
            return f"whether {view.name} is input-bound is {UNKNOWN}"
        return f"{view.name} is {state.value}"

    def to_json(self) -> dict[str, Any]:
        """Returns the change as JSON values; null for what is not known."""
        names = ("per", "steps", "waits", "basis", "faster", "costs", "settings", "words")
        content = {name: getattr(self, name) for name in names}
        return {"run": self.other.name, "against": self.first.name, **content, "per": self.per or None}


def _part(waits: Any, part: str) -> str:
    """Share of epoch starts or stalls."""
    found = waits.epoch_starts if part == "epoch starts" else waits.stalls
    return numbers.percent(found.share_pct) if waits.is_divided else UNKNOWN


def _shown(value: Any) -> str:
    return UNKNOWN if value is None else numbers.value(value)
