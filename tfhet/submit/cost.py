"""The price of a job's hosts, and the highest cost of a tuning job."""

from __future__ import annotations

from tfhet.catalogue import REGION, TRAINING, Catalogue
from tfhet.errors import UsageError
from tfhet.submit.job import Job
from tfhet.units import HOUR_S


def usd_per_hour(job: Job, known: Catalogue) -> float:
    """Returns the price of all hosts of one training job on demand. Raises UsageError for an unknown price."""
    region, total = job.region or REGION, 0.0
    for group in job.groups.values():
        if not group.count:
            continue
        price = known.price(group.instance_type, region, TRAINING)
        if price is None:
            raise UsageError(
                f"no price of training on {group.instance_type} in {region} is known: "
                f"`tfhet prices refresh --region {region}` asks for it, --instances FILE states it"
            )
        total += group.count * price.usd_per_hour
    return total


def highest_cost(job: Job, known: Catalogue) -> str:
    """Returns the number of training jobs of a tuning job, and their highest cost, in words; "" without tuning."""
    if job.tuning is None:
        return ""
    count, most_s = job.tuning.max_number_of_training_jobs, job.limits.max_run_s
    words = f"tuning: at most {count} training jobs of at most {most_s} s"
    try:
        usd = usd_per_hour(job, known)
    except UsageError as error:
        return f"{words}; their highest cost is not known: {error}"
    most_usd = count * most_s / HOUR_S * usd
    return f"{words} at {usd:.4g} USD per hour: at most {most_usd:,.2f} USD on demand, without storage"
