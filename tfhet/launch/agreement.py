"""The check that the weights of all ranks agree: ranks whose gradients are not reduced train a model each.

Each rank sends samples of its weights after the same steps (`steps.weights`). No rank waits for the comparison, and a
step that not every rank reports, for example because one ended early, is not compared.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np

from tfhet.messages import rank, sample as sample_text
from tfhet.schema import MessageError

TOLERANCE = 1e-4
"""Difference of elements that agree, relative to the root mean square of their tensor's sample."""
_MOST_AGREEING = 1 / 8
"""Share of the tensors that may agree between two ranks although nothing is reduced: frozen or unused ones."""
_MOST_MODELS, _MOST_PENDING = 32, 40
"""Limits of the samples that are stored: models, and steps of each that not every rank has reported. Ranks that reduce
nothing may be far apart, because they do not wait for each other."""
Step = tuple[int, int]
"""Pass over the data, and number of steps completed in it."""
FIRST = (0, 0)


@dataclass
class _Model:
    pending: dict[Step, dict[int, np.ndarray]] = field(default_factory=dict)
    were_equal: bool = False
    """Whether all ranks had the same weights once."""
    differed: Step | None = None
    """The last step that was compared, if the weights differed then."""


class Agreement:
    """Compares the weights of `size` ranks, in the leader."""

    def __init__(self, size: int):
        self._size = size
        self._models: defaultdict[str, _Model] = defaultdict(_Model)

    def add(self, number: int, sample: rank.Weights) -> str | None:
        """Takes the sample of a rank. Returns why the job fails if the weights differ in two comparisons in a row.
        Raises MessageError for a sample that is wrong."""
        step, values = (sample.epoch, sample.step), sample_text.unpacked(sample.values)
        if len(self._models) >= _MOST_MODELS and sample.model not in self._models:
            return None
        model = self._models[sample.model]
        for missed in [each for each, found in model.pending.items() if each < step and number not in found]:
            del model.pending[missed]  # this rank will not report it
        if len(model.pending) >= _MOST_PENDING and step not in model.pending:
            return None
        of_step = model.pending.setdefault(step, {})
        of_step[number] = values
        if len({each.shape for each in of_step.values()}) > 1:
            raise MessageError(f"weights: ranks sent samples of different shapes of {sample.model}")
        if len(of_step) < self._size:
            return None
        del model.pending[step]
        differing, are_equal = _compared(np.stack([of_step[each] for each in range(self._size)]))
        model.were_equal |= are_equal
        has_drifted = differing >= (1 - _MOST_AGREEING) * len(values) and (model.were_equal or not sample.is_maybe_part)
        if step == FIRST or not has_drifted:  # scripts may broadcast the weights after the first step
            model.differed = None
            return None
        before, model.differed = model.differed, step
        return None if before is None else _cause(self._size, differing, len(values), before, step, sample)


def _cause(size: int, differing: int, count: int, first: Step, second: Step, sample: rank.Weights) -> str:
    whose = f"all {size} ranks" if size > 2 else "both ranks"
    return (
        f"the weights of {whose} have drifted apart: {differing} of {count} sampled tensors differ between all ranks "
        f"after {_words(first)} and after {_words(second)}, so each rank trains a model of its own and gradients are "
        f"not reduced; {sample.remedy} (--check_weights off: for ranks that train different models)"
    )


def _words(step: Step) -> str:
    return f"step {step[1]} of pass {step[0] + 1}"


def _compared(samples: np.ndarray) -> tuple[int, bool]:
    """Compares float32 [ranks, tensors, elements]. Returns the number of tensors in which no two ranks agree, and
    whether all ranks agree in all tensors."""
    differing, are_equal = 0, True
    with np.errstate(all="ignore"):  # weights may be NaN and infinite
        for values in np.swapaxes(samples.astype(np.float64), 0, 1):
            values = values[np.lexsort(values.T)]  # ranks that agree become neighbours
            room = TOLERANCE * np.sqrt(np.mean(np.square(values)))
            same = (np.abs(np.diff(values, axis=0)) <= room) | (values[1:] == values[:-1])
            agrees = (same | (np.isnan(values[1:]) & np.isnan(values[:-1]))).all(axis=1)
            differing += not agrees.any()
            are_equal &= bool(agrees.all())
    return differing, are_equal
