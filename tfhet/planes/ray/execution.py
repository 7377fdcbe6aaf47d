"""A run of a Ray data set on its first inputs, with the CPU that it took, of its tasks and of Ray itself."""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from typing import Any

import psutil

from tfhet.planes.feed.received import SourceError
from tfhet.planes.ray import private


@dataclass(frozen=True)
class Execution:
    inputs: int
    """Number of inputs that there were; not all need have been used."""
    rows: int
    blocks: int
    bytes: int
    """Bytes of the arrays of its rows."""
    dtype: str
    """Dtype of most of these bytes."""
    tasks_cpu_s: float
    """CPU seconds of its tasks, as Ray counts them: of their processes while they run."""
    driver_cpu_s: float
    """CPU seconds of this process, which schedules the tasks and reads what they give."""
    node_cpu_s: float
    """CPU seconds of all processes that this one has started, its tasks among them."""


def executed(dataset: Any, inputs: int) -> Execution:
    """Runs a data set on at most `inputs` of its inputs, and reads what it gives as ranks do, block by block. Raises
    SourceError with what the user's code raised."""
    try:
        return _executed(dataset, inputs)
    except Exception as error:
        text = private.of_the_user("".join(traceback.format_exception_only(type(error), error)))
        raise SourceError(f"a task failed: {text}") from error


def _executed(dataset: Any, inputs: int) -> Execution:
    import ray

    dataset.context.enable_progress_bars = False
    rows, blocks, sizes = 0, 0, dict[str, int]()
    driver_s, node_s = _driver_s(), _node_s()
    with private.first_inputs(inputs) as counts:
        for block, first, count in private.blocks(dataset):
            columns = private.columns(ray.get(block), first, first + count)
            rows, blocks = rows + count, blocks + 1
            for array in columns.values():
                dtype, size = _size(array)
                sizes[dtype] = sizes.get(dtype, 0) + size
            del block, columns
    used = _driver_s() - driver_s, _node_s() - node_s
    most = max(sizes, key=lambda name: sizes[name], default="")
    return Execution(max(counts), rows, blocks, sum(sizes.values()), most, private.tasks_cpu_s(dataset), *used)


def _size(array: Any) -> tuple[str, int]:
    """Dtype and bytes of a column; texts and encoded images count as strings."""
    if not array.dtype.hasobject:
        return str(array.dtype.name), int(array.nbytes)
    texts = [each for each in array if isinstance(each, (str, bytes))]
    if texts:
        return "string", sum(map(len, texts))
    return str(getattr(array[0], "dtype", "")), sum(int(getattr(each, "nbytes", 0)) for each in array)


def _driver_s() -> float:
    used = psutil.Process().cpu_times()
    return float(used.user + used.system)


def _node_s() -> float:
    found = 0.0
    for child in psutil.Process().children(recursive=True):
        try:
            used = child.cpu_times()
        except psutil.Error:  # it has just ended
            continue
        found += used.user + used.system + getattr(used, "children_user", 0.0) + getattr(used, "children_system", 0.0)
    return found
