"""The process that measures what batches cost apart, from the outside: started once, asked again and again."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from tfhet.bench.apart import Apart
from tfhet.bench.plan_alone import COSTS, REFERENCE
from tfhet.bench.plan_case import Measured, PlanLoad
from tfhet.container.limits import Limits
from tfhet.service.cpus import usable

COSTS_LIMIT_S, REFERENCE_LIMIT_S = 240.0, 60.0
COSTS_CPUS = 0.5
"""About what hosts have while costs are measured: stopping and going on costs a few per cent."""


class Gauge(Protocol):
    """What the suite asks."""

    def costs(self, load: PlanLoad, channel: Path) -> Measured: ...

    def reference_s(self, load: PlanLoad, channel: Path) -> list[float]:
        """CPU seconds of a batch of the whole pipeline in one process, round by round."""


class ApartGauge:
    """`plan_alone`. Raises TfhetError where it fails or takes too long."""

    def __init__(self, apart: Apart):
        self._apart = apart

    def costs(self, load: PlanLoad, channel: Path) -> Measured:
        return Measured.of(load, self._asked(COSTS, load, channel, COSTS_LIMIT_S, Limits(COSTS_CPUS)))

    def reference_s(self, load: PlanLoad, channel: Path) -> list[float]:
        return list(self._asked(REFERENCE, load, channel, REFERENCE_LIMIT_S)["cpu_s"])

    def _asked(
        self, what: str, load: PlanLoad, channel: Path, limit_s: float, limits: Limits | None = None
    ) -> Mapping[str, Any]:
        asked = {"what": what, "chain": load.chain, "batch_size": load.batch_size, "channel": str(channel)}
        found: Mapping[str, Any] = json.loads(self._apart.ask(limit_s, limits, json.dumps(asked)))
        return found


@contextmanager
def gauge() -> Iterator[ApartGauge]:
    """The process, which ends with the context."""
    with Apart.kept("plan_alone", str(max(usable() or (0,)))) as apart:
        yield ApartGauge(apart)
