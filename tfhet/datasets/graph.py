"""Edits of a data set's graph: what is above and below an edited operation stays as it is."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import tensorflow as tf

from tfhet.datasets import tf_internals

Route = tuple[tuple[tf.data.Dataset, int], ...]
"""The way down to a part of a data set: at each data set with several inputs, the number of the input."""

_READERS = ("FlatMapDataset", "InterleaveDataset", "ParallelInterleaveDataset", "LegacyParallelInterleaveDataset")
_FILE_READERS = ("TFRecordDataset", "TextLineDataset", "FixedLengthRecordDataset")
_COMMUTING = (
    "MapDataset", "ParallelMapDataset", "BatchDataset", "ParallelBatchDataset", "PaddedBatchDataset", "PrefetchDataset",
    "OptionsDataset", "ShuffleDataset", "RepeatDataset", "Identity",
)  # fmt: skip
"""Operations after which a share has the examples that it has before them."""
_RANDOM = ("Shuffle", "Random", "DirectedInterleaveDataset")


class NotEditable(Exception):
    """The graph is not as expected; the reason is for people."""


class DatasetGraph:
    """The graph of a data set, to be edited."""

    def __init__(self, data: tf.data.Dataset):
        self._data, self._graph = data, tf_internals.graph_of(data)

    def dataset(self) -> tf.data.Dataset:
        """Returns the edited data set."""
        return tf_internals.from_graph(self._graph, self._data)

    def place_of(self, part: tf.data.Dataset, route: Route = ()) -> str:
        """Returns the name of the node of a part of this data set. Raises NotEditable."""
        other = DatasetGraph(part)
        wanted = _operations(other._nodes(), other._path(())[0])
        for name in self._path(route):
            if _operations(self._nodes(), name) == wanted:
                return name
        raise NotEditable(f"{tf_internals.name_of(part)} is not in the graph")

    def replace(self, place: str, new: tf.data.Dataset) -> None:
        """Puts `new` in the place of a node."""
        added = DatasetGraph(new)
        added._rename(f"tfhet_{len(self._graph.node)}_")
        end = added._end()
        added._graph.node.remove(end)
        self._graph.MergeFrom(added._graph)
        self._rewire(place, end.input[0])
        self._prune()

    def remove(self, *prefixes: str) -> None:
        """Removes operations that pass their elements on, such as a cache."""
        for node in [node for node in self._graph.node if node.op.startswith(prefixes)]:
            self._rewire(node.name, node.input[0])
        self._prune()

    def make_interleaves_parallel(self) -> None:
        """Replaces `interleave` by its parallel form with one call at a time. The plain form hands the splits of the
        source to inner data sets that begin late, such as a shuffle, which lose them or end the process (TF 2.15.1)."""
        for node in [node for node in self._graph.node if node.op == "InterleaveDataset"]:
            node.op = "ParallelInterleaveDatasetV4"
            numbers = (("buffer", -1), ("prefetch", 0), ("calls", 1))
            node.input.extend(_constant(self._graph.node, f"{node.name}_{name}", value) for name, value in numbers)
            node.attr["deterministic"].s = b"true"

    def reader(self, part: tf.data.Dataset, route: Route = ()) -> str | None:
        """Returns the node above `part` that is the last to make data sets of elements (flat_map, interleave), the last
        that reads files if there is one; None if there is none. `part` itself may read files."""
        nodes, path = self._nodes(), self._path(route)
        above = path[: path.index(self.place_of(part, route)) + (not part._inputs())]
        readers = [name for name in above if nodes[name].op.startswith(_READERS)]
        return next((name for name in readers if self.reads_files(name)), readers[0] if readers else None)

    def reads_files(self, reader: str) -> bool:
        """Whether the function of a reader reads files."""
        called = self._nodes()[reader].attr["f"].func.name
        return any(node.op.startswith(_FILE_READERS) for node in self._within([called]))

    def shard_inner(self, reader: str, count: int, index: int) -> None:
        """Keeps the elements index, index + count, ... of each data set that `reader` makes. Raises NotEditable if
        their order is not the same in every process."""
        called = self._nodes()[reader].attr["f"].func
        function = self._copy_of(called.name)
        called.name = function.signature.name
        nodes = {node.name: node for node in function.node_def}
        (output,) = function.ret
        consumer, source = None, function.ret[output]
        while (node := nodes.get(_name(source))) is not None and node.op.startswith(_COMMUTING):
            consumer, source = node, node.input[0]
        below = [nodes[name] for name in _reachable(nodes, _name(source))]
        if any(each.op.startswith(_RANDOM) for each in (*below, *self._within(_called(below)))):
            raise NotEditable("an interleave or flat_map draws the order of its elements")
        made = nodes.get(_name(source))
        if made is None or "output_types" not in made.attr:
            is_file = made is not None and made.op.startswith(_FILE_READERS)
            if not (is_file or consumer is None):
                raise NotEditable("an interleave or flat_map does not make its data sets itself")
            made = _strings() if is_file else self._nodes()[reader]
        numbers = [
            f"{_constant(function.node_def, name, value)}:output:0"
            for name, value in (("tfhet_shards", count), ("tfhet_shard_index", index))
        ]
        shard = function.node_def.add(name="tfhet_shard", op="ShardDataset", input=[source, *numbers])
        for name in ("output_types", "output_shapes"):
            shard.attr[name].CopyFrom(made.attr[name])
        shard.attr["require_non_empty"].b = False
        if consumer is None:
            function.ret[output] = "tfhet_shard:handle:0"
        else:
            consumer.input[0] = "tfhet_shard:handle:0"

    def _copy_of(self, name: str) -> Any:
        copy = self._graph.library.function.add()
        copy.CopyFrom(self._functions()[name])
        copy.signature.name = f"{name}_tfhet_share"
        return copy

    def _nodes(self) -> dict[str, Any]:
        return {node.name: node for node in self._graph.node}

    def _functions(self) -> dict[str, Any]:
        return {function.signature.name: function for function in self._graph.library.function}

    def _end(self) -> Any:
        (end,) = (node for node in self._graph.node if node.op == "_Retval")
        return end

    def _within(self, names: Iterable[str]) -> Iterator[Any]:
        """The nodes of functions and of those that they call."""
        functions, pending, seen = self._functions(), list(names), set()
        while pending:
            name = pending.pop()
            if name not in seen and name in functions:
                seen.add(name)
                yield from functions[name].node_def
                pending += _called(functions[name].node_def)

    def _path(self, route: Route) -> list[str]:
        """The node at the end of the route, its first input, and so on."""
        nodes, source = self._nodes(), self._end().input[0]
        for depth, (mixed, place) in enumerate(route):
            source = nodes[self.place_of(mixed, route[:depth])].input[place]
        path = [_name(source)]
        while nodes[path[-1]].input:
            path.append(_name(nodes[path[-1]].input[0]))
        return path

    def _rewire(self, old: str, new: str) -> None:
        for node in self._graph.node:
            for place, source in enumerate(node.input):
                if _name(source) == old:
                    node.input[place] = new

    def _prune(self) -> None:
        """Removes the nodes that nothing reads."""
        used = set(_reachable(self._nodes(), self._end().name))
        for node in [node for node in self._graph.node if node.name not in used]:
            self._graph.node.remove(node)

    def _rename(self, prefix: str) -> None:
        """Adds a prefix to the names of all nodes and functions."""
        functions = self._functions()
        for node in self._graph.node:
            node.name = prefix + node.name
            node.input[:] = [f"^{prefix}{each[1:]}" if each.startswith("^") else prefix + each for each in node.input]
        for function in functions.values():
            function.signature.name = prefix + function.signature.name
        for gradient in self._graph.library.gradient:
            gradient.function_name = prefix + gradient.function_name
            gradient.gradient_func = prefix + gradient.gradient_func
        for node in itertools.chain(self._graph.node, *(function.node_def for function in functions.values())):
            if node.op in functions:
                node.op = prefix + node.op
            for called in _attributes(node):
                if called.name in functions:
                    called.name = prefix + called.name


def _name(source: str) -> str:
    """The name of the node that an input comes from."""
    return source.lstrip("^").partition(":")[0]


def _operations(nodes: dict[str, Any], name: str) -> list[str]:
    return sorted(nodes[each].op for each in _reachable(nodes, name))


def _reachable(nodes: dict[str, Any], name: str) -> list[str]:
    """The node and those that it depends on."""
    found: dict[str, None] = {}
    pending = [name]
    while pending:
        name = _name(pending.pop())
        if name not in found and name in nodes:
            found[name] = None
            pending += nodes[name].input
    return list(found)


def _attributes(node: Any) -> Iterator[Any]:
    """The functions in the attributes of a node."""
    for value in node.attr.values():
        if value.HasField("func"):
            yield value.func
        yield from value.list.func


def _called(nodes: Iterable[Any]) -> list[str]:
    """Names that may be those of functions that the nodes call."""
    return [name for node in nodes for name in (node.op, *(called.name for called in _attributes(node)))]


def _strings() -> Any:
    """A node with the types of a data set of strings."""
    node = tf.compat.v1.NodeDef()
    node.attr["output_types"].list.type.append(tf.string.as_datatype_enum)
    node.attr["output_shapes"].list.shape.add()
    return node


def _constant(nodes: Any, name: str, value: int) -> str:
    """Adds a constant, int64, and returns its name."""
    node = nodes.add(name=name, op="Const")
    node.attr["dtype"].type = tf.int64.as_datatype_enum
    node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value, tf.int64))
    return name
