"""The peers of one benchmark run: their processes and their cases.

A peer that cannot be installed or imported, that fails, dies or returns too few images is reported as missing, with the
reason, and the run continues without it.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from benchmarks.peers import packages
from benchmarks.peers.peer import Job, Peer
from benchmarks.peers.process import MODULES, PeerProcess, peer_named
from benchmarks.stages.forms import Form
from tfhet.bench import Case
from tfhet.bench.chain import TFHET
from tfhet.clock import SYSTEM
from tfhet.errors import TfhetError
from tfhet.events import Event, Observer

INSTALL, NONE = "install", "none"
"""Values of the option `--peers` that are not names of peers."""
ALWAYS = "numpy"
"""The case of tfhet on NumPy, which needs no packages: it runs with every value of `--peers`."""
OTHER_IMAGE = "another image"


@dataclass(frozen=True)
class Entry:
    """One peer that runs one form of the chain."""

    peer: Peer
    form: Form
    case: Case

    @property
    def key(self) -> str:
        """Its part of a figure's name: `opencv.linear.uint8`; `opencv` for a chain with one form."""
        return ".".join(filter(None, (self.peer.name, self.form.key)))

    @property
    def words(self) -> str:
        """Its name in tables: `OpenCV, linear uint8`; a peer with another image says so."""
        return ", ".join(filter(None, (self.peer.words, self.form.words, self.peer.other_image and OTHER_IMAGE)))


@dataclass
class PeerCases:
    """The peers of one run."""

    observer: Observer
    entries: list[Entry] = field(default_factory=list)
    """Without the peers that have failed."""
    missing: dict[str, str] = field(default_factory=dict)
    """Reasons by peer."""
    versions: dict[str, dict[str, str]] = field(default_factory=dict)
    """Versions of modules by peer."""

    @property
    def other_images(self) -> dict[str, str]:
        """Why the image of a peer is another one than tfhet's, by the name of the peer."""
        return {entry.peer.name: entry.peer.other_image for entry in self.entries if entry.peer.other_image}

    def drop(self, name: str, error: TfhetError) -> None:
        """Reports a peer as missing."""
        self.missing[name] = str(error)
        self.entries = [entry for entry in self.entries if entry.peer.name != name]
        self.observer(Event("case.missing", SYSTEM.wall(), {"case": f"peer {name}", "reason": str(error)}))

    def attempt(self, name: str, work: Callable[[int], object], job: int) -> int:
        """Calls `work(job)` unless the peer is missing; if that fails, it is. Returns the job."""
        if name not in self.missing:
            try:
                work(job)
            except TfhetError as error:
                self.drop(name, error)
        return job


def wanted(option: str) -> tuple[str, ...]:
    """Returns the peers that `--peers` names, and ALWAYS; all for "" and `install`. Raises UsageError for an unknown
    one."""
    if option in ("", INSTALL):
        return tuple(MODULES)
    named = [] if option == NONE else [peer_named(name.strip()).name for name in option.split(",")]
    return tuple(dict.fromkeys((ALWAYS, *named)))


@contextlib.contextmanager
def started(
    names: Sequence[str],
    job: Job,
    examples: int,
    observer: Observer,
    *,
    can_install: bool = False,
    cache: Path | None = None,
) -> Iterator[PeerCases]:
    """Starts the processes of all named peers that run the job's chain, in every form. Each has completed a trial pass
    over the `examples` images. Ends the processes when the context ends. cache: see `packages.folder_of`."""
    found = PeerCases(observer)
    with contextlib.ExitStack() as stack:
        for peer in map(peer_named, names):
            if job.chain not in peer.does:
                continue
            start = functools.partial(_start, found, stack, peer, job, examples, cache)
            try:
                try:
                    start()
                except TfhetError:
                    if not (can_install and peer.requires) or packages.folder_of(peer, cache).is_dir():
                        raise
                    packages.install(peer, cache)
                    start()
            except TfhetError as error:
                found.drop(peer.name, error)
        yield found


def _start(
    found: PeerCases, stack: contextlib.ExitStack, peer: Peer, job: Job, examples: int, cache: Path | None
) -> None:
    process = PeerProcess(peer, cache)
    stack.callback(process.close)
    entries = []
    for way in peer.does[job.chain]:
        for form in (Form(way, dtype) for dtype in (("uint8", "float32") if way else ("float32",))):
            number = process.prepare(replace(job, way=way, dtype=form.dtype))
            run = functools.partial(process.run, examples=examples)
            process.begin(number)
            run(number)
            begin_or_drop = functools.partial(found.attempt, peer.name, process.begin)
            run_or_drop = functools.partial(found.attempt, peer.name, run)
            name = f"{TFHET if peer.is_tfhet else ''} {peer.name} {form.words}".strip()
            prepare = functools.partial(int, number)
            entries.append(Entry(peer, form, Case(name, run_or_drop, examples, "image", prepare, begin=begin_or_drop)))
    found.entries += entries
    found.versions[peer.name] = process.versions
