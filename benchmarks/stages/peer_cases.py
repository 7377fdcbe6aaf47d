"""The peers of one benchmark run: which are there, their processes, and their cases."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import peers
from benchmarks.peers.job import LINEAR, REDUCED, RESIZING, Job
from benchmarks.peers.peer import Peer
from benchmarks.peers.place import INSTALL, NONE, Place
from benchmarks.peers.process import PeerProcess
from benchmarks.stages.forms import Form
from tfhet.bench import Case
from tfhet.clock import SYSTEM
from tfhet.errors import TfhetError
from tfhet.events import Event, Observer


@dataclass(frozen=True)
class Entry:
    """One peer doing one form of the chain."""

    peer: Peer
    """Who."""
    job: Job
    """What."""
    case: Case
    """How it is measured."""

    @property
    def key(self) -> str:
        """Its part of a figure's name: `opencv.linear.uint8`, `opencv.composed`."""
        return self.case.name.replace(" ", ".")

    @property
    def words(self) -> str:
        """Its name in tables: `OpenCV, linear uint8`."""
        way = f"{self.peer.words}, {self.case.name.partition(' ')[2]}"
        return way if self.same_picture else f"{way}, another picture"

    @property
    def same_picture(self) -> bool:
        """Whether it makes what tfhet makes. What does not counts in no figure of the peer and of the best one, but in
        one of its own."""
        return self.job.way != REDUCED

    @property
    def form(self) -> Form:
        """The form of tfhet's chain that it is compared with."""
        if self.job.way not in RESIZING:
            return Form()
        return Form(self.job.way if self.same_picture else LINEAR, self.job.dtype)


@dataclass
class PeerCases:
    """The peers of one run."""

    entries: list[Entry] = field(default_factory=list)
    """To be measured."""
    missing: dict[str, str] = field(default_factory=dict)
    """Peers that do the chain and are not there, each with the reason."""
    versions: dict[str, dict[str, str]] = field(default_factory=dict)
    """Versions of the packages of each peer."""


def wanted(option: str) -> tuple[str, ...]:
    """The peers that `--peers` names: all for "" and `install`. Raises UsageError for an unknown one."""
    if option == NONE:
        return ()
    if option in ("", INSTALL):
        return peers.names()
    return tuple(peers.get(name.strip()).name for name in option.split(","))


@dataclass(frozen=True)
class Task:
    """The work that all peers are given."""

    chain: str
    """The name of the chain."""
    files: tuple[str, ...]
    """As `benchmarks.peers.job.Job` has them."""
    examples: int
    """How many images that are."""
    batch_size: int
    """Images in a batch."""
    threads: int
    """How many may work at a time."""
    option: str = ""
    """As `--peers` was given."""
    cache: Path | None = None
    """Where packages of peers lie; None: the user's cache."""


@contextlib.contextmanager
def started(task: Task, observer: Observer) -> Iterator[PeerCases]:
    """Processes of all wanted peers that do the chain, each with its jobs prepared; ended on leaving.

    A peer that is not there, or cannot do its job, is told to the observer (`case.missing`) and named in `missing`.
    """
    found = PeerCases()
    with contextlib.ExitStack() as stack:
        for name in wanted(task.option):
            peer = peers.get(name)
            if task.chain not in peer.does:
                continue
            try:
                process = _process(peer, task)
                stack.callback(process.close)
                found.entries += _entries(peer, task, process)
                found.versions[name] = process.versions
            except TfhetError as error:
                found.missing[name] = str(error)
                observer(Event("case.missing", SYSTEM.wall(), {"case": f"peer {name}", "reason": str(error)}))
        yield found


def _process(peer: Peer, task: Task) -> PeerProcess:
    place = Place.of(peer, task.cache)
    why = place.missing()
    if why is not None and task.option == INSTALL:
        place.install()
        why = place.missing()
    if why is not None:
        raise TfhetError(why)
    return PeerProcess(place)


def _entries(peer: Peer, task: Task, process: PeerProcess) -> list[Entry]:
    entries = []
    for way in peer.does[task.chain]:
        for dtype in peer.dtypes if way in RESIZING else ("float32",):
            job = Job(task.chain, way, dtype, task.files, task.batch_size, task.threads)
            entries.append(Entry(peer, job, _case(peer, job, process, process.prepare(job), task.examples)))
    return entries


def _case(peer: Peer, job: Job, process: PeerProcess, number: int, examples: int) -> Case:
    name = f"{peer.name} {job.way} {job.dtype}" if job.way in RESIZING else f"{peer.name} {job.way}"

    def run(job: int) -> None:
        made = process.run(job)
        if made != examples:
            raise TfhetError(f"bench case {name!r} gave {made} images instead of {examples}: its time means nothing")

    return Case(name, run, examples, "image", lambda: number, begin=process.begin)


def cache_of(given: Path | None) -> Path | None:
    """The folder for peers in the cache that was given, as sources use it; None for the user's."""
    return None if given is None else given / "tfhet"
