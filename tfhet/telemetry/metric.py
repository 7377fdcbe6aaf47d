"""A launcher's numbers as Prometheus reads them: its text format, version 0.0.4."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from tfhet.cluster import job_name
from tfhet.launch.hearing import Hearing
from tfhet.launch.place import Place
from tfhet.service import Fleet

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True)
class Metric:
    """One number of a launcher, which is one sample."""

    name: str
    kind: str
    """`gauge`, or `counter`: it only grows, while the launcher lives."""
    says: str


UP = Metric("tfhet_up", "gauge", "1 while the host does its part: its script runs, or one of its workers.")
WORKERS = Metric("tfhet_workers", "gauge", "Data service workers of this host that run.")
REGISTERED = Metric(
    "tfhet_workers_registered", "gauge", "Workers that the dispatcher knows; where the dispatcher runs."
)
RESTARTS = Metric("tfhet_restarts_total", "counter", "How often a process of the data service was started again here.")
STEPS = Metric("tfhet_steps_total", "counter", "Steps of this rank since its script began.")
EXAMPLES = Metric("tfhet_examples_total", "counter", "Examples of those steps, of all ranks together.")
STEP_S = Metric("tfhet_step_seconds_total", "counter", "Seconds spent in those steps.")
WAIT_S = Metric("tfhet_wait_seconds_total", "counter", "Seconds of them spent waiting for data.")
EPOCH = Metric("tfhet_epoch", "gauge", "The epoch, from 0, by the last metric line; on rank 0.")
LOSS = Metric("tfhet_loss", "gauge", "Mean loss over the epoch so far, by the last metric line; on rank 0.")
METRICS = (UP, WORKERS, REGISTERED, RESTARTS, STEPS, EXAMPLES, STEP_S, WAIT_S, EPOCH, LOSS)


@dataclass(frozen=True)
class Exposition:
    """What one launcher exposes."""

    place: Place
    hearing: Hearing
    processes: Callable[[], Mapping[str, int]]
    """Process ids by name, of those that run now."""
    fleet: Callable[[], Fleet | None]

    def text(self) -> str:
        """All numbers that there are now."""
        return rendered(labels(self.place), dict(self._values()))

    def _values(self) -> Iterator[tuple[Metric, float]]:
        place, totals, metrics, fleet = self.place, self.hearing.totals, self.hearing.metrics, self.fleet()
        running = self.processes()
        workers = sum(name.startswith("worker-") for name in running)
        yield UP, float(workers > 0 if place.rank is None else f"rank-{place.rank.rank}" in running)
        if place.own_workers:
            yield WORKERS, workers
        if place.dispatches:
            yield REGISTERED, 0 if fleet is None else fleet.workers_registered
        if place.serves:
            yield RESTARTS, 0 if fleet is None else fleet.restarts
        for metric, name in ((STEPS, "steps"), (EXAMPLES, "examples"), (STEP_S, "step_s"), (WAIT_S, "wait_s")):
            if name in totals:
                yield metric, totals[name]
        if metrics is not None:
            yield EPOCH, metrics.epoch
            if metrics.loss is not None:
                yield LOSS, metrics.loss


def labels(place: Place) -> dict[str, str]:
    """Who it is, without what a host does not have. `training_job`: Prometheus calls something else a job."""
    rank = None if place.rank is None else str(place.rank.rank)
    role = place.roles.role_of_current_host.value
    every = {
        "training_job": job_name(place.env),
        "group": place.identity.current_group,
        "host": place.host,
        "role": role,
        "rank": rank,
    }
    return {name: value for name, value in every.items() if value}


def rendered(labels: Mapping[str, str], values: Mapping[Metric, float]) -> str:
    """One family per metric, one sample in each, all with the same labels."""
    own = ",".join(f'{name}="{_escaped(value, quotes=True)}"' for name, value in labels.items())
    lines = [
        f"# HELP {metric.name} {_escaped(metric.says)}\n"
        f"# TYPE {metric.name} {metric.kind}\n"
        f"{metric.name}{{{own}}} {_number(value)}\n"
        for metric, value in values.items()
    ]
    return "".join(lines)


def _escaped(text: str, quotes: bool = False) -> str:
    text = text.replace("\\", "\\\\").replace("\n", "\\n")
    return text.replace('"', '\\"') if quotes else text


def _number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return repr(value)
