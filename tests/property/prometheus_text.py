"""The metrics in a text that Prometheus would read, by prometheus_client's parser."""

from __future__ import annotations

from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families


@dataclass(frozen=True)
class Family:
    """A metric with its one sample."""

    kind: str
    help: str
    labels: dict[str, str]
    value: float


def read(text: str) -> dict[str, Family]:
    """Metrics by name, in order. Raises ValueError for what is not the format, or has several samples."""
    found: dict[str, Family] = {}
    for family in text_string_to_metric_families(text):
        (sample,) = family.samples
        assert sample.name not in found
        found[sample.name] = Family(family.type, family.documentation, dict(sample.labels), sample.value)
    return found
