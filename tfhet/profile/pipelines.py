"""Loads and measures the Pipeline or tf.data.Dataset that a command line names or a script passes.

A native pipeline is loaded without TensorFlow.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfhet.errors import UsageError
from tfhet.events import Observer, ignore
from tfhet.pipeline import Pipeline
from tfhet.profile.effort import Effort
from tfhet.profile.result import Profile
from tfhet.source import ImageFolder, SyntheticSource, TFRecordSource

if TYPE_CHECKING:
    import tensorflow as tf

OF_FOLDER = "imagenet-train"
"""Stages of an image folder by default."""
_SIDECAR = "tfhet.json"


def measure_pipeline(target: Any, effort: Effort, observer: Observer = ignore) -> Profile:
    """Returns the profile of a pipeline or data set of tf.data. Raises UsageError for anything else."""
    from tfhet.profile.parts import parts_of_dataset, parts_of_pipeline  # load TensorFlow
    from tfhet.profile.rounds import measure

    if isinstance(target, Pipeline):
        return measure("pipeline", parts_of_pipeline(target), effort, observer=observer)
    if _is_dataset(target):
        return measure("dataset", parts_of_dataset(target), effort, observer=observer)
    raise UsageError(f"a {type(target).__name__}; wanted a Pipeline, a tf.data.Dataset or a loader")


def load(target: str, stages: str | None = None, batch_size: int = 128) -> Pipeline | tf.data.Dataset:
    """Loads a directory of TFRecords with a `tfhet.json`, a folder of images with a sub-folder for each class,
    `synthetic`, or FILE.py:NAME of a Pipeline, a tf.data.Dataset, or a function without arguments that returns one.
    stages: of a source or Pipeline. batch_size: of a source. Raises UsageError if there is no such target, or a plain
    data set has stages."""
    path, colon, name = target.rpartition(":")
    if colon and path.endswith(".py"):
        found = _attribute(Path(path), name)
        if not stages:
            return found
        if not isinstance(found, Pipeline):
            raise UsageError("--stages needs a source or a Pipeline; a plain data set has its own transformations")
        return found.with_stages(stages)
    if target == "synthetic":
        return Pipeline(SyntheticSource(1 << 20, 16), stages or "aws-cifar", batch_size)
    if target.endswith(".py"):
        raise UsageError(f"which pipeline of {target}? name it, like {target}:dataset")
    if _is_image_folder(Path(target)):
        folder: Any = ImageFolder(target)
        return Pipeline(folder, stages or OF_FOLDER, batch_size, shuffle=True)
    return Pipeline(TFRecordSource.from_directory(target), stages or "", batch_size)


def _is_image_folder(folder: Path) -> bool:
    """Whether a folder has sub-folders, and no TFRecords are described in it or in one of them."""
    if not folder.is_dir() or (folder / _SIDECAR).exists() or next(folder.glob(f"*/{_SIDECAR}"), None):
        return False
    return any(each.is_dir() and not each.name.startswith(".") for each in folder.iterdir())


def _is_dataset(value: Any) -> bool:
    """Whether a value is a tf.data.Dataset; it does not load TensorFlow."""
    tensorflow = sys.modules.get("tensorflow")
    return tensorflow is not None and isinstance(value, tensorflow.data.Dataset)


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
    if callable(found) and not (isinstance(found, Pipeline) or _is_dataset(found)):
        found = found()
    if not (isinstance(found, Pipeline) or _is_dataset(found)):
        raise UsageError(f"{path}:{name} is a {type(found).__name__}; wanted a Pipeline or a tf.data.Dataset")
    return found
