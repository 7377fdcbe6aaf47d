"""The metrics of one launcher, read when Prometheus asks for them."""

from __future__ import annotations

from collections.abc import Mapping

from tfhet.cluster import job_name
from tfhet.launch.hearing import Hearing
from tfhet.launch.place import Place
from tfhet.service import Fleet
from tfhet.telemetry import UP, Metric, training_metrics

WORKERS = Metric("tfhet_workers", "gauge", "Data service workers of this host that run.")
REGISTERED = Metric(
    "tfhet_workers_registered", "gauge", "Workers that the dispatcher knows; where the dispatcher runs."
)
RESTARTS = Metric("tfhet_restarts_total", "counter", "Restarts of a process of the data service on this host.")
SERVICE_METRICS = (WORKERS, REGISTERED, RESTARTS)


def metrics_of(
    place: Place, hearing: Hearing, processes: Mapping[str, int], fleet: Fleet | None
) -> dict[Metric, float]:
    """All metrics that the launcher has now. processes: ids of its running processes, by name."""
    values = service_metrics(place, processes, fleet)
    if place.rank is not None:
        values[UP] = float(f"rank-{place.rank.rank}" in processes)
    return {**values, **training_metrics(hearing.totals, hearing.metrics)}


def service_metrics(place: Place, processes: Mapping[str, int], fleet: Fleet | None) -> dict[Metric, float]:
    """Metrics of this host's data service: its processes, and `UP` as a data host counts it."""
    workers = sum(name.startswith("worker-") for name in processes)
    values = {UP: float(workers > 0)}
    if place.own_workers:
        values[WORKERS] = workers
    if place.dispatches:
        values[REGISTERED] = 0 if fleet is None else fleet.workers_registered
    if place.serves:
        values[RESTARTS] = 0 if fleet is None else fleet.restarts
    return values


def labels(place: Place) -> dict[str, str]:
    """Labels of all metrics; those that this host does not have are left out.

    The job's name is `training_job`, because Prometheus uses `job` for the scrape configuration.
    """
    rank = None if place.rank is None else str(place.rank.rank)
    every = {
        "training_job": job_name(place.env),
        "group": place.identity.current_group,
        "host": place.host,
        "role": place.roles.role_of_current_host.value,
        "rank": rank,
    }
    return {name: value for name, value in every.items() if value}
