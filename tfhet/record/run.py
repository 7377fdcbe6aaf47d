"""What one run of a job was: the content of `summary.json`.

The JSON carries a schema version. A field may be added without raising it (a reader takes what it knows and leaves the
rest); renaming, removing or redefining one raises it, and a reader refuses a version that it does not know.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from tfhet import errors
from tfhet.record import document
from tfhet.record.spread import Spread

SCHEMA = 1
KIND = "run summary"
MODES = ("local", "homogeneous", "heterogeneous")
WARM_UP_STEPS = 3
"""First steps of a run that are kept apart: they trace graphs and fill buffers."""


@dataclass(frozen=True)
class RunSummary:
    """One run in numbers. None means that it was not measured or does not apply; 0 means zero."""

    name: str = ""
    """What the run is called: the simulated cluster, the benchmark case, or the training job."""
    job_id: str = ""
    """The identity that the job's hosts share."""
    mode: str = "local"
    """`local`, `homogeneous` or `heterogeneous`."""
    started: float | None = None
    """When: seconds since 1970-01-01 UTC."""
    duration_s: float | None = None
    """From the first launcher's start to the last launcher's exit."""
    machine: Mapping[str, Any] = field(default_factory=dict)
    """`record.machine()` of the machine that wrote the summary."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """`record.versions()` there."""
    cluster: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By group: hosts (names), instance_type, role, ranks_per_host, and what plane and strategy add."""
    exit_codes: Mapping[str, int | None] = field(default_factory=dict)
    """By host, or by `host/rank`; negative for a signal, None when it was never seen to end."""
    exit_code: int | None = None
    """The code of the whole job; None while it runs."""
    cause: str | None = None
    """Why it ended badly, in one or a few lines; None when it did not."""
    steps: int | None = None
    """Training steps of rank 0."""
    batch_size: int | None = None
    """Examples per step and rank."""
    ranks: int | None = None
    """Training processes."""
    step_ms: Spread | None = None
    """Wall time of a step of rank 0 in milliseconds, warm-up apart."""
    wait_ms: Spread | None = None
    """The part of each of those steps that rank 0 spent waiting for data, in milliseconds."""
    step_parts_ms: Mapping[str, float] = field(default_factory=dict)
    """Median milliseconds of rank 0's steps by part: `wait`, `copy`, `compute`, and `allreduce` where it was told apart
    from `compute`."""
    checkpoint_s: float | None = None
    """Seconds that rank 0 spent on checkpoints, between steps."""
    wait_pct: float | None = None
    """Share of the steps' time spent waiting for data, 0 to 100; the mean of all ranks."""
    examples_per_s: float | None = None
    """All ranks together."""
    bytes_per_example: float | None = None
    """On the wire between data hosts and ranks; None without a data service."""
    first_batch_s: float | None = None
    """From the trainer's first request to its first batch."""
    teardown_s: float | None = None
    """From the end of the last rank to the end of the last host."""
    epochs: Sequence[Mapping[str, Any]] = ()
    """By epoch: epoch, seen, expected, once, missing, repeated, loss, accuracy and whatever else was measured."""
    stages_where: Mapping[str, str] = field(default_factory=dict)
    """Each stage as text, in order, to where it ran: `data_group`, `dnn_group` or `trainer`."""
    restarts: int | None = None
    """How often a part was started anew."""
    lost_hosts: Mapping[str, str] = field(default_factory=dict)
    """Why, by name of each data host that was lost after training had begun."""
    bad_records: Sequence[Mapping[str, Any]] = ()
    """Records that were skipped because they cannot be read: file, offset (bytes), reason and so on; the first ones."""
    status: str | None = None
    """What a platform would say of the job: `Completed`, `Failed` or `Stopped`."""
    failure_reason: str | None = None
    """And why."""
    billable_s: float | None = None
    """Seconds that a platform charges for each of the instances; None of a run that is not paid for."""
    usd: float | None = None
    """What all of them cost, without storage and transfer; None where a price is not known."""
    host_cpu_s: Mapping[str, float] = field(default_factory=dict)
    """CPU seconds of each host, by name, from its start to its end."""
    reading_cpu_s: Mapping[str, float] = field(default_factory=dict)
    """The part of them from the first read of the ranks to their end."""
    host_use: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Of each simulated host, by name: memory_peak_bytes, out_of_memory_kills, sent_bytes, received_bytes; null where
    that was not counted."""
    limits: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Of each simulated host, by name: cpus, cpu_set, memory_bytes, bits_per_s; null for no limit."""
    not_limited: Sequence[str] = ()
    """Which of the limits that were asked for could not be had."""
    usd_per_million_examples: float | None = None
    """None where no price is known."""
    metrics: Mapping[str, Any] = field(default_factory=dict)
    """The final values: loss, accuracy, val_accuracy."""

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            errors.unknown("run mode", self.mode, MODES)
        for name in ("step_ms", "wait_ms"):
            value = getattr(self, name)
            if isinstance(value, Mapping):
                object.__setattr__(self, name, Spread.from_json(value))
        for name in ("epochs", "bad_records", "not_limited"):
            object.__setattr__(self, name, tuple(getattr(self, name)))

    @property
    def succeeded(self) -> bool:
        """Whether the job ended with code 0."""
        return self.exit_code == 0

    def to_json(self) -> dict[str, Any]:
        """The summary in JSON values, every field present, in the order of the fields, `schema` first."""
        content: dict[str, Any] = {"schema": SCHEMA}
        for item in fields(self):
            value = getattr(self, item.name)
            content[item.name] = document.plain(value.to_json() if isinstance(value, Spread) else value)
        return content

    @classmethod
    def from_json(cls, content: Mapping[str, Any], where: str = "") -> RunSummary:
        """The inverse of `to_json`; `where` (a path) goes into the messages.

        A missing field takes its default. Raises UsageError for another schema version and DataError for a field of the
        wrong kind.
        """
        document.check_schema(content, KIND, SCHEMA, where)
        values: dict[str, Any] = {}
        for item in fields(cls):
            value = content.get(item.name)
            if value is None:
                continue
            kind = _KINDS.get(item.name, (str,))
            value = document.number(value) if float in kind else value
            if not isinstance(value, kind) or isinstance(value, bool) or not _fits(item.name, value):
                said = " or ".join(one.__name__ for one in kind)
                shown = errors.shown(value)
                raise errors.DataError(f"{KIND} {where}: `{item.name}` is {shown}, not {said}", where or None)
            values[item.name] = value
        try:
            values["metrics"] = _numbers(values.get("metrics", {}))
            for name in ("epochs", "bad_records"):
                values[name] = tuple(_numbers(entry) for entry in values.get(name, ()))
            return cls(**values)
        except errors.UsageError:
            raise
        except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
            raise errors.DataError(f"{KIND} {where}: cannot be read: {error!r}", where or None) from None


def _numbers(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: document.number(value) for key, value in values.items()}


def _fits(name: str, value: Any) -> bool:
    if isinstance(value, int):
        return abs(value) <= 2**63  # every reader can make a float of it
    return name not in _ITEMS or all(isinstance(item, _ITEMS[name]) for item in value.values())


_BY_NAME = ("host_cpu_s", "reading_cpu_s", "step_parts_ms")
_MAPPINGS = (
    "machine",
    "versions",
    "cluster",
    "exit_codes",
    "stages_where",
    "lost_hosts",
    "host_use",
    "limits",
    "metrics",
    *_BY_NAME,
)
_WHOLE = ("exit_code", "steps", "batch_size", "ranks", "restarts")
_REAL = (
    "started",
    "duration_s",
    "wait_pct",
    "examples_per_s",
    "bytes_per_example",
    "checkpoint_s",
    "first_batch_s",
    "teardown_s",
    "usd_per_million_examples",
    "billable_s",
    "usd",
)
_KINDS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys((*_MAPPINGS, "step_ms", "wait_ms"), (dict,)),
    **dict.fromkeys(_WHOLE, (int,)),
    **dict.fromkeys(_REAL, (float, int)),
    "epochs": (list, tuple),
    "bad_records": (list, tuple),
    "not_limited": (list, tuple),
}
_ITEMS: dict[str, tuple[type, ...]] = {
    "cluster": (dict,),
    "host_use": (dict,),
    "limits": (dict,),
    **dict.fromkeys(_BY_NAME, (float, int)),
    "exit_codes": (int, type(None)),
    **dict.fromkeys(("stages_where", "lost_hosts"), (str,)),
}
