"""The state of a loader: its position, and the settings that the position depends on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tfhet.errors import UsageError
from tfhet.pipeline import Pipeline, differences
from tfhet.planes.feed.batch_reader import Position
from tfhet.planes.feed.dataset import DatasetFacts
from tfhet.planes.feed.delivered import DeliveredSet
from tfhet.planes.feed.source import FeedSource, digest
from tfhet.strategies import JobContext


def settings_of(
    source: FeedSource, job: JobContext, is_training: bool, shards: int, pipeline: Pipeline | None
) -> dict[str, Any]:
    """Returns what a position depends on, as JSON values. shards: number of shards of an iterable."""
    if pipeline is not None:
        return {"pipeline": differences(pipeline), "training": is_training}
    found = {
        "seed": job.seed,
        "source": str(source),
        "shuffle": source.shuffle,
        "collate": source.collate and source.collate["function"],
        "training": is_training,
        "arguments": {name: digest(value) for name, value in sorted(source.arguments.items())},
    }
    return found if source.batch_size else {**found, "rank": job.rank, "size": job.size, "processes": shards}


def state_of(
    epoch: int, position: Position, settings: Mapping[str, Any], facts: DatasetFacts | None, job: JobContext
) -> dict[str, Any]:
    """Returns the state of a loader as JSON values. facts: of a map-style dataset, if they are known."""
    if "processes" in settings:
        rows = DeliveredSet(job.rank, job.size, position.delivered).rows()
        return {"epoch": epoch, "taken": rows, **settings}
    return {"epoch": epoch, "examples": position.offset, "dataset": _dataset_of(facts), **settings}


def position_in(
    state: Mapping[str, Any], settings: Mapping[str, Any], facts: DatasetFacts | None
) -> tuple[int, Position]:
    """Returns a state's epoch and position. Raises UsageError for another loader's state, or for other data."""
    try:
        epoch, dataset, known = int(state["epoch"]), None, {name: state[name] for name in settings}
        if "processes" in settings:
            position = Position(0, DeliveredSet.parse(state["taken"], int(state["rank"]), int(state["size"])))
            if not position.delivered:  # a state between two epochs is the same on every rank
                known |= {name: settings[name] for name in ("rank", "size", "processes")}
        else:
            position = Position(int(state["examples"]))
            dataset = state["dataset"] and dict(state["dataset"])
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UsageError(f"this is no state of a loader: {type(error).__name__}: {error}") from None
    _check(known, settings, epoch)
    if dataset and facts is not None:
        _check(dataset, _dataset_of(facts) or {}, epoch)
    return epoch, position


def _dataset_of(facts: DatasetFacts | None) -> dict[str, Any] | None:
    return None if facts is None else {"examples": facts.examples, "order": facts.order}


def _check(known: Mapping[str, Any], own: Mapping[str, Any], epoch: int) -> None:
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
