"""One thing on the timeline of a run, and its line of JSON: a step, a pause, what was used, how a clock differs.

Every line says `kind`, `host`, when it began (`at_s`, seconds since 1970) and how long it took (`dur_s`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

MOST = 1e15
"""No number of an entry is beyond it, so that it can be counted in microseconds."""


@dataclass(frozen=True)
class Step:
    """One training step of one rank."""

    host: str
    at_s: float
    dur_s: float
    rank: int
    step: int
    """Steps taken, this one included."""
    epoch: int
    wait_s: float
    """Part of `dur_s` spent waiting for data."""
    copy_s: float
    """Part of it spent bringing batches to the device, in the type that the model takes."""
    allreduce_s: float | None
    """Part of it from when the rank's gradients were there to when those of all were; None: not told apart."""

    @property
    def compute_s(self) -> float:
        """The rest of it."""
        return max(0.0, self.dur_s - self.wait_s - self.copy_s - (self.allreduce_s or 0.0))


@dataclass(frozen=True)
class Span:
    """Something else that a rank spent time on, between steps."""

    host: str
    at_s: float
    dur_s: float
    rank: int
    name: str
    """`checkpoint` or `validation`."""


@dataclass(frozen=True)
class HostUse:
    """What was used of a host, by whomever."""

    cpus: float
    """CPU seconds per second."""
    of_cpus: float
    """How many CPUs there are to use."""
    counted: str
    """What counts as the host: `machine`, or the `cgroup` of a container."""
    memory_bytes: float
    """In use at the end."""
    received_bytes_per_s: float
    """Through all network interfaces but the loopback."""
    sent_bytes_per_s: float
    gpus_busy_pct: tuple[float, ...] = ()
    """Of each GPU the share of the last moments in which anything ran on it, 0 to 100; () where nobody tells."""
    gpus_memory_bytes: tuple[float, ...] = ()


@dataclass(frozen=True)
class Use:
    """What a launcher saw being used for a while, a second or so."""

    host: str
    at_s: float
    dur_s: float
    member: str
    """The launcher, by its name on the link: the host's, or `rank-N`."""
    processes: Mapping[str, float]
    """CPU seconds per second, by process: `launcher`, `rank-N`, and those of the data plane by its names."""
    machine: HostUse | None = None
    """Of all of the host, by the launcher that leads it."""


@dataclass(frozen=True)
class ClockOffset:
    """How a host's clock differs from the chief's."""

    host: str
    at_s: float
    dur_s: float
    offset_s: float
    """To be added to what the host says."""
    error_s: float
    """The truth lies within so much of it."""

    @property
    def is_off(self) -> bool:
        """Whether the clocks differ by more than could be an error."""
        return abs(self.offset_s) > self.error_s


Entry = Step | Span | Use | ClockOffset

_KINDS: dict[str, type[Any]] = {"step": Step, "span": Span, "use": Use, "clock": ClockOffset}
_NAMES = {kind: name for name, kind in _KINDS.items()}


def line(entry: Entry) -> str:
    """The entry as a line of JSON, with its end; seconds to the tenth of a microsecond."""
    return json.dumps({"kind": _NAMES[type(entry)], **_rounded(vars(entry))}) + "\n"


def parse(text: str) -> Entry | None:
    """What a line holds; None for one that was cut short, or is none of ours."""
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
    if isinstance(value, HostUse):
        return _rounded(vars(value))
    return _rounded(value) if isinstance(value, Mapping) else value


def _parse(kind: type[Any], values: Mapping[str, Any]) -> Any:
    """Raises KeyError, TypeError and ValueError for what is missing or does not fit."""
    there = [item.name for item in fields(kind) if item.name in values]
    return kind(**{name: _SOUND.get(name, _number)(values[name]) for name in there})


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


_SOUND: Mapping[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("host", "name", "member", "counted"), _text),
    **dict.fromkeys(("rank", "step", "epoch"), _whole),
    **dict.fromkeys(("gpus_busy_pct", "gpus_memory_bytes"), _numbers),
    "offset_s": _offset,
    "allreduce_s": lambda value: None if value is None else _number(value),
    "processes": lambda value: {_text(name): _number(each) for name, each in value.items()},
    "machine": lambda value: None if value is None else _parse(HostUse, value),
}
"""How a field is read that is no number from 0 to MOST."""
