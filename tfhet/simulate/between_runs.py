"""Faults that come between two runs: what an earlier job left on a host, and a checkpoint that loses a part."""

from __future__ import annotations

import os
import random
from pathlib import Path

from tfhet.clock import SYSTEM
from tfhet.cluster import HostPaths
from tfhet.record import RunFolder, RunSummary

CAUSE = "an earlier job failed"
_AGO_S = 3600.0
_DAMAGES = ("cut to half", "zeroed", "removed")


def leave_earlier_job(paths: HostPaths, checkpoints: Path | None) -> None:
    """Leaves in the base directory of a host what a job that failed an hour ago would have: its record, its failure
    file, and a checkpoint that it had not finished. checkpoints: where the host has them, if not in that directory."""
    began_s = SYSTEM.wall() - _AGO_S
    RunFolder(paths.output_data / "tfhet").create().write_summary(
        RunSummary(job_id="earlier-0", started=began_s, exit_code=1, cause=CAUSE)
    )
    paths.failure.write_text(f"{CAUSE}\n", encoding="utf-8")
    os.utime(paths.failure, (began_s, began_s))
    half = (checkpoints or paths.checkpoints) / ".checkpoint-0001-0000000020.1"
    half.mkdir(parents=True, exist_ok=True)
    (half / "state.index").write_bytes(b"half of it")


def damage_newest(checkpoints: Path, draw: random.Random) -> str:
    """Cuts, zeroes or removes a file of the newest checkpoint in a directory. Returns what it did; "" without one."""
    newest = max(checkpoints.glob("checkpoint-*"), default=checkpoints / "none")
    files = sorted(path for path in newest.rglob("*") if path.is_file() and any(path.read_bytes()))
    if not files:
        return ""
    path, damage = draw.choice(files), draw.choice(_DAMAGES)
    content = path.read_bytes()
    if damage == "removed":
        path.unlink()
    else:
        path.write_bytes(content[: len(content) // 2] if damage == _DAMAGES[0] else bytes(len(content)))
    return f"{path.relative_to(checkpoints)} {damage}"
