"""The state of a loader: its position, and the settings that the position depends on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tfhet.errors import UsageError
from tfhet.planes.feed.dataset import DatasetFacts
from tfhet.planes.feed.delivered import DeliveredSet, Key
from tfhet.planes.feed.source import FeedSource, digest
from tfhet.strategies import JobContext


def settings_of(source: FeedSource, job: JobContext, is_training: bool, shards: int) -> dict[str, Any]:
    """Returns what the numbers of the batches depend on, as JSON values. shards: number of shards of an iterable."""
    return {
        "rank": job.rank,
        "size": job.size,
        "seed": job.seed,
        "source": str(source),
        "batch_size": source.batch_size,
        "shuffle": source.shuffle,
        "drop_last": source.drop_last,
        "collate": source.collate and source.collate["function"],
        "training": is_training,
        "processes": None if source.batch_size else shards,
        "arguments": {name: digest(value) for name, value in sorted(source.arguments.items())},
    }


def dataset_of(facts: DatasetFacts | None) -> dict[str, Any] | None:
    return None if facts is None else {"examples": facts.examples, "order": facts.order}


def position_in(state: Mapping[str, Any], settings: Mapping[str, Any]) -> tuple[int, frozenset[Key], Any]:
    """Returns a state's epoch, delivered batches and `dataset_of`. Raises UsageError for other settings."""
    try:
        epoch, dataset = int(state["epoch"]), state["dataset"] and dict(state["dataset"])
        delivered = DeliveredSet.parse(state["taken"], int(state["rank"]), int(state["size"]))
        known = {name: state[name] for name in settings}
        if not delivered:  # a state between two epochs is the same on every rank
            known |= {name: settings[name] for name in ("rank", "size", "processes")}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UsageError(f"this is no state of a loader: {type(error).__name__}: {error}") from None
    check(known, settings, epoch)
    return epoch, delivered, dataset


def check(known: Mapping[str, Any], own: Mapping[str, Any], epoch: int) -> None:
    """Raises UsageError that names what differs between a state and its loader."""
    found = []
    for name in own:
        before, now = known.get(name), own[name]
        if isinstance(now, Mapping) and isinstance(before, Mapping):
            names = sorted(one for one in now.keys() | before if now.get(one) != before.get(one))
            found += [f"other {name}: {', '.join(names)}"] if names else []
        elif before != now:
            found.append(f"{name} {before!r} instead of {now!r}")
    if found:
        raise UsageError(
            f"the state is of a loader with {'; '.join(found)}: restore this loader's settings and data, or begin the "
            f"epoch again with set_epoch({epoch})"
        )
