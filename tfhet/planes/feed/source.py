"""The source of a feed: a user's function, which serving hosts call by its name; and its random numbers.

    def make_loader(shard, root):            # in train.py, or in a module next to it
        files = sorted(Path(root).glob("*.tar"))[shard.index :: shard.count]
        return DataLoader(MyDataset(files), batch_size=64)

    named = FeedSource.of(make_loader, {"root": "/opt/ml/input/data/train"})
    iterable = named.make(Shard(0, 4, epoch=0, seed=1))

Readers send the function's name and arguments, not the function, so every host must have the same files. A serving
host imports the script whose function it calls, so the script must train under `if __name__ == "__main__":`, as for the
spawned processes of a PyTorch DataLoader.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import json
import random
import runpy
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any, ClassVar

import msgspec
import numpy as np
from msgspec import Meta

from tfhet.errors import UsageError
from tfhet.schema import Count
from tfhet.units import KIB

MOST_BYTES = 768 * KIB
"""Maximum length of a source as JSON."""


@dataclass(frozen=True)
class Shard:
    """The part of an epoch that one iterable returns: files or examples index, index + count, index + 2 count, ..."""

    index: Count
    count: Count
    epoch: Count = 0
    """Pass over the data."""
    seed: Annotated[int, Meta(ge=0)] = 0
    """Seed of the run."""


@dataclass(frozen=True)
class FeedSource:
    """A user's function with its arguments, as text that every process of the job understands."""

    module: str
    """Name of its module; "" for the training script."""
    file: str
    """Path of its file, the same on every host."""
    function: str
    """Name of the function at the top level of its module."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """JSON values."""
    collate: Mapping[str, str] | None = None
    """The module, file and function that make a batch from a list of examples; None: arrays are stacked."""
    batch_size: int = 0
    """Number of examples in a batch of a map-style dataset; 0: the function returns an iterable of batches."""
    shuffle: bool = False
    drop_last: bool = False
    divides_among: int = 0
    """Number of ranks that get equally many batches of all examples of a map-style dataset; 0: batches may be left
    over."""
    ordinal: int = 0
    """Index of the loader in its script; it separates two loaders of the same function."""
    argv: tuple[str, ...] = ()
    """Arguments of the script, which its module may parse at import."""

    @classmethod
    def of(cls, make: Callable[..., Any], arguments: Mapping[str, Any], **options: Any) -> FeedSource:
        """Returns the source of a function. arguments: JSON values. options: further fields; `collate` is a function.
        Raises UsageError if another process cannot find or call the function, or for long arguments."""
        collate = options.pop("collate", None)
        try:
            json.dumps(arguments, allow_nan=False)
            msgspec.json.encode(arguments)  # refuses file names that are not UTF-8
        except (TypeError, ValueError) as error:
            raise UsageError(f"the arguments of {make.__name__} must be JSON values: {error}") from None
        named: dict[str, Any] = {**_name_of(make, "the function that a feed serves"), **options}
        if collate is not None:
            named["collate"] = _name_of(collate, "collate")
        made = cls(arguments=dict(arguments), argv=tuple(sys.argv[1:]), **named)
        if (size := len(msgspec.json.encode(made))) > MOST_BYTES:
            raise UsageError(
                f"{made} has arguments of {size:,} bytes; a request has at most {MOST_BYTES:,}: write them to a file "
                "that all hosts have, and pass its name"
            )
        return made

    @functools.cached_property
    def id(self) -> str:
        """Short name, the same for equal sources; ranks may have different `argv`."""
        return digest({name: value for name, value in asdict(self).items() if name != "argv"})

    def __str__(self) -> str:
        return f"{self.module or Path(self.file).name}:{self.function}"

    def load(self) -> None:
        """Imports the function's module, with the same random numbers in every process. Raises UsageError if this host
        lacks it, and the errors of the import."""
        with Randomness(0):
            _found(self.module, self.file, self.function)

    @property
    def called(self) -> Callable[..., Any]:
        """The function; this process imports it first."""
        return _found(self.module, self.file, self.function)

    def make(self, shard: Shard) -> Any:
        return self.called(shard, **self.arguments)

    def collated(self, examples: list[Any]) -> Any:
        """Makes a batch of some examples."""
        return _found(**self.collate)(examples) if self.collate else stacked(examples)


def digest(value: Any) -> str:
    """Returns a short name of a JSON value, the same for equal values."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def _name_of(function: Callable[..., Any], what: str) -> dict[str, str]:
    name, module = getattr(function, "__qualname__", ""), getattr(function, "__module__", None) or ""
    if not name.isidentifier():
        raise UsageError(
            f"{what} must be defined at the top level of a module, so that other hosts find it by its name; "
            f"{name or type(function).__name__} is not"
        )
    file = getattr(sys.modules.get(module), "__file__", None)
    if file is None:
        raise UsageError(f"{what}, {name}, is in no file: other hosts cannot import it")
    return {"module": "" if module == "__main__" else module, "file": str(Path(file).resolve()), "function": name}


@functools.cache
def _found(module: str, file: str, function: str) -> Callable[..., Any]:
    path = Path(file)
    if not module and not path.is_file():
        raise UsageError(f"the feed finds no {file} here: all hosts of a job need the same code")
    folder = str(path.parents[module.count(".") + (path.name == "__init__.py")] if module else path.parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    # The name that scripts also have in the spawned processes of multiprocessing.
    names = vars(importlib.import_module(module)) if module else runpy.run_path(file, run_name="__mp_main__")
    found = names.get(function)
    if not callable(found):
        raise UsageError(f"{file} has no function {function} here: all hosts of a job need the same code")
    return found


def stacked(examples: list[Any]) -> Any:
    """Makes a batch of examples with one structure: stacks arrays of one shape and numbers, lists texts and bytes."""
    first = examples[0]
    if isinstance(first, Mapping):
        return {key: stacked([one[key] for one in examples]) for key in first}
    if isinstance(first, (list, tuple)):
        return tuple(stacked(list(part)) for part in zip(*examples, strict=True))
    if isinstance(first, (str, bytes)) or first is None:
        return examples
    if hasattr(first, "detach"):
        return np.stack([one.detach().cpu().numpy() for one in examples])
    return np.stack([np.asarray(one) for one in examples])


class Randomness:
    """`with randomness:` gives Python, NumPy, PyTorch and TensorFlow a sequence of random numbers, which continues in
    the next block. So any process makes the same batch again."""

    _latest: ClassVar[Randomness | None] = None
    """The sequence that the process's global random numbers still follow."""

    def __init__(self, *parts: int, leaves_trace: bool = False):
        """parts: numbers of at least 0 that determine the sequence. leaves_trace: whether the code around the blocks
        may use the sequence too; restoring its own state takes 0.2 ms for each block."""
        self._seed = _words(parts)
        self._leaves_trace = leaves_trace
        self._own: tuple[Any, ...] | None = None
        self._outer: tuple[Any, ...] = ()

    def __enter__(self) -> Randomness:
        if (latest := Randomness._latest) is self:
            return self
        if latest is not None:
            latest._own = _states()
        if not self._leaves_trace:
            self._outer = _states()
        Randomness._latest = self if self._leaves_trace else None
        if self._own is not None:
            _restore(self._own)
            return self
        self._begin()
        return self

    def restart(self, *parts: int) -> None:
        """Begins another sequence, within a block."""
        self._seed = _words(parts)
        self._begin()

    def _begin(self) -> None:
        first, second, third, fourth = (int(word) for word in self._seed)
        random.seed(first << 32 | second)
        np.random.seed(third)
        if (torch := _torch()) is not None:
            torch.manual_seed(fourth)
        if self._leaves_trace and (tensorflow := sys.modules.get("tensorflow")) is not None:
            tensorflow.random.set_seed(fourth)  # for data sets made from now on; it cannot be restored

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._leaves_trace:
            self._own = _states()
            _restore(self._outer)


def _words(parts: tuple[int, ...]) -> np.ndarray:
    return np.random.SeedSequence(parts).generate_state(4)


def _torch() -> Any | None:
    return getattr(sys.modules.get("torch"), "default_generator", None)


def _states() -> tuple[Any, ...]:
    torch = _torch()
    return random.getstate(), np.random.get_state(), None if torch is None else torch.get_state()


def _restore(states: tuple[Any, ...]) -> None:
    random.setstate(states[0])
    np.random.set_state(states[1])
    if (torch := _torch()) is not None and states[2] is not None:
        torch.set_state(states[2])
