"""Metric lines in CloudWatch's embedded metric format (EMF): log lines that CloudWatch turns into metrics.

Source: "Specification: Embedded metric format", Amazon CloudWatch User Guide.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

from tfhet.messages import MetricLine
from tfhet.messages.metric_line import UNITS


def emf_line(namespace: str, dimensions: Mapping[str, str], line: MetricLine, at_s: float) -> str:
    """A metric line as one JSON object, without a line break.

    dimensions: values by name, at most 30, all in one set. at_s: seconds since 1970. A loss that is not finite is left
    out, because neither JSON nor CloudWatch can represent it.
    """
    numbers = {name: value for name, value in line.numbers().items() if math.isfinite(value)}
    directive = {
        "Namespace": namespace,
        "Dimensions": [list(dimensions)],
        "Metrics": [{"Name": name, "Unit": UNITS[name]} for name in numbers],
    }
    content = {"_aws": {"Timestamp": round(1e3 * at_s), "CloudWatchMetrics": [directive]}, **dimensions, **numbers}
    return json.dumps(content, allow_nan=False)
