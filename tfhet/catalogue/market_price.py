"""What an instance type costs, as somebody published it."""

from __future__ import annotations

import datetime
from dataclasses import dataclass

TRAINING, EC2 = "sagemaker training", "ec2"
MARKETS = (TRAINING, EC2)
"""What can be bought: an instance in a training job, or the same machine without SageMaker. The first is preferred."""


@dataclass(frozen=True)
class Price:
    """An hour of one instance on demand, without storage, transfer and discounts."""

    usd_per_hour: float
    """More than 0."""
    region: str
    """`us-east-1`."""
    market: str
    """One of MARKETS."""
    source: str
    """Who says so."""
    date: datetime.date
    """Of which day the source is."""
