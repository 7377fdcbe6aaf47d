"""Global random numbers of Python, NumPy, PyTorch and TensorFlow, while the user's code makes what a feed serves."""

from __future__ import annotations

import random
import sys
from types import TracebackType
from typing import Any, ClassVar

import numpy as np


class Randomness:
    """`with randomness:` has the process's global random numbers follow a sequence of their own, which goes on with the
    next block. So what is made again is the same again, in any process."""

    _latest: ClassVar[Randomness | None] = None
    """The sequence that the process's global random numbers still follow."""

    def __init__(self, *parts: int, leaves_trace: bool = False):
        """parts: numbers of 0 or more that the sequence is made of. leaves_trace: whether what is around the blocks may
        draw from the sequence, too: to put other numbers back costs 0.2 ms."""
        self._seed = np.random.SeedSequence(parts).generate_state(4)
        self._leaves_trace = leaves_trace
        self._own: tuple[Any, ...] | None = None
        self._outer: tuple[Any, ...] = ()

    def __enter__(self) -> Randomness:
        if Randomness._latest is self:
            return self
        if Randomness._latest is not None:
            Randomness._latest._own = _states()
        if not self._leaves_trace:
            self._outer = _states()
        Randomness._latest = self if self._leaves_trace else None
        if self._own is not None:
            _restore(self._own)
            return self
        first, second, third, fourth = (int(word) for word in self._seed)
        random.seed(first << 32 | second)
        np.random.seed(third)
        if (torch := _torch()) is not None:
            torch.manual_seed(fourth)
        if self._leaves_trace and (tensorflow := sys.modules.get("tensorflow")) is not None:
            tensorflow.random.set_seed(fourth)  # of the data sets that are made from now on; it cannot be put back
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._leaves_trace:
            self._own = _states()
            _restore(self._outer)


def _torch() -> Any | None:
    """PyTorch's generator of the CPU, if this process has loaded it."""
    return getattr(sys.modules.get("torch"), "default_generator", None)


def _states() -> tuple[Any, ...]:
    torch = _torch()
    return random.getstate(), np.random.get_state(), None if torch is None else torch.get_state()


def _restore(states: tuple[Any, ...]) -> None:
    random.setstate(states[0])
    np.random.set_state(states[1])
    if (torch := _torch()) is not None and states[2] is not None:
        torch.set_state(states[2])
