"""Writes sharded TFRecord files into a directory that appears only when all of them are complete."""

from __future__ import annotations

import contextlib
import os
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from tfhet.errors import UsageError
from tfhet.source.feature import Feature
from tfhet.source.sidecar import Sidecar


@contextlib.contextmanager
def appearing(target: Path) -> Iterator[Path]:
    """Gives a new directory to fill, which gets its name when the block succeeds and is removed when it fails.

    Raises FileExistsError when another process or an earlier run was first: its directory stays unchanged.
    """
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
    """Returns `directory`, filled by `fill` unless an earlier call or another process has done that.

    Without `directory` it is `cache`/tfhet/`name` (cache: default ~/.cache). wanted: details that the `tfhet.json` in
    the sub-folder `described_by` must have. Raises UsageError for a directory that holds other data.
    """
    home = Path.home() / ".cache" if cache is None else Path(cache)
    target = home / "tfhet" / name if directory is None else Path(directory)

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
        writers = [stack.enter_context(tf.io.TFRecordWriter(str(directory / name))) for name in names]
        for example in examples:
            turn = turn or order.permutation(shards).tolist()
            shard = turn.pop()
            writers[shard].write(_serialised(example, features))
            counts[names[shard]] += 1
    return counts


def _serialised(example: Mapping[str, Any], features: Mapping[str, Feature]) -> bytes:
    missing = [name for name in features if name not in example]
    if missing:
        raise UsageError(f"an example lacks {', '.join(missing)}; it holds {', '.join(example)}")
    encoded = {name: feature.encode(example[name]) for name, feature in features.items()}
    return tf.train.Example(features=tf.train.Features(feature=encoded)).SerializeToString(deterministic=True)
