"""A published price of an instance type."""

from __future__ import annotations

import datetime
from dataclasses import dataclass

TRAINING, EC2 = "sagemaker training", "ec2"
MARKETS = (TRAINING, EC2)
"""Markets: an instance in a training job, or the same machine without SageMaker. The first is preferred."""


@dataclass(frozen=True)
class Price:
    """Price of an hour of one instance on demand, without storage, transfer and discounts."""

    usd_per_hour: float
    """USD per hour, more than 0."""
    region: str
    """Name of the region: `us-east-1`."""
    market: str
    """One of MARKETS."""
    source: str
    """Publisher of the price."""
    date: datetime.date
    """Day of the source."""
