"""Samples of this rank's weights, after the same steps on all ranks: the leader compares them (`launch.agreement`).

Ranks count steps from the beginning of each pass over their training data, in which a rank may end earlier than others.
A sample is some elements of up to 16 trainable tensors, always the same ones. Not covered: scripts that read nothing by
tfhet, loops within a `tf.function` or without an optimizer of Keras or PyTorch, and compiled optimizers of PyTorch.
"""

from __future__ import annotations

import hashlib
import logging
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tfhet.messages import ProcessChannel, rank, sample as sample_text

MOST_TENSORS, ELEMENTS = 16, 32
"""Tensors in a sample, and elements of each of them."""
_STEPS, _EVERY_STEPS, _EVERY_PASSES = (20, 24, 120), 1200, 12
"""When samples are taken. A script that reduces only every N steps, N up to 6, 8, 10 or 12, has just done so after 20
or after 24 of them, and the job fails after two comparisons in a row."""
_MOST_MODELS = 8
"""Limit of models and optimizers that are sampled."""
_STRIDE = 2654435761
"""Odd, near 2**32 divided by the golden ratio: its multiples spread over a tensor of any size."""
REMEDIES = {
    "keras": "compile the model with hvd.DistributedOptimizer(optimizer) after `import tfhet.horovod as hvd`; under "
    "Keras 3 the optimizer of horovod.tensorflow.keras reduces nothing",
    "loop": "compute the gradients with hvd.DistributedGradientTape(tape) after `import tfhet.horovod as hvd`",
    "torch": "wrap the model in torch.nn.parallel.DistributedDataParallel, and call the wrapper, not its module",
}
"""How scripts reduce their gradients, by what trains: `fit` of Keras, a loop with its optimizer, or PyTorch's."""
log = logging.getLogger("tfhet")


@dataclass(frozen=True)
class Sample:
    shapes: Sequence[tuple[int, ...]]
    """Shapes of all trainable tensors."""
    values: np.ndarray
    """float32 [tensors, ELEMENTS]."""
    is_maybe_part: bool = False
    """See `rank.Weights`."""


@dataclass
class _Steps:
    """The steps of one model or optimizer."""

    ordinal: int
    begun: int
    """Number of passes over the data that had begun at its last step."""
    epoch: int = 0
    """Number of passes with steps of it before this one."""
    step: int = 0
    is_off: bool = False

    def follow(self, begun: int) -> None:
        if begun != self.begun and self.step:
            self.epoch, self.step = self.epoch + 1, 0
        self.begun = begun


class WeightChecks:
    """Sends the samples of the models and optimizers of this process."""

    def __init__(self, channel: ProcessChannel):
        self._channel = channel
        self._begun = 0
        self._steps: weakref.WeakKeyDictionary[object, _Steps] = weakref.WeakKeyDictionary()
        self._ordinal = 0

    def begin_pass(self) -> None:
        """Notes that the script begins a pass over training data."""
        self._begun += 1

    def count(self, owner: object) -> None:
        """Counts a step of a model or optimizer."""
        if (steps := self._of(owner)) is not None:
            steps.step += 1

    def look(self, owner: object, trained_by: str, take: Callable[[], Sample | None]) -> None:
        """Sends a sample if one is due after the steps that were counted. trained_by: a key of `REMEDIES`. take:
        returns the sample, or None for weights that cannot be compared."""
        steps = self._of(owner)
        if steps is None or steps.is_off or not is_due(steps.epoch, steps.step):
            return
        try:
            sample = take()
        except Exception as error:  # noqa: BLE001  the training must not suffer from the check
            log.warning("the weights of this rank are not compared: %s: %s", type(error).__name__, error)
            sample = None
        if sample is None or not len(sample.values):
            steps.is_off = True
            return
        digest = hashlib.sha256(repr([tuple(shape) for shape in sample.shapes]).encode()).hexdigest()[:12]
        name, values = f"{trained_by}-{steps.ordinal}-{digest}", sample_text.packed(sample.values)
        remedy = REMEDIES[trained_by]
        self._channel.send(
            rank.Weights(name, remedy, steps.epoch, steps.step, values, sample.is_maybe_part), limit_s=0.1
        )

    def _of(self, owner: object) -> _Steps | None:
        steps = self._steps.get(owner)
        if steps is None and self._ordinal < _MOST_MODELS:
            steps = self._steps[owner] = _Steps(self._ordinal, self._begun)
            self._ordinal += 1
        if steps is not None:
            steps.follow(self._begun)
        return steps


def is_due(epoch: int, step: int) -> bool:
    """Whether a sample is taken after `step` steps of the pass `epoch`."""
    if epoch > _EVERY_PASSES and epoch % _EVERY_PASSES:
        return False
    return step in _STEPS or (step == 1 and epoch > 0) or (step % _EVERY_STEPS == 0 and (step > 0 or epoch == 0))


def chosen(shapes: Sequence[tuple[int, ...]]) -> list[int]:
    """Returns the indices of the tensors in a sample, spread over all shapes: layers of which each rank holds a part
    have shapes of their own and must not crowd out layers that all ranks share."""
    by_shape: dict[tuple[int, ...], list[int]] = {}
    for index, shape in enumerate(shapes):
        by_shape.setdefault(tuple(shape), []).append(index)
    each = max(1, MOST_TENSORS // max(1, len(by_shape)))
    return _spread(sorted(index for own in by_shape.values() for index in _spread(own, each)), MOST_TENSORS)


def positions(size: int) -> np.ndarray:
    """Returns the positions of the sampled elements in a tensor of `size` elements, int64 [ELEMENTS]; they repeat in a
    small tensor."""
    return np.arange(ELEMENTS, dtype=np.int64) * _STRIDE % size


def _spread(items: list[int], count: int) -> list[int]:
    return items if len(items) <= count else [items[len(items) * at // count] for at in range(count)]
