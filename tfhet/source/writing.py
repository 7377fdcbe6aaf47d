"""Writes sharded TFRecord files and their `tfhet.json` into a directory that appears only when all are complete."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tfhet import extras
from tfhet.cluster import code_dir
from tfhet.errors import DataError, UsageError, some
from tfhet.record import json_value
from tfhet.schema import Count, check_schema, from_json
from tfhet.source import encoding, object_store
from tfhet.source.feature import Feature, from_json as feature_of

if TYPE_CHECKING:
    import tensorflow as tf
else:  # only remote paths need it
    tf = extras.deferred("tensorflow")

SCHEMA = 1
_WRONG = (ArithmeticError, AttributeError, DataError, LookupError, RecursionError, TypeError, ValueError)
"""Errors that the values of an invalid description raise."""


@dataclass(frozen=True)
class Sidecar:
    """Description of a directory of TFRecord files."""

    features: Mapping[str, Feature]
    """Features by their name in the Example."""
    files: Mapping[str, Count]
    """Number of examples by file name."""
    classes: tuple[str, ...] = ()
    """The name of each label, when labels are classes."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """Origin of the data: seed, shards, origin. JSON values."""

    NAME: ClassVar[str] = "tfhet.json"

    @classmethod
    def read(cls, directory: str | os.PathLike[str]) -> Sidecar | None:
        """Returns a directory's description, or None when it has none. Raises UsageError for one that is not valid."""
        path = os.path.join(os.fspath(directory), cls.NAME)
        if (content := _content(path)) is None:
            return None
        try:
            document = json.loads(content)
            check_schema(document, "it", SCHEMA)
            found = from_json(cls, {**document, "features": {}}, "it", is_strict=True)
            return replace(found, features={name: feature_of(each) for name, each in document["features"].items()})
        except _WRONG as error:
            what = f"cannot understand {path}: {repr(error)[:300]}"
            raise UsageError(f"{what}; give the features yourself, or convert again") from None

    @classmethod
    def classes_of(cls, directory: str | os.PathLike[str]) -> tuple[str, ...]:
        """Returns the classes that a directory names; empty when it names none."""
        sidecar = cls.read(directory)
        return () if sidecar is None else sidecar.classes

    def write(self, directory: str | os.PathLike[str]) -> None:
        features = {name: feature.as_json() for name, feature in self.features.items()}
        document = json_value({"schema": SCHEMA, **vars(self), "features": features})
        with open(os.path.join(os.fspath(directory), self.NAME), "w", encoding="utf-8") as stream:
            json.dump(document, stream, indent=1)
            stream.write("\n")


def _content(path: str) -> bytes | None:
    """Returns the content of a file, or None if it does not exist. Raises UsageError if it cannot be read."""
    if object_store.is_url(path):
        return object_store.read([path])[0] if object_store.exists(path) else None
    if "://" not in path:
        try:
            return Path(path).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise UsageError(f"cannot read {path}: {error.strerror}") from None
    try:
        if not tf.io.gfile.exists(path):
            return None
        with tf.io.gfile.GFile(path, "rb") as stream:
            return bytes(stream.read())
    except tf.errors.OpError as error:
        raise UsageError(f"cannot read {path}: {error.message}") from None


def class_numbers(names: Sequence[str], known: Sequence[str], where: str | os.PathLike[str]) -> tuple[int, ...]:
    """Returns the place of each class in `known`, the classes of the training data. Raises UsageError, which names
    `where`, for classes that `known` lacks."""
    places = {name: place for place, name in enumerate(known)}
    if others := [name for name in names if name not in places]:
        raise UsageError(
            f"{where} has classes that the training data lack: {some(others)}; those have {some(known)}; remove or "
            "rename these classes, or convert the training data again with them"
        )
    return tuple(places[name] for name in names)


@contextlib.contextmanager
def appearing(target: Path) -> Iterator[Path]:
    """Gives a new directory to fill, which gets its name when the block succeeds and is removed when it fails. Raises
    FileExistsError when another process or an earlier run was first: its directory stays unchanged."""
    target.parent.mkdir(parents=True, exist_ok=True)
    building = target.parent / f".{target.name}.{uuid.uuid4().hex[:12]}"
    building.mkdir()
    try:
        yield building
        try:
            building.rename(target)
        except OSError as error:
            if target.exists():
                raise FileExistsError(f"{target} already exists") from error
            raise
    finally:
        shutil.rmtree(building, ignore_errors=True)


def made_once(
    directory: str | os.PathLike[str] | None,
    cache: Path | None,
    name: str,
    wanted: Mapping[str, Any],
    fill: Callable[[Path], object],
    described_by: str = "",
) -> Path:
    """Returns `directory`, by default `cache`/tfhet/`name` (cache: default ~/.cache), filled by `fill` unless an
    earlier call or another process has done that. wanted: details that the `tfhet.json` in the sub-folder
    `described_by` must have. Raises UsageError for a directory with other data, or a cache that others can write."""
    home = Path.home() / ".cache" if cache is None else Path(cache)
    if directory is None:
        kind, _, shape = name.partition("/")
        target = code_dir({"XDG_CACHE_HOME": str(home.absolute())}, kind) / shape
    else:
        target = Path(directory)

    def is_complete() -> bool:
        sidecar = Sidecar.read(target / described_by)
        if sidecar is None:
            return False
        for detail, value in wanted.items():
            if (held := sidecar.details.get(detail)) != value:
                raise UsageError(f"{target} holds data with {detail} {held}, not {value}: choose another directory")
        return True

    if not is_complete():
        try:
            with appearing(target) as building:
                fill(building)
        except FileExistsError:
            if not is_complete():
                raise UsageError(f"{target} holds something else: choose another directory, or remove it") from None
    return target


def write_tfrecords(
    directory: str | os.PathLike[str],
    examples: Iterable[Mapping[str, Any]],
    shards: int,
    features: Mapping[str, Feature],
    seed: int = 0,
    classes: Sequence[str] = (),
    details: Mapping[str, Any] | None = None,
) -> Path:
    """Writes `shards` files and `tfhet.json` into a new directory and returns it; it appears when all are complete.

    examples: mappings with a value for each feature, read once, so there may be any number. They are dealt out in
    rounds of one to each shard, in an order drawn from `seed` for each round: shards differ by at most one example, and
    equal calls write equal files. Examples keep their order within a shard: shuffle the input if it is sorted. Raises
    UsageError when the directory is not empty, or a value does not fit its feature.
    """
    target = Path(directory)
    try:
        os.fspath(target).encode()
    except UnicodeEncodeError:
        raise UsageError(f"TensorFlow reads no path that is not UTF-8: {str(target)!r}") from None
    if shards < 1:
        raise UsageError(f"give at least 1 shard, not {shards}")
    taken = f"{target} exists and is not empty: choose another directory, or remove it"
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise UsageError(taken)
    try:
        with appearing(target) as building:
            counts = _fill(building, examples, shards, features, np.random.default_rng(seed))
            if not any(counts.values()):
                raise UsageError(f"no examples to write to {target}")
            origin = {"shards": shards, "seed": seed, **(details or {})}
            Sidecar(features, counts, tuple(classes), origin).write(building)
    except FileExistsError:
        raise UsageError(taken) from None
    return target


def _fill(
    directory: Path,
    examples: Iterable[Mapping[str, Any]],
    shards: int,
    features: Mapping[str, Feature],
    order: np.random.Generator,
) -> dict[str, int]:
    """Writes the files and returns their numbers of examples by name."""
    names = [f"part-{index:05d}-of-{shards:05d}.tfrecord" for index in range(shards)]
    counts = dict.fromkeys(names, 0)
    turn: list[int] = []
    with contextlib.ExitStack() as stack:
        # Every file is made, even one without examples, so that there are as many splits as the caller asked for.
        files = [stack.enter_context(open(directory / name, "wb")) for name in names]
        for example in examples:
            turn = turn or order.permutation(shards).tolist()
            shard = turn.pop()
            encoding.write_record(files[shard], _serialised(example, features))
            counts[names[shard]] += 1
    return counts


def _serialised(example: Mapping[str, Any], features: Mapping[str, Feature]) -> bytes:
    if missing := [name for name in features if name not in example]:
        raise UsageError(f"an example lacks {', '.join(missing)}; it holds {', '.join(example)}")
    return encoding.example({name: feature.encode(example[name]) for name, feature in features.items()})
