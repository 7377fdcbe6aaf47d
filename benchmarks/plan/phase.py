"""The phases of one run of `benchmarks.plan`: when each begins, when its steps count, and what a step took in it.

Batches that are ready hide what a resource does, so each phase begins with an accelerator that takes no time, until a
step has had to wait: all phases begin with empty buffers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.plan.case import PlanCase
from tfhet.plan.ceiling import Resource

SKIPPED = 4
"""Steps behind the emptying of the buffers that do not count: they are heard of when the next one runs already."""
LEAST_STEPS, MOST_STEPS = 16, 60
WAITS = 0.4
"""Part of what the input was predicted to take: a step that waited so long found nothing ready."""
MOST_EMPTYING = 4
"""Steps for each worker, and as many more, after which the buffers count as empty."""


@dataclass(frozen=True)
class Phase:
    """The job with some limits."""

    name: str
    case: PlanCase
    """With these limits."""
    steps: int
    """Number of steps that count."""
    waits_ms: float
    """A step that waited so long for data found nothing ready."""

    @property
    def most_emptying(self) -> int:
        return MOST_EMPTYING * (self.case.workers * self.case.data_hosts + 2)

    @property
    def most_steps(self) -> int:
        """In all."""
        return self.most_emptying + SKIPPED + self.steps + 2


DRAWN, AGAIN = "drawn", "again"


def phases_of(
    case: PlanCase, resources: Sequence[Resource], ceilings_s: Mapping[Resource, float], seconds: float
) -> list[Phase]:
    """As drawn, with more of each of the resources, in this order, and as drawn again. ceilings_s: as predicted."""
    step_s = max(ceilings_s.values())
    input_s = max(value for resource, value in ceilings_s.items() if resource is not Resource.ACCELERATOR)
    steps = min(MOST_STEPS, max(LEAST_STEPS, round(seconds / step_s)))

    def phase(name: str, changed: PlanCase, part: float = 1.0) -> Phase:
        return Phase(name, changed, max(LEAST_STEPS, round(part * steps)), 1e3 * WAITS * input_s)

    return [
        phase(DRAWN, case, 0.75),
        *(phase(resource.value, case.relaxed(resource)) for resource in resources),
        phase(AGAIN, case, 0.75),
    ]


@dataclass
class Course:
    """Where a run stands. `change` is told each phase's case and the step of its accelerator, in milliseconds."""

    phases: Sequence[Phase]
    change: Callable[[PlanCase | None, float], None]
    """None: as much as there is."""
    spans: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By phase: the last step before those that count, and the last that does."""
    _index: int = -1
    _began: int = 0
    _emptied: int | None = None

    @property
    def is_over(self) -> bool:
        return self._index >= len(self.phases)

    def heard(self, step: int, wait_ms: float) -> None:
        """Takes note of a step that was taken."""
        if self._index < 0:
            self._next(step)
            return
        if self.is_over:
            return
        phase = self.phases[self._index]
        if self._emptied is None:
            if step > self._began + 1 and wait_ms >= phase.waits_ms or step >= self._began + phase.most_emptying:
                self._emptied = step
                self.change(phase.case, phase.case.accelerator_ms)
        elif step >= self._emptied + SKIPPED + phase.steps:
            self.spans[phase.name] = (self._emptied + SKIPPED, step)
            self._next(step)

    def _next(self, step: int) -> None:
        self._index, self._began, self._emptied = self._index + 1, step, None
        self.change(None if self.is_over else self.phases[self._index].case, 0.0)
