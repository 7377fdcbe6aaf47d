"""The metrics of one launcher, read when Prometheus asks for them."""

from __future__ import annotations

from collections.abc import Mapping

from tfhet.cluster import Place, job_name
from tfhet.launch.hearing import Hearing
from tfhet.telemetry import UP, Metric, training_metrics


def metrics_of(
    place: Place, hearing: Hearing, processes: Mapping[str, int], of_plane: Mapping[Metric, float]
) -> dict[Metric, float]:
    """All metrics that the launcher has now. processes: ids of its running processes, by name. of_plane: the metrics
    of its data plane, `UP` among them where processes of the plane are all that a host runs."""
    values = {UP: 0.0, **of_plane}
    if place.rank is not None:
        values[UP] = float(f"rank-{place.rank.rank}" in processes)
    return {**values, **training_metrics(hearing.totals, hearing.metrics)}


def labels(place: Place) -> dict[str, str]:
    """Labels of all metrics; those that this host does not have are left out.

    The job's name is `training_job`, because Prometheus uses `job` for the scrape configuration.
    """
    rank = None if place.rank is None else str(place.rank.rank)
    every = {
        "training_job": job_name(place.env),
        "group": place.identity.current_group,
        "host": place.host,
        "role": place.roles.current.name,
        "rank": rank,
    }
    return {name: value for name, value in every.items() if value}
