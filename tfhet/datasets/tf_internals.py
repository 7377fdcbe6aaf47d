"""All private API of TensorFlow that the analysis of plain data sets uses (TensorFlow 2.15.1 and 2.21)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.data.ops import dataset_ops
from tensorflow.python.data.util import structure

from tfhet.source import GAMMA

Components = Sequence[tf.Tensor]
"""The tensors of an element, flat, as they are in the graph: a ragged tensor is one of dtype variant."""
MAX_VALUES_BYTES = 512 * 2**20
_HASHED = 256
"""Number of elements that are hashed at a time."""
_ENDLESS = int(np.iinfo(np.int64).max)
POSITIONAL = (
    "TakeDataset", "SkipDataset", "ShardDataset", "ZipDataset", "ScanDataset", "WindowDataset", "UniqueDataset",
    "TakeWhileDataset", "DirectedInterleaveDataset", "SnapshotDataset", "LoadDataset", "CSVDataset", "SqlDataset",
    "GeneratorDataset", "LMDBDataset",
)  # fmt: skip
"""Operations in a graph whose source cannot be divided: their result depends on the place of an element."""
_NAMES = {
    "variant": "a data set made by graph operations",
    "tensor": "from_tensors",
    "tensor_slice": "from_tensor_slices",
    "directed_interleave": "choose_from_datasets",
}
_ADDITION = {"Placeholder", "Const", "AddV2", "Identity", "NoOp"}


def name_of(data: tf.data.Dataset) -> str:
    """Returns the name of the operation that made the data set: `take`, `TFRecordDataset`."""
    name = type(data).__name__.removesuffix("V2")
    if not name.startswith("_"):
        return name
    if (
        name == "_ZipDataset"
        and type(data._inputs()[0]).__name__ == "_VariantDataset"
        and progression(data._inputs()[0])
    ):
        return "enumerate"
    words = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name.removesuffix("Dataset"))
    return _NAMES.get(words.strip("_"), words.strip("_"))


def graph_of(data: tf.data.Dataset) -> Any:
    """Returns the GraphDef of the data set."""
    return tf.compat.v1.GraphDef.FromString(data._as_serialized_graph().numpy())


def from_graph(graph: Any, original: tf.data.Dataset) -> tf.data.Dataset:
    """Returns the data set of a GraphDef, with the element spec, the options and the resources of `original`. Raises
    tf.errors.OpError."""
    variant = tf.raw_ops.DatasetFromGraph(graph_def=graph.SerializeToString())
    data = dataset_ops._VariantDataset(variant, original.element_spec)
    data._tfhet_original = original  # its tables and variables end with it
    options = tf.data.Options()
    # A fused batch asks its input again after the end, and drops the first element of the next pass (TF 2.15.1).
    options.experimental_optimization.map_and_batch_fusion = False
    options.experimental_optimization.shuffle_and_repeat_fusion = False
    return data.with_options(original.options()).with_options(options)


def progression(data: Any) -> tuple[int, int, int, tf.DType] | None:
    """Returns start, step, length and dtype of `range`, of its copy in `enumerate`, and of `Dataset.counter`; None for
    another data set."""
    kind = type(data).__name__
    if kind == "_RangeDataset":
        start, stop, step = int(data._start), int(data._stop), int(data._step)
        return start, step, len(range(start, stop, step)), data.element_spec.dtype
    if kind == "_VariantDataset":
        return _range_in_graph(data)
    if kind == "_ScanDataset" and isinstance(data.element_spec, tf.TensorSpec):
        below = [type(each).__name__ for each in (data._inputs()[0], *data._inputs()[0]._inputs())]
        ops = {node.op for node in data._functions()[0].function.graph.as_graph_def().node}
        if below == ["_RepeatDataset", "_TensorDataset"] and data._initial_state.shape == () and ops <= _ADDITION:
            first, second = (int(number) for number in data.take(2))
            return first, second - first, _ENDLESS, data.element_spec.dtype
    return None


def _range_in_graph(data: Any) -> tuple[int, int, int, tf.DType] | None:
    nodes = {node.name: node for node in graph_of(data).node}
    found = [node for node in nodes.values() if node.op not in ("Const", "_Retval")]
    if len(found) != 1 or found[0].op != "RangeDataset":
        return None
    start, stop, step = (int(tf.make_ndarray(nodes[name].attr["value"].tensor)) for name in found[0].input[:3])
    return start, step, len(range(start, stop, step)), data.element_spec.dtype


def slices(data: Any) -> tuple[int, Callable[[tf.Tensor], Components]] | None:
    """Returns the number of elements and a function that makes the element of an index, for `from_tensor_slices` and
    `from_tensors`; None for another data set."""
    kind = type(data).__name__
    if kind == "_TensorDataset":
        return 1, lambda index: list(data._tensors)
    if kind == "_TensorSliceDataset":
        return int(data.cardinality()), lambda index: [part[index] for part in data._tensors]
    return None


def keys(tensors: Sequence[tf.Tensor], count: int) -> np.ndarray:
    """Returns a hash of each of `count` elements, uint64 [count]; the index if they are neither numbers nor strings."""
    if count == 1 or any(tensor.dtype in (tf.variant, tf.resource) for tensor in tensors):
        return np.arange(count, dtype=np.uint64)
    result = np.zeros(count, np.uint64)
    for tensor in tensors:
        array = tensor.numpy().reshape(count, -1)
        for begin in range(0, count, _HASHED):
            part = slice(begin, begin + _HASHED)
            result[part] = result[part] * np.uint64(GAMMA) + _hashes(array[part])
    return result


def _hashes(rows: np.ndarray) -> np.ndarray:
    if rows.dtype == object:
        digests = (hashlib.blake2b(repr(row.tolist()).encode(), digest_size=8).digest() for row in rows)
        return np.frombuffer(b"".join(digests), np.uint64)
    data = np.ascontiguousarray(rows).view(np.uint8).reshape(len(rows), -1)
    weights = np.random.RandomState(0).randint(1, 2**63, data.shape[1], dtype=np.uint64)
    return (data * weights).sum(axis=1, dtype=np.uint64)


def function_of(data: Any) -> Callable[[Components], Components]:
    """Returns the function of a `map`."""
    function = data._functions()[0].function

    def called(element: Components) -> Components:
        result = function(*element)
        return list(result) if isinstance(result, (list, tuple)) else [result]

    return called


def component_count(data: tf.data.Dataset) -> int:
    """Returns the number of tensors of an element."""
    return len(structure.get_flat_tensor_types(data.element_spec))


def is_divisible(data: Any) -> bool:
    """Whether workers can share the source or sources of `data`, which has no input or several, and whose order is not
    known: files, `concatenate`, and `sample_from_datasets`, which ends with the last of its inputs."""
    kind = type(data).__name__
    if kind == "_DirectedInterleaveDataset":
        is_endless = data.cardinality() == tf.data.INFINITE_CARDINALITY
        draws = any(type(each).__name__ == "_RandomDataset" for each in _all_inputs(data._selector_input))
        return draws and (is_endless or not data._stop_on_empty_dataset)
    if kind == "_ConcatenateDataset":
        return True
    return not data._inputs() and not any(node.op.startswith(POSITIONAL) for node in graph_of(data).node)


def _all_inputs(data: Any) -> Iterator[Any]:
    yield data
    for each in data._inputs():
        yield from _all_inputs(each)


def caches_in_file(data: Any) -> bool:
    """Whether it is a cache in a file."""
    return bool(tf.get_static_value(getattr(data, "_filename", tf.constant(""))))


def is_unseeded(shuffle: Any) -> bool:
    """Whether a shuffle has no seed: TensorFlow writes (0, 0) then, and draws when it runs."""
    return int(shuffle._seed) == int(shuffle._seed2) == 0


def shuffled(shuffle: Any, count: int) -> np.ndarray:
    """Returns the order, int64 [count], that a seeded shuffle with reshuffle_each_iteration=False gives elements."""
    numbers = tf.data.Dataset.range(count)
    variant = tf.raw_ops.ShuffleDatasetV3(
        input_dataset=numbers._variant_tensor,
        buffer_size=shuffle._buffer_size,
        seed=shuffle._seed,
        seed2=shuffle._seed2,
        seed_generator=tf.raw_ops.DummySeedGenerator(),
        reshuffle_each_iteration=False,
        output_types=[tf.int64],
        output_shapes=[tf.TensorShape([])],
    )
    order = dataset_ops._VariantDataset(variant, numbers.element_spec).batch(2**16)
    return np.concatenate([np.zeros(0, np.int64), *order.as_numpy_iterator()])


def values(data: tf.data.Dataset, count: int) -> list[tf.Tensor] | None:
    """Returns the components of all `count` elements, each [count, ...], in the order of this process; None if they may
    have more than `MAX_VALUES_BYTES` or cannot be stacked."""
    specs = tf.nest.flatten(data.element_spec)
    if not all(isinstance(spec, tf.TensorSpec) and spec.shape.is_fully_defined() for spec in specs):
        return None
    if count * sum(max(8, spec.dtype.size) * spec.shape.num_elements() for spec in specs) > MAX_VALUES_BYTES:
        return None
    return tf.nest.flatten(next(iter(data.batch(max(1, count)))))
