"""`tfhet try`: compares loaders in the running script, and writes the fastest one as a patch."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfhet.errors import TfhetError, UsageError
from tfhet.process import describe_exit
from tfhet.report import number, table, text
from tfhet.watching.command import environment_of, run_in_foreground
from tfhet.watching.inside.trial.controller import LEAST_STEPS, NO_LOADER, RESULT, VARIABLE
from tfhet.watching.patch import Patch

AS_FAST = 1.03
"""Ratio of steps below which the smaller change is preferred."""


@dataclass(frozen=True)
class Measured:
    """The steps of one loader."""

    name: str
    workers: int
    changes: Mapping[str, Any]
    why_not: str
    """Why it was not measured."""
    rounds: tuple[float, ...]
    """Mean milliseconds of a step in each round."""
    steps: int
    wait_pct: float
    """Share of the steps in which the script waited for a batch, 0 to 100."""
    examples_per_s: float

    @classmethod
    def of(cls, variant: Mapping[str, Any], slices: Sequence[Mapping[str, Any]]) -> Measured:
        kept = [each for each in slices if each["steps"] >= LEAST_STEPS]
        total_s = sum(each["total_s"] for each in kept)
        few = f"fewer than {LEAST_STEPS} steps were measured in a round; raise --seconds"
        few = few if slices and len(kept) < len(slices) else ""
        return cls(
            variant["name"],
            variant["workers"],
            variant["changes"],
            variant["why_not"] or few,
            tuple(1e3 * each["total_s"] / each["steps"] for each in kept),
            sum(each["steps"] for each in kept),
            100.0 * sum(each["wait_s"] for each in kept) / total_s if total_s else 0.0,
            sum(each["examples"] for each in kept) / total_s if total_s else 0.0,
        )

    @property
    def step_ms(self) -> float:
        return sum(self.rounds) / len(self.rounds)


@dataclass(frozen=True)
class TrialResult:
    """What a trial found."""

    loaders: tuple[Measured, ...]
    """The script's own first."""
    facts: Mapping[str, Any]
    remarks: tuple[str, ...]
    comparison: Mapping[str, Any]
    """Of the transform with its translation."""
    error: str = ""
    """Why the comparison is incomplete."""

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> TrialResult:
        variants, slices = content["variants"], content["slices"]
        loaders = [Measured.of(each, [it for it in slices if it["variant"] == at]) for at, each in enumerate(variants)]
        return cls(tuple(loaders), content["facts"], tuple(content["remarks"]), content["comparison"], content["error"])

    @property
    def keeps_up(self) -> bool:
        """Whether the script hardly waits for its data, so that no other loader was measured."""
        own, *others = self.loaders
        return bool(own.rounds) and not self.error and not any(each.rounds or each.why_not for each in others)

    @property
    def best(self) -> Measured | None:
        """The loader to change to: the smallest change among those that are as fast as the fastest one; None if none
        is faster than the script's own in every round."""
        own, *others = self.loaders
        if not own.rounds:
            return None
        faster = [each for each in others if each.rounds and not each.why_not and max(each.rounds) < min(own.rounds)]
        least = min((each.step_ms for each in faster), default=0.0)
        return next((each for each in faster if each.step_ms <= AS_FAST * least), None)


def run_trial(command: Sequence[str], env: Mapping[str, str], seconds: float) -> TrialResult:
    """Runs a training script until its loaders are compared.

    Args:
        command: Program and arguments.
        env: Environment of the command, which is extended.
        seconds: Time of all measurements.

    Raises:
        UsageError: The command cannot be executed, or has nothing to compare.
        TfhetError: The command failed.
    """
    with tempfile.TemporaryDirectory(prefix="tfhet-try-") as name:
        notes = Path(name)
        code = run_in_foreground(command, {**environment_of(env, notes), VARIABLE: str(seconds)})
        errors = notes / "errors.log"
        log = f"\n{errors.read_text(encoding='utf-8').rstrip()}" if errors.is_file() else ""
        if code:
            raise TfhetError(f"the command ended with {describe_exit(code)}, and nothing was compared{log}")
        try:
            content = json.loads((notes / RESULT).read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise UsageError(f"{NO_LOADER}{log}") from None
    if "variants" not in content:
        raise UsageError(f"{content['error']}{log}")
    return TrialResult.of(content)


def lines(result: TrialResult) -> list[str]:
    """Returns the loaders, the comparison of the transform, and what was not tried."""
    own, rows = result.loaders[0], []
    for each in result.loaders:
        row: dict[str, object] = {"loader": each.name}
        if each.rounds:
            row |= {"step ms": each.step_ms, "rounds": " ".join(map(number, each.rounds)), "steps": each.steps}
            row |= {"waiting %": round(each.wait_pct, 1), "examples/s": each.examples_per_s}
            row |= {"times faster": own.step_ms / each.step_ms if own.rounds else None}
        rows.append(row)
    found = [text(table(rows))]
    if result.keeps_up:
        found.append(
            f"The script waits for its data in {own.wait_pct:.1f} % of its steps: another loader cannot make it faster."
        )
    found += [f"not measured: {each.name}: {each.why_not}" for each in result.loaders if each.why_not]
    found += [f"not tried: {each}" for each in result.remarks]
    return found + _comparison(result.comparison)


def _comparison(found: Mapping[str, Any]) -> list[str]:
    """Returns the transform and its translation in words."""
    if not found:
        return []
    said = [f"translated transform: {found['stages']}"]
    if "images" in found:
        said.append(
            f"an example costs {found['old_ms']:.2f} ms of CPU time, with the translated transform"
            f" {found['new_ms']:.2f} ms ({found['images']} images of the dataset)"
        )
        if found["difference"]:
            mean, most = found["difference"]
            said.append(f"values of the same images differ by {mean:.3g} in the mean and by at most {most:.3g}")
        else:
            (mean, other_mean), (std, other_std) = found["mean"], found["std"]
            said.append(
                f"values of the same images, with random numbers of their own: mean {mean:.3g} and {other_mean:.3g},"
                f" standard deviation {std:.3g} and {other_std:.3g}"
            )
    return said + [f"differs: {note}" for note in found["notes"]]


def patch_of(result: TrialResult) -> Patch | None:
    """Returns the patch for the best loader; None if no loader is faster than the script's own."""
    best = result.best
    return Patch.of(best.changes, result.facts["places"]) if best else None
