"""The summary of one run of a job, which is the content of `summary.json`, and the examples of its epochs.

The JSON has a schema version. Adding a field does not raise it, because readers ignore fields that they do not know.
Renaming, removing or redefining a field raises it, and readers refuse versions that they do not know.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from tfhet import errors
from tfhet.record.figure import Spread
from tfhet.record.json_file import json_value
from tfhet.schema import check_schema, from_json

SCHEMA = 1
KIND = "run summary"
MEASURES = ("loss", "accuracy", "acc", "auc", "precision", "recall")
"""Ends of the names of what an epoch measures of the training: a loss, or a share."""
MODES = ("local", "homogeneous", "heterogeneous")
STOP_CODES = frozenset(128 + number for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM))
"""Exit codes of a job that was stopped."""


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
    versions: Mapping[str, str] = field(default_factory=dict)
    cluster: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By group: hosts (names), instance_type, role, ranks_per_host, and what plane and strategy add."""
    exit_codes: Mapping[str, int | None] = field(default_factory=dict)
    """Exit code by host, or by `host/rank`; negative for a signal, None for a process whose end was not seen."""
    exit_code: int | None = None
    """Exit code of the whole job; None while it runs."""
    cause: str | None = None
    """Why the job failed, in one or a few lines; None otherwise."""
    failures: Sequence[str] = ()
    """Failures of ranks beside the cause, a line each in the order of their reports, none of them caused by another."""
    steps: int | None = None
    batch_size: int | None = None
    ranks: int | None = None
    step_ms: Spread | None = None
    """Duration of a measured step of rank 0, in milliseconds (`record.step_time`)."""
    wait_ms: Spread | None = None
    """Wait for data in each of those steps, in milliseconds (`record.step_time`)."""
    slow_steps: tuple[Mapping[str, float], ...] = ()
    """The steps that waited longest, if `step_ms` and `wait_ms` have a sample of the steps: `step`, `dur_ms`,
    `wait_ms`."""
    delivery_ms: Spread | None = None
    """Milliseconds that the data of `distribute` took for a batch, where a script of one's own made more of them: what
    the script's own `prefetch` hides of it is no wait."""
    step_parts_ms: Mapping[str, float] = field(default_factory=dict)
    """Median milliseconds of rank 0's `wait`, `copy`, `compute` and, if known, `allreduce` (`record.step_time`)."""
    cpu_ms: Spread | None = None
    """CPU milliseconds that rank 0's process took for a measured step, with whatever it prepares of its data itself."""
    checkpoint_s: float | None = None
    """Seconds that rank 0 spent on checkpoints between steps."""
    wait_pct: float | None = None
    """Wait share of the measured steps, 0 to 100, mean of all ranks (`record.step_time`)."""
    by_rank: Sequence[Mapping[str, Any]] = ()
    """Each rank of a script of one's own: rank, steps, step_ms (median), wait_pct; and with a declared pipeline the
    examples that were delivered to it, and those among them that its own prefetch held, `unused`, at the end."""
    examples_per_s: float | None = None
    bytes_per_example: float | None = None
    """Bytes on the wire between data hosts and ranks; None where no data host serves."""
    first_batch_s: float | None = None
    """Seconds from the trainer's first request to its first batch."""
    teardown_s: float | None = None
    """Seconds from the end of the last rank to the end of the last host."""
    epochs: Sequence[Mapping[str, Any]] = ()
    """One mapping per epoch: epoch, seen, expected, once, missing, repeated, loss, accuracy and other measures.

    Of a script of one's own, `steps` and `examples` are those of its pass of that number, the rest is of the epoch of
    the data: also `left`, the ids that had not come when the script ended, and may have been under way; and `by_rank`,
    the examples delivered to each rank."""
    has_read: bool | None = None
    """Whether the script of the leader's host read data by tfhet; None if it is not known."""
    not_counted: str | None = None
    """Why it is not known how often each example came; None where it is known."""
    stages_where: Mapping[str, str] = field(default_factory=dict)
    """Where each stage ran, by its text, in order: `data_group`, `dnn_group` or `trainer`."""
    part_us: Mapping[str, float] = field(default_factory=dict)
    """Microseconds of an example in each part of a pipeline that rank 0 ran natively: `read` with its waits for files,
    then the CPU time of the steps."""
    restarts: int | None = None
    lost_hosts: Mapping[str, str] = field(default_factory=dict)
    """Reason by name of each data host that was lost after training had begun."""
    bad_records: Sequence[Mapping[str, Any]] = ()
    """The first records that were skipped because they cannot be read: file, offset (bytes), reason and so on."""
    watched: Mapping[str, Any] = field(default_factory=dict)
    """Of a run of `tfhet watch`: reader, its settings, where (share of the samples of stacks by function), where_role,
    other_batches (not for training), hidden_passes (of a thread that prefetches), is_cut
    (the end is not recorded), cpus_used (by process), memory_pss_peak_bytes, memory_rss_peak_bytes,
    memory_loaders_peak_bytes (of the processes of loaders), gpus_memory_peak_bytes (by GPU, of all
    programs), memory_shared_peak_bytes (in /dev/shm, without what was there at the start)."""
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
    """By simulated host: memory_peak_bytes, out_of_memory_kills, sent_bytes, received_bytes; null: not counted."""
    plane_use: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """By host: what the data plane has used there, by names of its own, in bytes."""
    limits: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By simulated host: cpus, cpu_set, memory_bytes, bits_per_s; null for no limit."""
    not_limited: Sequence[str] = ()
    """Limits that were requested but could not be imposed."""
    usd_per_million_examples: float | None = None
    """Cost per million examples; None where a price is not known."""
    metrics: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            errors.unknown("run mode", self.mode, MODES)
        for name in ("epochs", "failures", "by_rank", "bad_records", "not_limited"):
            object.__setattr__(self, name, tuple(getattr(self, name)))

    @property
    def succeeded(self) -> bool:
        return self.exit_code == 0

    @property
    def outcome(self) -> str:
        """`succeeded`, `stopped` (by a signal to a launcher), `failed`, or `running`."""
        if self.exit_code is None:
            return "running"
        return "succeeded" if self.succeeded else "stopped" if self.exit_code in STOP_CODES else "failed"

    @property
    def measures(self) -> dict[str, list[tuple[float, float]]]:
        """Measures of the training over its epochs, by name: the number of each epoch, and the value."""
        found: dict[str, list[tuple[float, float]]] = {}
        for index, epoch in enumerate(self.epochs):
            number = epoch["epoch"] if isinstance(epoch.get("epoch"), int) else index
            for name, value in epoch.items():
                if name.endswith(MEASURES) and isinstance(value, (int, float)):
                    found.setdefault(name, []).append((number, value))
        return found

    def to_json(self) -> dict[str, Any]:
        """The summary as JSON values: `schema`, then every field in order."""
        return {"schema": SCHEMA, **{item.name: json_value(getattr(self, item.name)) for item in fields(self)}}

    @classmethod
    def from_json(cls, content: Mapping[str, Any], where: str = "") -> RunSummary:
        """The inverse of `to_json`. where: path for error messages. A missing field takes its default. Raises
        UsageError for another schema version, and DataError for a field of the wrong type."""
        check_schema(content, KIND, SCHEMA, where)
        found = from_json(cls, content, f"{KIND} {where}".rstrip())
        return replace(found, metrics=_numbers(found.metrics), epochs=tuple(map(_numbers, found.epochs)))


def _numbers(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values without the words that stand for NaN and infinity in JSON."""
    words = ("NaN", "Infinity", "-Infinity")
    return {name: float(value) if value in words else value for name, value in values.items()}


@dataclass(frozen=True)
class Visits:
    """Numbers of the examples of one epoch: `before` + `once` + `repeated` + `bad` + `missing` is `expected`."""

    expected: int | None
    """Examples in the source; None if unknown."""
    before: int
    """Ids that earlier runs of this training had seen of the epoch."""
    seen: int
    """Examples delivered in this run, repetitions included."""
    once: int
    """Ids delivered exactly once, in this run, and not before."""
    repeated: int
    """Ids delivered more than once, or again."""
    bad: int
    """Ids never delivered because their records cannot be read."""
    missing: int | None
    """Ids never delivered for an unknown reason; None if the number of examples is unknown."""
    rereads: int
    """Number of times that the rest of the epoch was read: 0 when nothing was lost on the way."""

    @classmethod
    def total(cls, visits: Sequence[Visits]) -> Visits:
        """The sums over several passes, at least one."""
        columns = {item.name: [getattr(one, item.name) for one in visits] for item in fields(cls)}
        sums: dict[str, Any] = {name: None if None in values else sum(values) for name, values in columns.items()}
        return cls(**sums)
