"""The course of a trial: the training loop of the script reads from several loaders in turn, and its steps are timed.

The loop sees one loader whose passes have the usual number of batches. Behind it the loader changes: each of the
variants in turn, in two rounds. After the last one the process ends, because its training is of no use.
"""

from __future__ import annotations

import atexit
import functools
import json
import multiprocessing
import os
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tfhet.watching.inside.recorder import Recorder, examples_in, now, rank_of_process
from tfhet.watching.inside.trial.datasets import Forms
from tfhet.watching.inside.trial.places import note_places, place_of
from tfhet.watching.inside.trial.variants import Proposals, Variant, proposals

VARIABLE = "TFHET_TRY"
"""Variable with the seconds of a trial."""
RESULT = "try.json"
ROUNDS = 2
SEEN_STEPS = 3
"""Number of optimizer steps in a pass over a loader after which it is the training loader."""
LEAST_STEPS = 10
"""Number of measured steps without which a slice lasts longer, up to LONGEST times its time."""
LONGEST = 3.0
"""Also the whole trial, in which workers start."""
FIRST_BATCH_S = 60.0
"""Seconds for the first batch of the last loader after the time of the trial."""
KEEPS_UP = 0.03
"""Share of the steps below which waiting for data leaves nothing to gain."""
NO_LOADER = (
    "no DataLoader of PyTorch trained a model, so there is nothing to compare; tfhet watch also sees other readers"
)
ENDED = "the script ended before the comparison did: use more epochs, more data or fewer --seconds"


@dataclass
class Slice:
    """The measured steps of one variant in one round."""

    variant: int
    steps: int = 0
    examples: int = 0
    total_s: float = 0.0
    wait_s: float = 0.0


@dataclass
class Trial:
    """The trial of this process. It begins when a loader has turned out to be the training loader."""

    seconds: float
    iterate: Callable[[Any], Iterator[Any]]
    """`DataLoader.__iter__`."""
    loader: Any = None
    found: Proposals | None = None
    slices: list[Slice] = field(default_factory=list)
    _made: Any = None
    """The loader of the current slice, and its pass."""
    _batches: Iterator[Any] | None = None
    _begun_s: float = 0.0
    """Time of the first batch of the slice; 0 before it."""
    _until_s: float = 0.0
    _skip: int = 0
    """Number of steps that are not measured because the loader has just begun."""
    _is_new: bool = True
    """Whether the pass has delivered no batch."""
    _forms: Forms = field(default_factory=Forms)

    def begin(self, loader: Any) -> None:
        """Makes the variants and starts the first one."""
        place = rank_of_process()
        if place["size"] > 1:
            words = f"the script runs as {place['size']} ranks, and tfhet try measures one: start it without torchrun,"
            self.end(f"{words} mpirun or accelerate launch")
        print("tfhet try: compares loaders while the script trains", file=sys.stderr, flush=True)
        self.loader, self.found = loader, proposals(loader)
        limit_s = LONGEST * self.seconds
        self._until_s = now() + limit_s
        timer = threading.Timer(limit_s + FIRST_BATCH_S, self._give_up)
        timer.daemon = True
        timer.start()
        self._start(0)

    def is_compared(self, loader: Any) -> bool:
        """Whether a loader is the one that is compared, also if the script makes it again for each pass."""
        if self.loader is None or loader is self.loader:
            return loader is self.loader
        place = place_of(loader)
        return place is not None and place == place_of(self.loader)

    def batch(self) -> Any:
        """Returns the next batch of the current variant. A variant that fails is dropped."""
        while True:
            try:
                if self._batches is None:
                    self._restart()
                batch = next(self._batches)  # type: ignore[arg-type]
            except StopIteration:
                self._batches = None
                if self._is_new:
                    self._drop("it has no batches")
                continue
            except Exception as error:
                if not self._slice.variant:
                    raise
                self._drop(f"{type(error).__name__}: {error}")
                continue
            self._is_new, reason = False, self._forms.difference(batch, is_own=not self._slice.variant)
            if reason:
                self._drop(reason)
                continue
            self._begun_s = self._begun_s or now()
            return batch

    def count(self, taken_s: float, wait_s: float, examples: int) -> None:
        """Counts a step of the training loop, and goes on to the next variant when it is due."""
        at = self._slice
        if self._skip:
            self._skip -= 1
        else:
            at.steps, at.examples = at.steps + 1, at.examples + examples
            at.total_s, at.wait_s = at.total_s + taken_s, at.wait_s + wait_s
        spent_s, slice_s = now() - self._begun_s, self.seconds / ROUNDS / len(self._variants)
        if spent_s < slice_s or (at.steps < LEAST_STEPS and spent_s < LONGEST * slice_s):
            return
        if len(self.slices) == 1 and at.steps >= LEAST_STEPS and at.wait_s < KEEPS_UP * at.total_s:
            self.end()  # no other loader can be faster
        self._next()

    def skip(self, length: int) -> None:
        """Omits the first steps of a pass of `length` batches: workers begin, or have made batches in the meantime."""
        self._skip = min(2 * self._variants[self._slice.variant].workers + 2, max(1, length // 4))

    def end(self, error: str = "") -> None:
        """Writes the result and ends the process."""
        self.write(error)
        self._made = self._batches = None
        for child in multiprocessing.active_children():
            child.terminate()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)

    def write(self, error: str = "") -> None:
        """Writes what was measured."""
        found = self.found
        content: dict[str, Any] = {"error": error, "slices": [vars(each) for each in self.slices]}
        if found is not None:
            content |= {"facts": found.facts, "remarks": found.remarks, "comparison": found.comparison}
            names = ("name", "workers", "changes", "why_not")
            content["variants"] = [{name: getattr(each, name) for name in names} for each in found.variants]
        path = os.path.join(Recorder.folder, RESULT)
        with open(f"{path}.part", "w", encoding="utf-8") as file:
            json.dump(content, file, default=str)
        os.replace(f"{path}.part", path)

    @property
    def _variants(self) -> list[Variant]:
        assert self.found is not None
        return self.found.variants

    @property
    def _slice(self) -> Slice:
        return self.slices[-1]

    def _start(self, variant: int) -> None:
        self.slices.append(Slice(variant))
        self._made, self._batches, self._begun_s = None, None, 0.0
        count = ROUNDS * len(self._variants)
        words = f"tfhet try: {len(self.slices)} of {count}: {self._variants[variant].name}"
        print(words, file=sys.stderr, flush=True)

    def _restart(self) -> None:
        if self._made is None:
            self._made = self._variants[self._slice.variant].make()
        is_torch = isinstance(self._made, sys.modules["torch.utils.data"].DataLoader)  # its `__iter__` is replaced
        self._batches = self.iterate(self._made) if is_torch else iter(self._made)
        self._is_new = True
        self.skip(length_of(self.loader))

    def _next(self) -> None:
        if now() > self._until_s:
            self.end(f"the loaders were not all measured in {LONGEST * self.seconds:g} s: raise --seconds")
        for at in range(len(self.slices), ROUNDS * len(self._variants)):
            variant = at % len(self._variants)
            if not self._variants[variant].why_not:
                self._start(variant)
                return
            self.slices.append(Slice(variant))
        self.end()

    def _give_up(self) -> None:
        name = self._variants[self._slice.variant].name
        self.end(f"no batch came from the loader {name!r} in time: workers may hang, or need longer --seconds")

    def _drop(self, reason: str) -> None:
        self._variants[self._slice.variant].why_not = reason
        self._next()


class TrialIterator:
    """A pass of the script over a loader; of the training loader, with as many batches as usual."""

    def __init__(self, trial: Trial, loader: Any, batches: Iterator[Any] | None) -> None:
        self._trial, self._loader, self._batches = trial, loader, batches
        self._requested_s = self._delivered_s = 0.0
        self._examples = self._count = self._steps = 0
        self._length = length_of(loader)
        if batches is None:
            trial.skip(self._length)

    def __iter__(self) -> TrialIterator:
        return self

    def __len__(self) -> int:
        return len(self._loader)

    def __next__(self) -> Any:
        trial, requested_s = self._trial, now()
        if self._batches is not None and trial.loader is None and self._has_trained():
            self._batches = None
            trial.begin(self._loader)
            requested_s = now()
        elif self._batches is None and self._delivered_s:
            trial.count(requested_s - self._requested_s, self._delivered_s - self._requested_s, self._examples)
        if self._batches is not None:
            batch = next(self._batches)
            self._count += 1
            return batch
        if self._count >= self._length:
            self._delivered_s = 0.0
            raise StopIteration
        batch = trial.batch()
        self._count, self._examples = self._count + 1, examples_in(batch)
        self._requested_s, self._delivered_s = requested_s, now()
        return batch

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or self.__dict__.get("_batches") is None:
            raise AttributeError(name)
        return getattr(self._batches, name)

    def _has_trained(self) -> bool:
        """Whether an optimizer has stepped after batches of this pass."""
        recorder = Recorder.here()
        steps = recorder.optimizer_steps if recorder is not None else 0
        self._steps = self._steps or steps
        return steps >= self._steps + SEEN_STEPS


def length_of(loader: Any) -> int:
    """Number of batches of a pass."""
    try:
        return len(loader)
    except TypeError:  # an iterable dataset
        return sys.maxsize


def on_loader(module: Any) -> None:
    """Lets the training loader of the script take part in a trial."""
    kind = module.DataLoader
    iterate = kind.__iter__
    trial = Trial(float(os.environ[VARIABLE]), iterate)
    note_places(kind)

    @functools.wraps(iterate)
    def __iter__(self: Any) -> Any:
        if Recorder.here() is None:  # a process that prepares data for another one
            return iterate(self)
        if trial.is_compared(self):
            return TrialIterator(trial, self, None)
        return TrialIterator(trial, self, iterate(self))

    def write() -> None:
        if multiprocessing.parent_process() is None and not os.path.exists(os.path.join(Recorder.folder, RESULT)):
            trial.write(NO_LOADER if trial.found is None else ENDED)

    kind.__iter__ = __iter__
    atexit.register(write)
