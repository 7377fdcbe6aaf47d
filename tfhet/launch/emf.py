"""Metric lines in CloudWatch's embedded metric format: a JSON object a line, of which CloudWatch makes metrics.

The format: "Specification: Embedded metric format", Amazon CloudWatch User Guide.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

from tfhet.messages import UNITS, MetricLine


def emf_line(namespace: str, dimensions: Mapping[str, str], line: MetricLine, at_s: float) -> str:
    """One line, without its end. dimensions: values by name, at most 30 of them, all in one set; at_s: since 1970.

    A loss that is no finite number is left out: neither JSON nor CloudWatch has such values.
    """
    numbers = {name: value for name, value in line.numbers().items() if math.isfinite(value)}
    about = {
        "Namespace": namespace,
        "Dimensions": [list(dimensions)],
        "Metrics": [{"Name": name, "Unit": UNITS[name]} for name in numbers],
    }
    told = {"_aws": {"Timestamp": round(1e3 * at_s), "CloudWatchMetrics": [about]}, **dimensions, **numbers}
    return json.dumps(told, allow_nan=False)
