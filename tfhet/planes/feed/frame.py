"""Frames: how a batch of any Python goes over a connection, as a JSON header and raw buffers, without pickle.

    header, buffers = packed({"image": images, "label": [3, 1]})
    batch = BatchLayout(header).batch(received)      # arrays are views of the memory received

A frame holds messages, each a header with buffers. It is 16 bytes, the lengths of all headers and of all buffers
(big-endian); a JSON list of the headers, objects whose `bytes` is the length of their buffers; and the buffers, one
after the other, each at a multiple of ALIGNMENT bytes.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tfhet.errors import DataError
from tfhet.units import MIB

LENGTHS = struct.Struct("!QQ")
MOST_HEADER = 64 * MIB
"""Longest header in bytes: it holds the texts of a batch."""
MOST_REQUEST = MIB
"""Longest header of what a reader sends."""
ALIGNMENT = 64
"""Buffers begin at multiples of this many bytes, as vector instructions and devices like them."""
_PADDING = bytes(ALIGNMENT)
ENCODER, _DECODER = json.JSONEncoder(separators=(",", ":")), json.JSONDecoder()
_ODD = (KeyError, TypeError, ValueError, RecursionError, AttributeError, OverflowError, SyntaxError)
"""Exceptions that odd trees make Python and NumPy raise."""


class FrameError(DataError):
    """The bytes that came are no frame of this version: the connection is of no use any more."""


def packed(value: Any) -> tuple[Any, list[memoryview]]:
    """A batch as a tree of JSON values, in which arrays are their dtypes and shapes, and the memory of those arrays.

    value: NumPy arrays, tensors of PyTorch, TensorFlow or JAX, numbers, texts, bytes and None, in any nest of dicts
    with texts as keys, lists and tuples. Raises DataError, naming the part, for anything else."""
    buffers: list[memoryview] = []
    return _packed(value, "batch", buffers), buffers


def _packed(value: Any, where: str, buffers: list[memoryview]) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return {"value": value}
    if isinstance(value, Mapping):
        if odd := [key for key in value if not isinstance(key, str)]:
            raise DataError(f"{where} has the key {odd[0]!r}: a feed sends dicts whose keys are texts")
        return {"dict": {key: _packed(one, f"{where}[{key!r}]", buffers) for key, one in value.items()}}
    if isinstance(value, (list, tuple)):
        kind = "list" if isinstance(value, list) else "tuple"
        return {kind: [_packed(one, f"{where}[{at}]", buffers) for at, one in enumerate(value)]}
    if isinstance(value, (bytes, bytearray)):
        buffers.append(memoryview(value))
        return {"bytes": len(value)}
    array = _array(value, where)
    if array.dtype.hasobject or not array.dtype.itemsize:  # the second: texts without a letter
        return _packed(array.tolist(), where, buffers)
    if array.dtype.kind == "V":
        raise DataError(f"{where} is of the dtype {array.dtype}, which a feed does not send: give each field by itself")
    array = np.ascontiguousarray(array).reshape(array.shape)  # the first makes an array of a scalar
    if array.size:
        buffers.append(array.reshape(-1).view(np.uint8).data)
    return {"array": array.dtype.str, "shape": list(array.shape)}


def _array(value: Any, where: str) -> np.ndarray:
    """The array of an array, a scalar of NumPy, or another library's tensor, in whose memory it stays if it can."""
    if isinstance(value, (np.ndarray, np.generic)):
        return np.asarray(value)
    if hasattr(value, "detach") and hasattr(value, "cpu"):  # PyTorch, which need not be here
        value = value.detach().cpu()
        if str(value.dtype) == "torch.bfloat16":
            raise DataError(f"{where} is bfloat16, which NumPy has not: send float32, or uint8 and convert it there")
        return np.asarray(value.numpy())
    if hasattr(value, "__array__"):
        return np.asarray(value)
    raise DataError(
        f"{where} is of type {type(value).__module__}.{type(value).__name__}: a feed sends arrays, tensors, numbers, "
        "texts and bytes, in dicts, lists and tuples"
    )


Message = tuple[Mapping[str, Any], Sequence[memoryview]]
"""A header, and buffers that go with it."""


def joined(messages: Sequence[Message]) -> list[memoryview]:
    """The pieces of a frame, in the order in which they are written."""
    headers: list[Mapping[str, Any]] = []
    pieces: list[memoryview] = []
    total = 0
    for header, buffers in messages:
        begin = total
        for buffer in buffers:
            pieces.append(buffer)
            total += buffer.nbytes
            if gap := -buffer.nbytes % ALIGNMENT:
                pieces.append(memoryview(_PADDING)[:gap])
                total += gap
        headers.append({**header, "bytes": total - begin} if buffers else header)
    head = ENCODER.encode(headers).encode()
    return [memoryview(LENGTHS.pack(len(head), total)), memoryview(head), *pieces]


def headers_of(text: bytes | bytearray | memoryview, size: int) -> list[tuple[dict[str, Any], int]]:
    """The headers that were received, each with the number of bytes of its buffers, of which all have `size`. Raises
    FrameError."""
    try:
        whole = str(text, "utf-8")
        headers, end = _DECODER.raw_decode(whole)
        if end != len(whole):
            raise ValueError(f"something follows at character {end}")
        found = [(header, header.get("bytes", 0)) for header in headers]
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise FrameError(f"headers that are no JSON: {error}") from None
    sizes = [one for _, one in found]
    if not sizes or any(type(one) is not int or one < 0 for one in sizes) or sum(sizes) != size:
        raise FrameError(f"headers of {sizes} bytes in a frame of {size}")
    return found


class BatchLayout:
    """How a batch lies in memory: made once of a tree, for all batches that have the same one."""

    def __init__(self, tree: Any):
        """Raises FrameError for what is no tree."""
        self.bytes = 0
        """Number of bytes of its buffers, which begin at multiples of ALIGNMENT."""
        try:
            self._make = self._maker(tree)
        except _ODD as error:
            raise FrameError(f"a batch that cannot be read: {type(error).__name__}: {error}") from None

    def batch(self, memory: np.ndarray) -> Any:
        """memory: uint8 [bytes], the buffers as they were received; arrays are views of it. Raises FrameError for less
        than the tree tells."""
        if memory.size < self.bytes:
            raise FrameError(f"a batch of {memory.size} bytes is too short for its arrays, of {self.bytes}")
        try:
            return self._make(memory)
        except _ODD as error:
            raise FrameError(f"a batch that cannot be made: {type(error).__name__}: {error}") from None

    def _maker(self, tree: Any) -> Callable[[np.ndarray], Any]:
        """The function that makes the value of a tree from the memory."""
        if "array" in tree:
            return self._maker_of_array(np.dtype(tree["array"]), tuple(int(size) for size in tree["shape"]))
        if "dict" in tree:
            parts = {str(key): self._maker(one) for key, one in tree["dict"].items()}
            return lambda memory: {key: make(memory) for key, make in parts.items()}
        if "list" in tree or "tuple" in tree:
            kind = list if "list" in tree else tuple
            makers = [self._maker(one) for one in tree["list" if "list" in tree else "tuple"]]
            return lambda memory: kind([make(memory) for make in makers])
        if "bytes" in tree:
            begin, size = self._next(int(tree["bytes"]))
            return lambda memory: memory[begin : begin + size].tobytes()
        value = tree["value"]
        return lambda memory: value

    def _maker_of_array(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Callable[[np.ndarray], Any]:
        if dtype.hasobject or not dtype.itemsize or min(shape, default=0) < 0:
            raise FrameError(f"an array of {dtype} {shape}")
        begin, size = self._next(dtype.itemsize * math.prod(shape))  # not NumPy's product, which overflows
        if not size:
            return lambda memory: np.zeros(shape, dtype)
        return lambda memory: np.ndarray(shape, dtype, memory, begin)

    def _next(self, size: int) -> tuple[int, int]:
        """Where the next buffer begins, and its size."""
        if size < 0:
            raise FrameError(f"a buffer of {size} bytes")
        begin = -(-self.bytes // ALIGNMENT) * ALIGNMENT
        self.bytes = begin + size
        return begin, size


def examples_in(batch: Any) -> int:
    """Number of examples in a batch: the length of its first array, list of texts, or list of numbers; else 1."""
    if isinstance(batch, np.ndarray):
        return len(batch) if batch.ndim else 1
    if isinstance(batch, dict):
        batch = list(batch.values())
    if isinstance(batch, (list, tuple)) and batch:
        return examples_in(batch[0]) if isinstance(batch[0], (np.ndarray, list, tuple, dict)) else len(batch)
    return 1
