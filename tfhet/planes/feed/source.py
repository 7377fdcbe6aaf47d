"""The source of a feed: a function of the user's, called on the hosts that serve, by its name.

    def make_loader(shard, root):            # in train.py, or in a module beside it
        files = sorted(Path(root).glob("*.tar"))[shard.index :: shard.count]
        return DataLoader(MyDataset(files), batch_size=64)

    named = FeedSource.of(make_loader, {"root": "/opt/ml/input/data/train"})
    iterable = named.make(Shard(0, 4, epoch=0, seed=1))

Readers send the function's name and arguments, not the function: no code travels, and every host has to have the same
files. A script of which the feed uses a function is imported there, so its training stands under
`if __name__ == "__main__":`, as for the processes of a PyTorch DataLoader that are spawned.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import json
import runpy
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta

from tfhet.errors import UsageError
from tfhet.schema import Count


@dataclass(frozen=True)
class Shard:
    """The part of an epoch that one iterable is to give: of the files or examples, those with the numbers index,
    index + count, index + 2 count, ..."""

    index: Count
    count: Count
    epoch: Count = 0
    """Pass over the data."""
    seed: Annotated[int, Meta(ge=0)] = 0
    """Seed of the run."""


@dataclass(frozen=True)
class FeedSource:
    """A function of the user's with its arguments, as text that any process of the job understands."""

    module: str
    """Name of its module; "" for the training script."""
    file: str
    """Path of its file, the same on every host."""
    function: str
    """Name of the function at the top level of its module."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """JSON values."""
    collate: Mapping[str, str] | None = None
    """The module, file and function that make a batch of a list of examples; None: arrays are stacked."""
    batch_size: int = 0
    """Examples of a batch that the feed makes of a map-style dataset; 0: the function returns an iterable of
    batches."""
    shuffle: bool = False
    drop_last: bool = False
    ordinal: int = 0
    """Number of the loader in its script: two of the same function are read apart."""

    @classmethod
    def of(cls, make: Callable[..., Any], arguments: Mapping[str, Any], **options: Any) -> FeedSource:
        """The source of a function. Raises UsageError for one that another process cannot find or call."""
        collate = options.pop("collate", None)
        try:
            json.dumps(arguments, allow_nan=False)
            msgspec.json.encode(arguments)  # which has no file names but UTF-8
        except (TypeError, ValueError) as error:
            raise UsageError(
                f"the arguments of {make.__name__} go to other hosts as JSON, and cannot: {error}"
            ) from None
        named: dict[str, Any] = {**_name_of(make, "the function that a feed serves"), **options}
        if collate is not None:
            named["collate"] = _name_of(collate, "collate")
        return cls(arguments=dict(arguments), **named)

    @functools.cached_property
    def id(self) -> str:
        """Short name, equal for equal sources."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:16]

    def __str__(self) -> str:
        return f"{self.module or Path(self.file).name}:{self.function}"

    def load(self) -> None:
        """Imports the function's module. Raises UsageError where it is not here, and what the module raises."""
        _found(self.module, self.file, self.function)

    @property
    def called(self) -> Callable[..., Any]:
        """The function, which this process imports first."""
        return _found(self.module, self.file, self.function)

    def make(self, shard: Shard) -> Any:
        """Calls the function."""
        return self.called(shard, **self.arguments)

    def collated(self, examples: list[Any]) -> Any:
        """One batch of some examples."""
        return _found(**self.collate)(examples) if self.collate else stacked(examples)


def _name_of(function: Callable[..., Any], what: str) -> dict[str, str]:
    name, module = getattr(function, "__qualname__", ""), getattr(function, "__module__", None) or ""
    if not name.isidentifier():
        raise UsageError(
            f"{what} must be defined at the top level of a module, so that other hosts find it by its name; "
            f"{name or type(function).__name__} is not"
        )
    file = getattr(sys.modules.get(module), "__file__", None)
    if file is None:
        raise UsageError(f"{what}, {name}, is of no file: other hosts cannot import it")
    return {"module": "" if module == "__main__" else module, "file": str(Path(file).resolve()), "function": name}


@functools.cache
def _found(module: str, file: str, function: str) -> Callable[..., Any]:
    path = Path(file)
    if not module and not path.is_file():
        raise UsageError(f"the feed finds no {file} here: all hosts of a job need the same code")
    folder = str(path.parents[module.count(".") + (path.name == "__init__.py")] if module else path.parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    # The name by which a script knows that it is not run; multiprocessing's spawned processes have it, too.
    names = vars(importlib.import_module(module)) if module else runpy.run_path(file, run_name="__mp_main__")
    found = names.get(function)
    if not callable(found):
        raise UsageError(f"{file} has no function {function} here: all hosts of a job need the same code")
    return found


def stacked(examples: list[Any]) -> Any:
    """A batch of some examples of one structure: arrays of one shape stacked, numbers as an array, texts and bytes as a
    list."""
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
