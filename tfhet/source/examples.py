"""Serialised `tf.train.Example`s become batches: by compiled code where it knows the features, else by tf.io.

The compiled code reads the wire format straight into the batch, and, for local files, the TFRecord framing too, a block
of neighbouring records at a time: nothing happens record by record in tf.data, which costs more than the work itself.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from tfhet import native
from tfhet.source.feature import Encoded, Feature, Fixed, Raw, Scalar

BLOCK_BYTES = 2 << 20
"""Of a file, read at once. Smaller ones pay more for their iterator (0.2 us more for a record of 3 kB with half of it);
larger ones leave the cache."""
_RAW, _INT64, _FLOAT, _BYTES = range(4)  # as native/records.cc counts them
_LIST = {tf.int64: _INT64, tf.float32: _FLOAT, tf.string: _BYTES}
_TENSOR = {_RAW: tf.uint8, _INT64: tf.int64, _FLOAT: tf.float32, _BYTES: tf.string}
_RAW_DTYPES = ("uint8", "int8", "uint16", "int16", "int32", "int64", "float16", "float32", "float64")


@dataclass(frozen=True)
class _Field:
    """How compiled code reads one feature."""

    kind: int
    size: int
    """Bytes of a raw one, else values."""


def parse(records: tf.Tensor, features: Mapping[str, Feature]) -> dict[str, tf.Tensor]:
    """records: string [batch] -> each feature as its spec says.

    InvalidArgumentError, when it runs, for what is no Example, and for a feature that is missing, of another kind or of
    another size.
    """
    fields, ops = _fields(features), native.ops("records")
    if fields is None or ops is None:
        return parse_plain(records, features)
    values = ops.tfhet_parse_examples(records, T=_types(fields), layout=_layout(fields))
    return _decoded(values, fields, features)


def parse_plain(records: tf.Tensor, features: Mapping[str, Feature]) -> dict[str, tf.Tensor]:
    """The same by tf.io alone."""
    values = tf.io.parse_example(records, {name: feature.stored() for name, feature in features.items()})
    return {name: feature.decode(values[name]) for name, feature in features.items()}


def held(record: bytes) -> str | None:
    """The features of one serialised Example with their kinds, for people; None when it is no Example."""
    try:
        example = tf.train.Example.FromString(record)
    except Exception:  # noqa: BLE001  protobuf's DecodeError lives at another place in each of its versions
        return None
    features = sorted((name, value.WhichOneof("kind") or "empty") for name, value in example.features.feature.items())
    return ", ".join(f"{name} ({kind.removesuffix('_list')})" for name, kind in features) or "no features"


def blocks_readable(files: tuple[str, ...], features: Mapping[str, Feature]) -> bool:
    """Whether `read_blocks` can serve these files: local ones, of numbers only (images that are still to be decoded are
    worth a thread of their own, batch by batch)."""
    fields = _fields(features)
    if fields is None or any(field.kind == _BYTES for field in fields.values()):
        return False
    return not any("://" in file for file in files) and native.available("records")


def read_blocks(
    file: tf.Tensor, first_id: tf.Tensor, epoch: tf.Tensor, features: Mapping[str, Feature], skip_bad: bool = False
) -> tf.data.Dataset:
    """The examples of one TFRecord file (string []) in order, as (ids int64 [block], counted from `first_id` on, epochs
    int64 [block], features by name, each [block, ...]); blocks of about BLOCK_BYTES, at least one example in each.

    NotFoundError for a missing file, DataLossError with file and byte for a broken one. `skip_bad`: neither of them;
    bad records are left out, with their ids, and a file ends where it breaks off.
    """
    fields, ops = _fields(features), native.ops("records")
    assert fields is not None and ops is not None
    layout, types = _layout(fields), _types(fields)

    def block(state: tuple[tf.Tensor, tf.Tensor], _: tf.Tensor) -> Any:
        offset, number = state
        offset, number, ids, epochs, values = ops.tfhet_read_examples(
            file, offset, number, epoch, T=types, layout=layout, block_bytes=BLOCK_BYTES, skip_bad=int(skip_bad)
        )
        for tensor, shape in ((offset, []), (number, []), (ids, [None]), (epochs, [None])):
            tensor.set_shape(shape)
        return (offset, number), (ids, epochs, _decoded(values, fields, features))

    start = (tf.constant(0, tf.int64), first_id)
    blocks = tf.data.Dataset.range(tf.int64.max).scan(start, block)
    return blocks.take_while(lambda ids, epochs, examples: tf.size(ids) > 0)


def _fields(features: Mapping[str, Feature]) -> dict[str, _Field] | None:
    """None when one of the features is nothing that compiled code reads."""
    fields = {name: _field(feature) for name, feature in features.items()}
    known = {name: field for name, field in fields.items() if field is not None}
    return known if len(known) == len(fields) else None


def _field(feature: Feature) -> _Field | None:
    if type(feature) is Raw and feature.dtype in _RAW_DTYPES:
        field = _Field(_RAW, math.prod(feature.shape) * tf.as_dtype(feature.dtype).size)
    elif type(feature) in (Fixed, Scalar, Encoded):
        stored = feature.stored()
        field = _Field(_LIST[stored.dtype], math.prod(stored.shape))
    else:  # a class of somebody else's, or tf.io's own
        return None
    return field if field.size > 0 else None


def _types(fields: Mapping[str, _Field]) -> list[tf.DType]:
    return [_TENSOR[field.kind] for field in fields.values()]


def _layout(fields: Mapping[str, _Field]) -> bytes:
    return b"".join(
        b"%d %d %d:%s" % (field.kind, field.size, len(name.encode()), name.encode()) for name, field in fields.items()
    )


def _decoded(
    values: list[tf.Tensor], fields: Mapping[str, _Field], features: Mapping[str, Feature]
) -> dict[str, tf.Tensor]:
    """What the compiled code gives, each [batch, size], as the features' specs say."""
    made = {}
    for value, (name, field) in zip(values, fields.items(), strict=True):
        feature = features[name]
        value.set_shape([None, field.size])
        if isinstance(feature, Raw):
            dtype = tf.as_dtype(feature.dtype)
            if dtype.size > 1:
                value = tf.reshape(value, [-1, field.size // dtype.size, dtype.size])
            if dtype != tf.uint8:
                value = tf.bitcast(value, dtype)
            made[name] = tf.reshape(value, [-1, *feature.shape])
        else:
            made[name] = feature.decode(tf.reshape(value, [-1, *feature.stored().shape]))
    return made
