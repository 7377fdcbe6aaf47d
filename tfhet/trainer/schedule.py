"""The learning rate over time."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class WarmUp:
    """Linear scaling with gradual warm-up (Goyal et al. 2017, section 2.2; Horovod's LearningRateWarmupCallback):
    from the rate for one rank to `size` times that, over the first epochs, and constant afterwards."""

    rate: float
    """Learning rate for one rank."""
    size: int
    """Number of ranks."""
    epochs: float = 3.0
    """Length of the warm-up; 0: none."""

    def at(self, epoch: float) -> float:
        """The rate after `epoch` epochs, fractions included."""
        if self.epochs <= 0 or epoch >= self.epochs:
            return self.rate * self.size
        return self.rate * (1 + (self.size - 1) * epoch / self.epochs)
