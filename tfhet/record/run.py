"""The summary of one run of a job: the content of `summary.json`.

    >>> from tfhet.record import RunFolder
    >>> run = RunFolder("runs/a").read_summary()
    >>> run.exit_code, run.steps, run.step_ms.median, run.wait_pct
    (0, 390, 86.1, 3.1)

The JSON has a schema version. Adding a field does not raise it, because readers ignore fields that they do not know.
Renaming, removing or redefining a field raises it, and readers refuse versions that they do not know.
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


@dataclass(frozen=True)
class RunSummary:
    """One run in numbers. None means not measured, or not applicable; 0 means zero."""

    name: str = ""
    """Name of the run: of the simulated cluster, the benchmark case, or the training job."""
    job_id: str = ""
    """Id that all hosts of the job share."""
    mode: str = "local"
    """Shape of the job: `local`, `homogeneous` or `heterogeneous`."""
    started: float | None = None
    """Start of the run: seconds since 1970-01-01 UTC."""
    duration_s: float | None = None
    """Seconds from the first launcher's start to the last launcher's exit."""
    machine: Mapping[str, Any] = field(default_factory=dict)
    """Machine that wrote the summary: `record.machine()`."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """`record.versions()` of that machine."""
    cluster: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By group: hosts (names), instance_type, role, ranks_per_host, and what plane and strategy add."""
    exit_codes: Mapping[str, int | None] = field(default_factory=dict)
    """Exit code by host, or by `host/rank`; negative for a signal, None for a process whose end was not seen."""
    exit_code: int | None = None
    """Exit code of the whole job; None while it runs."""
    cause: str | None = None
    """Why the job failed, in one or a few lines; None otherwise."""
    steps: int | None = None
    """Number of training steps of rank 0."""
    batch_size: int | None = None
    """Number of examples per step and rank."""
    ranks: int | None = None
    """Number of training processes."""
    step_ms: Spread | None = None
    """Duration of a measured step of rank 0, in milliseconds (`record.step_time`)."""
    wait_ms: Spread | None = None
    """Wait for data in each of those steps, in milliseconds (`record.step_time`)."""
    step_parts_ms: Mapping[str, float] = field(default_factory=dict)
    """Median milliseconds of the components of rank 0's steps: `wait`, `copy`, `compute`, and `allreduce` where it is
    known (`record.step_time`)."""
    checkpoint_s: float | None = None
    """Seconds that rank 0 spent on checkpoints between steps."""
    wait_pct: float | None = None
    """Wait share of the measured steps, 0 to 100, mean of all ranks (`record.step_time`)."""
    examples_per_s: float | None = None
    """Throughput of all ranks together."""
    bytes_per_example: float | None = None
    """Bytes on the wire between data hosts and ranks; None where no data host serves."""
    first_batch_s: float | None = None
    """Seconds from the trainer's first request to its first batch."""
    teardown_s: float | None = None
    """Seconds from the end of the last rank to the end of the last host."""
    epochs: Sequence[Mapping[str, Any]] = ()
    """One mapping per epoch: epoch, seen, expected, once, missing, repeated, loss, accuracy and other measures."""
    stages_where: Mapping[str, str] = field(default_factory=dict)
    """Where each stage ran, by its text, in order: `data_group`, `dnn_group` or `trainer`."""
    restarts: int | None = None
    """Number of restarts of processes that serve data."""
    lost_hosts: Mapping[str, str] = field(default_factory=dict)
    """Reason by name of each data host that was lost after training had begun."""
    bad_records: Sequence[Mapping[str, Any]] = ()
    """The first records that were skipped because they cannot be read: file, offset (bytes), reason and so on."""
    status: str | None = None
    """Status of the training job on its platform: `Completed`, `Failed` or `Stopped`."""
    failure_reason: str | None = None
    """The platform's reason for `Failed`."""
    billable_s: float | None = None
    """Seconds that the platform charges for each instance; None for a run that is not paid for."""
    usd: float | None = None
    """Cost of all instances, without storage and transfer; None where a price is not known."""
    host_cpu_s: Mapping[str, float] = field(default_factory=dict)
    """CPU seconds by host, from its start to its end."""
    reading_cpu_s: Mapping[str, float] = field(default_factory=dict)
    """CPU seconds by host, from the first read of the ranks to their end."""
    host_use: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By simulated host: memory_peak_bytes, out_of_memory_kills, sent_bytes, received_bytes; null for what was not
    counted."""
    limits: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By simulated host: cpus, cpu_set, memory_bytes, bits_per_s; null for no limit."""
    not_limited: Sequence[str] = ()
    """Limits that were requested but could not be imposed."""
    usd_per_million_examples: float | None = None
    """Cost per million examples; None where a price is not known."""
    metrics: Mapping[str, Any] = field(default_factory=dict)
    """Final values: loss, accuracy, val_accuracy."""

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
        """Whether the job ended with exit code 0."""
        return self.exit_code == 0

    def to_json(self) -> dict[str, Any]:
        """The summary as JSON values: `schema`, then every field in order."""
        content: dict[str, Any] = {"schema": SCHEMA}
        for item in fields(self):
            value = getattr(self, item.name)
            content[item.name] = document.plain(value.to_json() if isinstance(value, Spread) else value)
        return content

    @classmethod
    def from_json(cls, content: Mapping[str, Any], where: str = "") -> RunSummary:
        """The inverse of `to_json`. where: path for error messages.

        A missing field takes its default. Raises UsageError for another schema version, and DataError for a field of
        the wrong type.
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
                wanted = " or ".join(one.__name__ for one in kind)
                shown = errors.shown(value)
                raise errors.DataError(f"{KIND} {where}: `{item.name}` is {shown}, not {wanted}", where or None)
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
        return abs(value) <= 2**63  # so that every reader can convert it to a float
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
