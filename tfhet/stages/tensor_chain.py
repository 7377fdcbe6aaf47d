"""Chains of stages on TensorFlow's tensors, by one op of the compiled core."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from tfhet import kernels, native
from tfhet.extras import tensorflow as tf
from tfhet.stages.program import Segment
from tfhet.stages.spec import ImageSpec

if TYPE_CHECKING:
    import tensorflow


def run(
    segment: Segment, images: tensorflow.Tensor, ids: tensorflow.Tensor, epochs: tensorflow.Tensor, seed: int
) -> tuple[tensorflow.Tensor, list[dict[str, tensorflow.Tensor]]]:
    """Runs a segment of a program.

    Args:
        segment: A segment that the core runs.
        images: uint8 or float32 [batch, height, width, channels], or the contents of files, string [batch].
        ids: Example ids, int64 [batch].
        epochs: Numbers of epochs, int64 [batch].
        seed: Seed of the run.

    Returns:
        Images [batch, height, width, channels] without a static shape, and the parameters of each stage.
    """
    assert segment.chain is not None
    result, drawn = native.chain_ops().tfhet_chain(
        images,
        ids,
        epochs,
        tf.zeros([0, 0], tf.float64),
        result_type=tf.as_dtype(segment.steps[-1].stages[-1].output.dtype),
        chain=segment.chain.text,
        salts=" ".join(map(str, segment.salts(seed).tolist())),
    )
    numbers = {each.declared: salt for salt, each in enumerate(segment.salted)}
    parameters: dict[int, dict[str, tensorflow.Tensor]] = {}
    for each in segment.chain.parameters:
        parameters.setdefault(each.salt, {})[each.name] = _part(drawn, each)
    return result, [dict(parameters.get(numbers.get(each.declared, -1), {})) for each in segment.stages]


_DTYPES: Mapping[type, str] = {np.float32: "float32", np.int32: "int32", np.bool_: "bool", np.uint64: "uint64"}


def _part(drawn: tensorflow.Tensor, parameter: kernels.Parameter) -> tensorflow.Tensor:
    """Returns one parameter, [batch] or [batch, k], of drawn values, float64 [batch, slots]."""
    part = drawn[:, parameter.begin : parameter.end]
    dtype = tf.as_dtype(_DTYPES[parameter.dtype])
    part = tf.bitcast(part, dtype) if dtype == tf.uint64 else tf.cast(part, dtype)
    width = parameter.end - parameter.begin
    return tf.ensure_shape(part, [None, width]) if parameter.is_vector else tf.reshape(part, [-1])


def drawn(
    chain: kernels.Chain, keys: tensorflow.Tensor, dtype: str, shape: tuple[int, int, int]
) -> dict[str, tensorflow.Tensor]:
    """Returns the parameters of a chain of one stage for keys, uint64 [batch], and images of a dtype and shape."""
    height, width, channels = shape
    how = {"T": tf.as_dtype(dtype), "height": height, "width": width, "channels": channels}
    values = native.chain_ops().tfhet_draw(keys, chain=chain.text, **how)
    return {each.name: _part(values, each) for each in chain.parameters}


def applied(
    chain: kernels.Chain, images: tensorflow.Tensor, parameters: Mapping[str, tensorflow.Tensor], output: ImageSpec
) -> tensorflow.Tensor:
    """Returns the images after a chain of one stage with given parameters. output: spec of the result."""
    given = [_slots(parameters[each.name], each) for each in chain.parameters]
    nothing = tf.zeros([0], tf.int64)
    result, _ = native.chain_ops().tfhet_chain(
        images,
        nothing,
        nothing,
        tf.concat(given, axis=1) if given else tf.zeros([0, 0], tf.float64),
        result_type=tf.as_dtype(output.dtype),
        chain=chain.text,
        salts="",
    )
    return native.shaped(result, [images.shape[0], output.height, output.width, output.channels])


def _slots(values: tensorflow.Tensor, parameter: kernels.Parameter) -> tensorflow.Tensor:
    """Returns a parameter as float64 [batch, k]."""
    values = tf.cast(tf.convert_to_tensor(values), _DTYPES[parameter.dtype])
    values = tf.bitcast(values, tf.float64) if values.dtype == tf.uint64 else tf.cast(values, tf.float64)
    return tf.reshape(values, [-1, parameter.end - parameter.begin])
