"""`tfhet.watch` inside of a script or a notebook: the same record and verdict as of the command."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar, overload

from tfhet.clock import SYSTEM
from tfhet.events import Event
from tfhet.record import RunFolder
from tfhet.watching import merge
from tfhet.watching.command import PERIOD_S, new_folder
from tfhet.watching.inside import hooks, readers
from tfhet.watching.inside.recorder import Recorder
from tfhet.watching.live import LiveTotals
from tfhet.watching.usage import TreeUsage
from tfhet.watching.verdict import verdict

T = TypeVar("T")


class Watch:
    """Records the readers of this process until `close`. Use `watch()` to get one.

    Attributes:
        folder: Folder of the run record, for `tfhet report`. None under `tfhet watch`, which writes the record.
    """

    def __init__(self, out: Path | None, name: str):
        self.folder: RunFolder | None = None
        self._name, self._began_s = name, SYSTEM.wall()
        self._usage: TreeUsage | None = None
        self._live: LiveTotals | None = None
        self._closes = threading.Event()
        if Recorder.folder:
            self._notes = Path(Recorder.folder)
            return
        self.folder = RunFolder(new_folder(out, name)).create()
        self._notes = Path(tempfile.mkdtemp(prefix="notes-", dir=self.folder.path))
        self._usage = TreeUsage(self._notes)
        self._usage.follow(os.getpid())
        self._live = LiveTotals(self.folder, self._notes)
        self.folder.write_event(Event("watch.started", self._began_s, {"command": list(sys.orig_argv)}))
        hooks.install(str(self._notes.resolve()))
        threading.Thread(target=self._sample, name="tfhet-usage", daemon=True).start()
        atexit.register(self._at_exit)

    def verdict(self) -> str:
        """Returns whether the script has waited for its input so far, the evidence, and what to do."""
        return self._write(self.folder) if self.folder else "the verdict follows at the end of `tfhet watch`"

    def close(self) -> None:
        """Ends the recording and writes the record of a run that succeeded. Safe to call again."""
        self._close(0)

    def _close(self, exit_code: int | None) -> None:
        """exit_code: 0 or 1 for the training; None if it is not known."""
        if self._closes.is_set() or self.folder is None:
            return
        self._closes.set()
        self._write(self.folder, exit_code)
        self.folder.write_event(Event("watch.ended", SYSTEM.wall(), {}))
        Recorder.folder = ""
        Recorder.forget()
        if self._live is not None:
            self._live.remove()
        shutil.rmtree(self._notes, ignore_errors=True)

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._close(0 if kind is None else 1)

    def _write(self, folder: RunFolder, exit_code: int | None = None) -> str:
        if self._notes.is_dir() and Recorder.folder:
            recorder = Recorder.here()
            if recorder is not None:
                recorder.write()
            now_s = SYSTEM.wall()
            facts = self._usage.facts() if self._usage else {}
            more: dict[str, Any] = {"name": self._name, "started": self._began_s, "duration_s": now_s - self._began_s}
            more["exit_code"] = exit_code
            merge.write(folder, self._notes, self._usage.samples if self._usage else (), watched=facts, **more)
        return verdict(folder)

    def _sample(self) -> None:
        while self._usage is not None and not self._closes.wait(PERIOD_S):
            self._usage.sample()
            if self._live is not None:
                self._live.write()

    def _at_exit(self) -> None:
        """Writes the record of a script that did not close, and prints the verdict."""
        if not self._closes.is_set():
            self._close(1 if hasattr(sys, "last_value") else None)
            if self.folder is not None:
                print(f"\n{verdict(self.folder)}\nrecord: {self.folder.path}", file=sys.stderr, flush=True)


@overload
def watch(iterable: Iterable[T], *, training: bool = True) -> Iterable[T]: ...


@overload
def watch(iterable: None = None, *, out: Path | str | None = None, name: str = "watch") -> Watch: ...


def watch(
    iterable: Iterable[Any] | None = None, *, training: bool = True, out: Path | str | None = None, name: str = "watch"
) -> Any:
    """Marks an iterable, or begins to watch this process.

    Args:
        iterable: Any iterable of batches that `tfhet watch` does not know, like a generator. The result has the same
            elements. Its passes are recorded if this process is watched.
        training: Whether the batches of `iterable` are for training, not for validation.
        out: New or empty folder of the run record; by default `runs/NAME-TIME`.
        name: Name of the run.

    Returns:
        The marked iterable; without an iterable, the `Watch`.

    Raises:
        UsageError: `out` exists and is not an empty folder.
    """
    if iterable is not None:
        return readers.marked(iterable, training)
    return Watch(Path(out) if out is not None else None, name)
