"""One line of a timeline file: a step, a pause, a sample of what a host uses, or how far a clock is off.

Each entry is one JSON object with `kind`, `host`, its beginning `at_s` (seconds since 1970) and its duration `dur_s`.
Readers ignore fields that they do not know, and take a line that does not fit for no entry.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from tfhet.record.step_time import Pause, StepTime

MOST = 1e15
"""Largest number that an entry may hold: in microseconds it still fits 64 bits."""


@dataclass(frozen=True)
class HostUsage:
    """What all processes on one host used together."""

    cpus: float
    """CPU seconds per second."""
    of_cpus: float
    """Number of CPUs that can be used."""
    counted: str
    """What was counted as the host: the `machine`, or the `cgroup` of a container."""
    memory_bytes: float
    """Memory in use at the end of the sample."""
    received_bytes_per_s: float
    """Through all network interfaces except the loopback."""
    sent_bytes_per_s: float
    """Through all network interfaces except the loopback."""
    gpus_busy_pct: tuple[float, ...] = ()
    """Per GPU: share of the driver's last sampling period in which a kernel ran, 0 to 100; () without GPUs."""
    gpus_memory_bytes: tuple[float, ...] = ()
    """Per GPU: memory in use; () without GPUs."""


@dataclass(frozen=True)
class UsageSample:
    """What one launcher measured over one sampling period, which is about a second."""

    host: str
    at_s: float
    dur_s: float
    member: str
    """The launcher's name on the link: the name of its host, or `rank-N`."""
    processes: Mapping[str, float]
    """CPU seconds per second by process: `launcher`, `rank-N`, and whatever else the launcher runs."""
    machine: HostUsage | None = None
    """The whole host; only from the launcher that leads it."""


@dataclass(frozen=True)
class ClockOffset:
    """Difference between the leader's clock and that of a host."""

    host: str
    at_s: float
    dur_s: float
    offset_s: float
    """Seconds to add to the times that the host wrote."""
    error_s: float
    """Largest error of `offset_s`: half of the round trip by which it was measured."""

    @property
    def is_off(self) -> bool:
        """Whether the clocks differ by more than the error of the measurement."""
        return abs(self.offset_s) > self.error_s


Entry = StepTime | Pause | UsageSample | ClockOffset

_KINDS: dict[str, type[Any]] = {"step": StepTime, "span": Pause, "use": UsageSample, "clock": ClockOffset}
_NAMES = {kind: name for name, kind in _KINDS.items()}
_OPTIONAL = {"examples", "machine", "gpus_busy_pct", "gpus_memory_bytes"}


def line(entry: Entry) -> str:
    """The entry as one line of JSON with its line break; numbers are rounded to 7 decimals (0.1 microseconds)."""
    return json.dumps({"kind": _NAMES[type(entry)], **_rounded(vars(entry))}) + "\n"


def parse(text: str) -> Entry | None:
    """The entry in a line; None for a line that was cut short or holds no entry."""
    try:
        values = json.loads(text)
        found: Entry = _parse(_KINDS[values.pop("kind")], values)
        return found
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
        return None


def _rounded(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _plain(value) for name, value in values.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 7)
    if isinstance(value, HostUsage):
        return _rounded(vars(value))
    return _rounded(value) if isinstance(value, Mapping) else value


def _parse(kind: type[Any], values: Mapping[str, Any]) -> Any:
    """Raises KeyError, TypeError or ValueError for a field that is missing or does not fit."""
    names = [item.name for item in fields(kind) if item.name in values or item.name not in _OPTIONAL]
    return kind(**{name: _READERS.get(name, _number)(values[name]) for name in names})


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= MOST:
        raise ValueError(value)
    return value


def _offset(value: Any) -> float:
    return -_number(-value) if value < 0 else _number(value)


def _whole(value: Any) -> int:
    if not isinstance(value, int):
        raise ValueError(value)
    return int(_number(value))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(value)
    return value


def _numbers(value: Any) -> tuple[float, ...]:
    return tuple(_number(each) for each in value)


_READERS: Mapping[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("host", "name", "member", "counted"), _text),
    **dict.fromkeys(("rank", "step", "epoch"), _whole),
    **dict.fromkeys(("gpus_busy_pct", "gpus_memory_bytes"), _numbers),
    "offset_s": _offset,
    "allreduce_s": lambda value: None if value is None else _number(value),
    "processes": lambda value: {_text(name): _number(each) for name, each in value.items()},
    "machine": lambda value: None if value is None else _parse(HostUsage, value),
}
"""Readers of the fields that are not numbers from 0 to MOST."""
