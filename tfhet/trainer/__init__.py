"""The consumer: collective, models, train step, step loop, checkpoints; `python -m tfhet.trainer` runs it all."""

from __future__ import annotations

from tfhet.strategies.collective import Collective, Solo, collective

__all__ = ["Collective", "Solo", "collective"]
