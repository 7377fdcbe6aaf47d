"""Where the tasks of a Ray data set run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tfhet.cluster import DATA
from tfhet.planes.ray import private

ROLE = "tfhet-role"
"""The label that says the role of a node's host."""
DATA_HOSTS_FIRST: Mapping[str, Any] = {
    "label_selector": {ROLE: DATA.name},
    "fallback_strategy": [{"label_selector": {ROLE: f"!{DATA.name}"}}],
}
"""Arguments of `Dataset.map_batches`, and options of tasks: they run on data hosts as long as those have free CPUs, and
else on the other hosts that offer some."""


def placed(dataset: Any) -> Any:
    """The data set with its tasks on data hosts first, where data hosts and others offer CPUs. Operators that say
    themselves where they run do so there."""
    import ray

    offering = [node["Labels"].get(ROLE) for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]
    is_mixed = DATA.name in offering and set(offering) != {DATA.name}
    return private.with_options(dataset, DATA_HOSTS_FIRST) if is_mixed else dataset
