"""The launcher's arguments that are the feed's own."""

from __future__ import annotations

from dataclasses import dataclass

from tfhet.errors import UsageError

MOST_PROCESSES = 512


@dataclass(frozen=True)
class FeedSettings:
    """Numbers of processes, and ports. Every field is an argument `--NAME VALUE`."""

    data_host_processes: int = 0
    """Number of processes on each data host that run the user's loader; 0: one for each of its CPUs."""
    dnn_host_processes: int = 0
    """The same on each dnn host, where they run when the training leaves CPUs; -1: one for each of its CPUs; 0: none.
    Without any process the ranks make their batches themselves."""
    data_plane_encryption: bool = False
    """Whether batches are encrypted on their way (TLS 1.3). Who may take part is checked in any case."""
    feed_port: int = 6000
    """Port of a host's first process; the next ones take the next ports."""

    def __post_init__(self) -> None:
        for name, least in (("data_host_processes", 0), ("dnn_host_processes", -1)):
            if not least <= getattr(self, name) <= MOST_PROCESSES:
                raise UsageError(f"--{name} must be between {least} and {MOST_PROCESSES}, not {getattr(self, name)}")
