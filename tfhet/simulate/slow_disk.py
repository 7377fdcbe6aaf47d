"""A slow disk: reads of the channels' files, by the processes of one host, that take longer while a switch is on.

A small library, slow_disk.cc, is preloaded into them; it is built once, into the user's cache.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tfhet.container.compiled import compiled

SOURCE = Path(__file__).with_name("slow_disk.cc")
FLAGS = ("-O2", "-fPIC", "-shared", "-Wall", "-D_GNU_SOURCE")
READ_MS = 50
"""What a read takes longer: a disk whose queue is full."""


@dataclass(frozen=True)
class SlowDisk:
    """The disk of one host. It is slow while the file `switch` exists."""

    library: Path
    switch: Path

    def variables(self, env: Mapping[str, str], folders: Iterable[Path]) -> dict[str, str]:
        """What the host's processes have in their environment, beside `env`, for slow reads below `folders`."""
        return {
            "LD_PRELOAD": ":".join(filter(None, (str(self.library), env.get("LD_PRELOAD", "")))),
            "TFHET_SLOW_DISK_SWITCH": str(self.switch),
            "TFHET_SLOW_DISK_FOLDERS": ":".join(str(folder.resolve()) for folder in folders),
            "TFHET_SLOW_DISK_MS": str(READ_MS),
        }

    def slow(self) -> None:
        self.switch.touch()

    def heal(self) -> None:
        self.switch.unlink(missing_ok=True)


def build(env: Mapping[str, str]) -> Path:
    """The library, made unless it is in the cache. Raises UsageError where it cannot be."""
    return compiled(SOURCE, env, "a slow disk", "leave slow-disk out", FLAGS, ".so")
