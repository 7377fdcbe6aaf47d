"""The Ray data set or function that a command line names. Nothing here loads TensorFlow."""

from __future__ import annotations

import importlib.util
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tfhet.planes.feed import FeedSource, Shard

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
