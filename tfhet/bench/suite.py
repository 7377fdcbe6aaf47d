"""A benchmark suite: its name, its options, and a run that makes a record."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from tfhet import errors
from tfhet.events import Observer
from tfhet.record import Record

T = TypeVar("T")


@dataclass(frozen=True)
class Suite:
    """One suite. Importing its module loads neither TensorFlow nor anything else that is slow."""

    name: str
    """The word on the command line."""
    does: str
    """One line for the help."""
    options: Callable[[argparse.ArgumentParser], None]
    """Adds the suite's own options; `--json`, `--repeats` and `--warmup` are every suite's."""
    run: Callable[[argparse.Namespace, Observer, Sequence[str]], Record]
    """Measures: (options, observer, command line) -> record. Raises UsageError for options that do not fit."""
    draw: Callable[[Record, Path], Path] | None = None
    """Writes a picture of the record to a file -> the file; with it the suite has the option `--plot`."""
    notes: Callable[[Record], Sequence[str]] | None = None
    """Lines below the printed table, such as what could not be measured."""
    is_kept: Callable[[Record], bool] | None = None
    """Whether the promise that the suite tests is kept; the command fails otherwise. None: it only measures."""


def chosen(option: str, names: str, known: Mapping[str, T]) -> list[T]:
    """The values that an option such as `--flows example,tfhet` names, in its order, each once. Raises UsageError for
    an unknown name, and for none."""
    words = [word.strip() for word in names.split(",") if word.strip()]
    for word in words or [names]:
        if word not in known:
            errors.unknown(option, word, known)
    return [known[word] for word in dict.fromkeys(words)]
