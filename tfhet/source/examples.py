"""Turns serialised `tf.train.Example`s into batches: by compiled code for the features that it knows, else by tf.io.

The compiled code reads the wire format straight into the batch. For local files it also reads the TFRecord framing, a
block of neighbouring records at a time, because one step of tf.data for each record costs more than the work itself.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from tfhet import kernels, native
from tfhet.extras import tensorflow as tf
from tfhet.source.feature import Encoded, Feature, Fixed, Raw, Scalar

BLOCK_BYTES = 2 << 20
"""Bytes of a file that are read at once. Smaller blocks cost more iterator steps; larger ones do not fit the cache."""
_KINDS = {"raw": "uint8", "int64": "int64", "float": "float32", "bytes": "string"}
"""Kinds of stored values, in the order of their numbers in kernels/example.h, and the dtype of each."""
_RAW_DTYPES = ("uint8", "int8", "uint16", "int16", "int32", "int64", "float16", "float32", "float64")


class _Field(NamedTuple):
    """Layout of one feature for the compiled code."""

    kind: str
    """Of `_KINDS`."""
    size: int
    """Number of bytes of a raw feature, else of values."""


def parse(records: tf.Tensor, features: Mapping[str, Feature]) -> dict[str, tf.Tensor]:
    """Parses records, string [batch], into each feature as its spec says. Raises InvalidArgumentError when it runs on a
    record that is not an Example, or whose feature is missing or has another kind or size."""
    fields, ops = _fields(features), native.ops("records")
    if fields is None or ops is None:
        return parse_plain(records, features)
    return _decoded(ops.tfhet_parse_examples(records, **_attributes(fields)), fields, features)


def parse_plain(records: tf.Tensor, features: Mapping[str, Feature]) -> dict[str, tf.Tensor]:
    """Does the same as `parse` by tf.io alone."""
    values = tf.io.parse_example(records, {name: feature.stored() for name, feature in features.items()})
    return {name: feature.decode(values[name]) for name, feature in features.items()}


def can_load(features: Mapping[str, Feature]) -> bool:
    """Whether `load` knows these features: texts are not loaded."""
    fields = _fields(features)
    if fields is None:
        return False
    return all(field.kind != "bytes" or isinstance(features[name], Encoded) for name, field in fields.items())


def load(records: kernels.Contents, features: Mapping[str, Feature]) -> dict[str, Any]:
    """Parses records, [n], without TensorFlow: image files without a size as bytes [n], other features as arrays [n,
    ...]. Raises UsageError for an image file that cannot be decoded, DataError for a record that is no Example, or
    whose feature is missing or does not fit."""
    fields = _fields(features)
    assert fields is not None
    columns = kernels.parse_examples(records, [(name, *field) for name, field in fields.items()])
    made: dict[str, Any] = {}
    for (name, feature), column in zip(features.items(), columns, strict=True):
        assert isinstance(feature, (Encoded, Raw, Fixed))
        made[name] = feature.array(column)
    return made


def held(record: bytes) -> str | None:
    """Lists the features of a serialised Example with their kinds, for people; None for bytes that are no Example."""
    try:
        example = tf.train.Example.FromString(record)
    except Exception:  # noqa: BLE001  protobuf moves its DecodeError from version to version
        return None
    features = sorted((name, value.WhichOneof("kind") or "empty") for name, value in example.features.feature.items())
    return ", ".join(f"{name} ({kind.removesuffix('_list')})" for name, kind in features) or "no features"


def blocks_readable(files: tuple[str, ...], features: Mapping[str, Feature]) -> bool:
    """Whether `read_blocks` can read these files: local files of numbers only. Images that are still to be decoded are
    better spread over threads, batch by batch."""
    fields = _fields(features)
    if fields is None or any(field.kind == "bytes" for field in fields.values()):
        return False
    return not any("://" in file for file in files) and native.available("records")


def read_blocks(
    file: tf.Tensor, first_id: tf.Tensor, epoch: tf.Tensor, features: Mapping[str, Feature], skip_bad: bool = False
) -> tf.data.Dataset:
    """Returns the examples of one TFRecord file (string []) in order, in blocks of about BLOCK_BYTES. A block holds at
    least one example: (ids int64 [block], counted from `first_id`, epochs int64 [block], features by name, each [block,
    ...]). Raises NotFoundError for a missing file, DataLossError with file and byte for a broken one. With `skip_bad`
    it raises neither: it omits bad records and their ids, and stops where the file breaks off."""
    fields, ops = _fields(features), native.ops("records")
    assert fields is not None and ops is not None
    attributes = _attributes(fields)

    def block(state: tuple[tf.Tensor, tf.Tensor], _: tf.Tensor) -> Any:
        offset, number = state
        offset, number, ids, epochs, values = ops.tfhet_read_examples(
            file, offset, number, epoch, block_bytes=BLOCK_BYTES, skip_bad=int(skip_bad), **attributes
        )
        for tensor, shape in ((offset, []), (number, []), (ids, [None]), (epochs, [None])):
            tensor.set_shape(shape)
        size = tf.size(ids)
        if skip_bad:
            lists = [(features[name], value) for name, value in zip(fields, values, strict=True)]
            fits = [one.fits(tf.ensure_shape(value, [None, None])) for one, value in lists if isinstance(one, Fixed)]
            good = tf.reduce_all([tf.fill([size], True), *fits], axis=0)
            ids, epochs, *values = (tf.boolean_mask(tensor, good) for tensor in (ids, epochs, *values))
        return (offset, number), (size, (ids, epochs, _decoded(values, fields, features)))

    start = (tf.constant(0, tf.int64), first_id)
    blocks = tf.data.Dataset.range(tf.int64.max).scan(start, block)
    examples = blocks.take_while(lambda size, _: size > 0).map(lambda _, examples: examples)
    return examples.filter(lambda ids, *_: tf.size(ids) > 0) if skip_bad else examples


def _fields(features: Mapping[str, Feature]) -> dict[str, _Field] | None:
    """Returns the layout of the features; None when the compiled code cannot read one of them."""
    fields = {}
    for name, feature in features.items():
        if type(feature) is Raw and feature.dtype in _RAW_DTYPES:
            fields[name] = _Field("raw", math.prod(feature.shape) * np.dtype(feature.dtype).itemsize)
        elif type(feature) is Encoded:
            fields[name] = _Field("bytes", 1)
        elif type(feature) in (Fixed, Scalar):
            assert isinstance(feature, Fixed)
            fields[name] = _Field(feature.stored_kind, math.prod(feature.shape))
        else:  # a third party's class, or a feature of tf.io
            return None
    return fields if all(field.size > 0 for field in fields.values()) else None


def _attributes(fields: Mapping[str, _Field]) -> dict[str, Any]:
    named = ((name.encode(), field) for name, field in fields.items())
    numbers = list(_KINDS)
    layout = b"".join(
        b"%d %d %d:%s" % (numbers.index(field.kind), field.size, len(name), name) for name, field in named
    )
    return {"T": [tf.as_dtype(_KINDS[field.kind]) for field in fields.values()], "layout": layout}


def _decoded(
    values: list[tf.Tensor], fields: Mapping[str, _Field], features: Mapping[str, Feature]
) -> dict[str, tf.Tensor]:
    """Brings the compiled code's results, each [batch, size], to the shape and dtype of the features' specs."""
    made = {}
    for value, (name, field) in zip(values, fields.items(), strict=True):
        feature = features[name]
        value.set_shape([None, field.size])
        if isinstance(feature, Raw):
            dtype = tf.as_dtype(feature.dtype)
            if dtype.size > 1:
                value = tf.reshape(value, [-1, field.size // dtype.size, dtype.size])
            value = value if dtype == tf.uint8 else tf.bitcast(value, dtype)
            made[name] = tf.reshape(value, [-1, *feature.shape])
        else:
            made[name] = feature.decode(tf.reshape(value, [-1, *feature.stored().shape]))
    return made
