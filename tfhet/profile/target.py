"""Loads the pipeline that a command line names."""

from __future__ import annotations

import importlib.util
import inspect
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tensorflow as tf

from tfhet.errors import UsageError
from tfhet.placement import Pipeline
from tfhet.planes.feed import FeedSource, Shard
from tfhet.source import SyntheticSource, TFRecordSource

_RAY = re.compile(r"^\s*(import|from)\s+ray\b", re.M)


def makes_ray(target: str) -> bool:
    """Whether a target is FILE.py:NAME in a file that imports Ray, which is installed: it is profiled as a script."""
    path, colon, _ = target.rpartition(":")
    if not (colon and path.endswith(".py") and Path(path).is_file() and importlib.util.find_spec("ray")):
        return False
    return _RAY.search(Path(path).read_text(encoding="utf-8", errors="replace")) is not None


def function_of(target: str) -> Callable[..., Any]:
    """Returns the function FILE.py:NAME; tasks find its module by its name. Raises UsageError without it."""
    path, _, name = target.rpartition(":")
    return FeedSource(Path(path).stem, str(Path(path).resolve()), name).called


def ray_data_set(target: str) -> Any:
    """Returns the result of the function FILE.py:NAME, called with a shard if it takes one."""
    make = function_of(target)
    parameters = inspect.signature(make).parameters.values()
    takes_shard = any(each.default is each.empty and each.kind is each.POSITIONAL_OR_KEYWORD for each in parameters)
    return make(Shard(0, 1)) if takes_shard else make()


def load(target: str, stages: str | None = None, batch_size: int = 128) -> Pipeline | tf.data.Dataset:
    """Loads a directory of TFRecords with a `tfhet.json`, `synthetic`, or FILE.py:NAME of a Pipeline, a
    tf.data.Dataset, or a function without arguments that returns one. stages: of a source or Pipeline. batch_size: of a
    source. Raises UsageError if there is no such target, or a plain data set has stages."""
    path, colon, name = target.rpartition(":")
    if colon and path.endswith(".py"):
        found = _attribute(Path(path), name)
        if not stages:
            return found
        if isinstance(found, tf.data.Dataset):
            raise UsageError("--stages needs a source or a Pipeline; a plain data set has its own transformations")
        return found.with_stages(stages)
    if target == "synthetic":
        return Pipeline(SyntheticSource(1 << 20, 16), stages or "aws-cifar", batch_size)
    if target.endswith(".py"):
        raise UsageError(f"which pipeline of {target}? name it, like {target}:dataset")
    return Pipeline(TFRecordSource.from_directory(target), stages or "", batch_size)


def _attribute(path: Path, name: str) -> Pipeline | tf.data.Dataset:
    """Runs a file and returns its attribute, or the result if it is a function."""
    if not path.is_file():
        raise UsageError(f"no such file: {path}")
    spec = importlib.util.spec_from_file_location(f"_profiled_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if not hasattr(module, name):
        known = ", ".join(each for each in vars(module) if not each.startswith("_"))
        raise UsageError(f"{path} has no {name!r}; it has {known}")
    found = getattr(module, name)
    if callable(found) and not isinstance(found, (Pipeline, tf.data.Dataset)):
        found = found()
    if not isinstance(found, (Pipeline, tf.data.Dataset)):
        raise UsageError(f"{path}:{name} is a {type(found).__name__}; wanted a Pipeline or a tf.data.Dataset")
    return found
