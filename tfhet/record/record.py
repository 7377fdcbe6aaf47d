"""The record of a benchmark: a flat table of figures, with the machine, the versions and the details."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tfhet import clock as clocks
from tfhet.errors import DataError
from tfhet.record.figure import Figure
from tfhet.record.json_file import json_value, read_json, write_text
from tfhet.schema import check_schema, from_json
from tfhet.versions import versions

SCHEMA = 1
KIND = "benchmark record"
DIGITS = 5
"""Significant digits of the floats in a file."""
ITEMIZED = ("figures", "details")
"""Fields of which each item has a line of its own."""
CPU_FEATURES = ("avx", "avx2", "fma", "avx512f", "avx512_vnni", "avx512_bf16", "amx_tile", "asimd", "sve")


@dataclass(frozen=True)
class Record:
    """The figures of one benchmark, the machine that measured them, and the command that measures them again."""

    name: str
    """Suite and selection: `stages.aws-cifar`."""
    figures: Mapping[str, Figure] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)
    """All other results, raw samples included, as JSON values."""
    command: tuple[str, ...] = ()
    machine: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    """`record.versions()`: version by package."""
    code: Mapping[str, Any] = field(default_factory=dict)
    """The code that was measured (`tfhet.bench.code`)."""
    conditions: Mapping[str, Any] = field(default_factory=dict)
    """Load of the machine, stolen time and settings of memory during the run (`tfhet.bench.Conditions`)."""
    created: str = ""
    """Time at which the record was made: UTC, ISO 8601."""

    @classmethod
    def of(
        cls,
        name: str,
        figures: Mapping[str, Figure],
        *,
        details: Mapping[str, Any] | None = None,
        command: Sequence[str] = (),
        clock: clocks.Clock = clocks.SYSTEM,
    ) -> Record:
        created = datetime.fromtimestamp(clock.wall(), UTC).isoformat(timespec="seconds")
        facts = dict(figures), dict(details or {}), tuple(command), machine(), versions()
        return cls(name, *facts, created=created)

    def to_json(self) -> dict[str, Any]:
        names = ("name", "created", "machine", "versions", "code", "conditions", "command", "figures", "details")
        return {"schema": SCHEMA, **{name: json_value(getattr(self, name)) for name in names}}

    @classmethod
    def from_json(cls, content: Mapping[str, Any], where: str = "") -> Record:
        """The inverse of `to_json`. where: path for error messages. Raises UsageError for another schema version, and
        DataError for a field that is missing or of the wrong type."""
        check_schema(content, KIND, SCHEMA, where)
        if content.get("figures") is None:
            raise DataError(f"{KIND} {where}: `figures` is missing", where or None)
        return from_json(cls, content, f"{KIND} {where}".rstrip())

    def write(self, path: Path | str) -> Path:
        """Writes the record as JSON, whole or not at all, and makes the folder. Floats are rounded to 5 significant
        digits; each figure and each detail is one line."""
        return write_text(Path(path), _compact_json(_rounded(self.to_json())))

    @classmethod
    def read(cls, path: Path | str) -> Record:
        """Reads what `write` wrote. Raises UsageError (no file, other schema) or DataError (not a record)."""
        return cls.from_json(read_json(Path(path), KIND), str(path))


def _rounded(value: Any) -> Any:
    match value:
        case float():
            return float(f"{value:.{DIGITS}g}")
        case dict():
            return {key: _rounded(item) for key, item in value.items()}
        case list():
            return [_rounded(item) for item in value]
    return value


def _compact_json(content: Mapping[str, Any]) -> str:
    """The JSON text of `content`: one line for each field, and for each item of a field of `ITEMIZED`."""
    text = functools.partial(json.dumps, ensure_ascii=False, allow_nan=False)
    lines = []
    for name, value in content.items():
        items = ",\n".join(f"  {text(key)}: {text(item)}" for key, item in value.items()) if name in ITEMIZED else ""
        lines.append(f" {text(name)}: " + (f"{{\n{items}\n }}" if items else text(value)))
    return "{\n" + ",\n".join(lines) + "\n}\n"


SHM = Path("/dev/shm")


def machine(proc: Path = Path("/proc")) -> dict[str, Any]:
    """The machine as JSON values: cpu, cpu_features (those between which kernels choose), cores
    (logical), cores_usable, memory_bytes, shm_bytes (size of /dev/shm), gpus, kernel, system, python."""
    import psutil

    flags = next((value.split() for key, value in _facts(proc / "cpuinfo") if key in ("flags", "Features")), [])
    names = (value for key, value in _facts(proc / "cpuinfo") if key in ("model name", "Model", "Hardware") and value)
    gpus = (_facts(path) for path in sorted(proc.glob("driver/nvidia/gpus/*/information")))
    return {
        "cpu": next(names, platform.processor() or platform.machine()),
        "cpu_features": [flag for flag in CPU_FEATURES if flag in flags],
        "cores": os.cpu_count() or 1,
        "cores_usable": usable_cores(),
        "memory_bytes": int(psutil.virtual_memory().total),
        "shm_bytes": int(psutil.disk_usage(str(SHM)).total) if SHM.is_dir() else None,
        "gpus": [value for facts in gpus for key, value in facts if key == "Model"],
        "kernel": platform.release(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }


def usable_cores() -> int:
    """Number of logical processors that this process may run on, at least 1."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _facts(path: Path) -> Iterator[tuple[str, str]]:
    """Names and values of the lines `name : value` of a file; none where it cannot be read."""
    with contextlib.suppress(OSError):
        for line in path.read_text(errors="replace").splitlines():
            key, _, value = line.partition(":")
            yield key.strip(), value.strip()
