"""Frames: a batch of Python values as a JSON header and raw buffers, without pickle; and the memory to receive it.

    tree, buffers = packed({"image": images, "label": [3, 1]})
    batch = BatchLayout(tree).batch(received)      # arrays are views of the memory received

A frame holds messages, each a header with buffers. It is a record (`tfhet.secure`): its message is a JSON list of the
headers, whose `size` is the length of their buffers, and its data are the buffers, each at a multiple of ALIGNMENT
bytes.
"""

from __future__ import annotations

import json
import math
import re
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta

from tfhet.errors import DataError
from tfhet.schema import Count, Message, MessageError, decode, encode
from tfhet.units import MIB

MOST_HEADER = 64 * MIB
"""Maximum length of a header in bytes; it holds the texts of a batch."""
MOST_REQUEST = MIB
"""Maximum length of a reader's header in bytes."""
ALIGNMENT = 64
"""Alignment of buffers in bytes, for vector instructions and devices."""
_PADDING = bytes(ALIGNMENT)
MOST_SEGMENTS = 64
"""Maximum number of segments of shared memory of a connection."""
MOST_KEPT = 64
"""Maximum number of pieces of memory in a pool."""
_OWN_REFERENCES = 3
"""References to a piece by the pool: in its list, in a loop, and in the call that counts them."""


class Segment(Message, frozen=True, omit_defaults=True, tag=False):
    """The part of the shared memory of two processes that has a message's buffers (`shared_memory`)."""

    number: Annotated[int, Meta(ge=1, le=MOST_SEGMENTS)]
    size: Count
    """Length of the buffers in bytes."""
    is_new: bool = False
    """Whether the descriptor of its memory file follows the frame."""


class Header(Message, frozen=True, omit_defaults=True, kw_only=True):
    """Base class of the messages of a feed."""

    size: Count = 0
    """Length of the buffers that follow, in bytes."""
    segment: Segment | None = None
    """The place of the buffers, if they do not follow."""
    released: Annotated[tuple[Annotated[int, Meta(ge=1)], ...], Meta(max_length=MOST_SEGMENTS)] = ()
    """Numbers of the segments that the sender of this message has used."""


class Array(Message, frozen=True):
    """An array in the next buffer."""

    dtype: str
    shape: Annotated[tuple[Count, ...], Meta(max_length=32)]


class Dict(Message, frozen=True):
    parts: dict[str, Tree]


class List(Message, frozen=True):
    parts: tuple[Tree, ...]
    is_tuple: bool = False


class PythonJson(Message, frozen=True):
    """A number or text that only Python's JSON has: NaN, infinity, an unpaired surrogate."""

    text: str


class Bytes(Message, frozen=True):
    """Bytes in the next buffer."""

    length: Count


Allocate = Callable[[int], np.ndarray]
"""Returns memory for a batch of so many bytes, uint8 [n]."""
Tree = Array | Dict | List | PythonJson | Bytes | str | int | float | bool | None
"""A batch without the memory of its arrays; it contains numbers and texts as they are."""


def packed(value: Any) -> tuple[Tree, list[memoryview]]:
    """Splits a batch into a tree and the memory of its arrays. A batch has arrays of NumPy, PyTorch, TensorFlow or JAX,
    numbers, texts, bytes and None, in dicts with texts as keys, lists and tuples. Raises DataError for others."""
    buffers: list[memoryview] = []
    return _packed(value, "batch", buffers), buffers


def _packed(value: Any, where: str, buffers: list[memoryview]) -> Tree:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value if _is_plain(value) else PythonJson(json.dumps(value))
    if isinstance(value, Mapping):
        if odd := [key for key in value if not isinstance(key, str)]:
            raise DataError(f"{where} has the key {odd[0]!r}: a feed sends dicts whose keys are texts")
        return Dict({key: _packed(one, f"{where}[{key!r}]", buffers) for key, one in value.items()})
    if isinstance(value, (list, tuple)):
        parts = tuple(_packed(one, f"{where}[{at}]", buffers) for at, one in enumerate(value))
        return List(parts, isinstance(value, tuple))
    if isinstance(value, (bytes, bytearray)):
        buffers.append(memoryview(value))
        return Bytes(len(value))
    array = _array(value, where)
    if array.dtype.hasobject or not array.dtype.itemsize:  # the second: texts without a letter
        return _packed(array.tolist(), where, buffers)
    if array.dtype.kind == "V":
        raise DataError(f"{where} is of the dtype {array.dtype}, which a feed cannot send: split its fields")
    if not array.flags.c_contiguous:
        array = np.ascontiguousarray(array)
    if array.size:
        buffers.append(array.reshape(-1).view(np.uint8).data)
    return Array(array.dtype.str, array.shape)


def _is_plain(value: bool | int | float | str | None) -> bool:
    """Whether every JSON reader has this value."""
    if isinstance(value, str):
        return value.isascii() or not re.search("[\ud800-\udfff]", value)
    return value is None or math.isfinite(value)


def _array(value: Any, where: str) -> np.ndarray:
    """Returns the array of a NumPy value or of another library's tensor, in the same memory if possible."""
    if isinstance(value, (np.ndarray, np.generic)):
        return np.asarray(value)
    if hasattr(value, "detach") and hasattr(value, "cpu"):  # PyTorch, without importing it
        value = value.detach().cpu()
        if str(value.dtype) == "torch.bfloat16":
            raise DataError(f"{where} is bfloat16, which NumPy lacks: send float32 or uint8")
        return np.asarray(value.numpy())
    if hasattr(value, "__array__"):
        return np.asarray(value)
    raise DataError(
        f"{where} is of type {type(value).__module__}.{type(value).__name__}: a feed sends arrays, tensors, numbers, "
        "texts and bytes, in dicts, lists and tuples"
    )


def padded(buffers: Sequence[memoryview]) -> tuple[list[memoryview], int]:
    """Returns buffers with the bytes that align the next one, and the length of all in bytes."""
    pieces, size = list[memoryview](), 0
    for buffer in buffers:
        pieces.append(buffer)
        size += buffer.nbytes
        if gap := -buffer.nbytes % ALIGNMENT:
            pieces.append(memoryview(_PADDING)[:gap])
            size += gap
    return pieces, size


def joined(
    messages: Sequence[tuple[Header, Sequence[memoryview]]], least: int = 0
) -> tuple[bytes, list[list[memoryview]], int]:
    """Returns the headers of a frame, in at least `least` bytes, the buffers of each message in the order of writing,
    and the length of all buffers in bytes."""
    headers: list[Header] = []
    pieces: list[list[memoryview]] = []
    total = 0
    for header, buffers in messages:
        found, size = padded(buffers)
        headers.append(msgspec.structs.replace(header, size=size) if buffers else header)
        pieces.append(found)
        total += size
    return encode(headers, MOST_HEADER).ljust(least), pieces, total


def headers_of(text: bytes | memoryview, size: int, kinds: Any) -> list[Any]:
    """Parses received headers of the types `kinds`. size: length of all buffers in bytes. Raises MessageError."""
    headers: list[Any] = decode(text, list[kinds])
    sizes = [header.size for header in headers]
    if not sizes or sum(sizes) != size:
        raise MessageError(f"headers of {sizes} bytes in a frame of {size}")
    return headers


class BatchLayout:
    """The layout of batches with the same tree. Raises MessageError for an invalid dtype or value."""

    def __init__(self, tree: Tree):
        self.bytes = 0
        """Number of bytes of the buffers with their alignment."""
        self._make = self._maker(tree)

    def batch(self, memory: np.ndarray) -> Any:
        """Returns the batch; its arrays are views of `memory`, the received buffers, uint8 [bytes]. Raises MessageError
        if `memory` is shorter than the layout."""
        if memory.size < self.bytes:
            raise MessageError(f"a batch of {memory.size} bytes is too short for its arrays, of {self.bytes}")
        return self._make(memory)

    def _maker(self, tree: Tree) -> Callable[[np.ndarray], Any]:
        """Returns the function that makes the value of a tree from the memory."""
        if not isinstance(tree, Message):
            return lambda memory: tree
        match tree:
            case Array():
                return self._maker_of_array(tree)
            case Dict():
                parts = {key: self._maker(one) for key, one in tree.parts.items()}
                return lambda memory: {key: make(memory) for key, make in parts.items()}
            case List():
                kind, makers = tuple if tree.is_tuple else list, [self._maker(one) for one in tree.parts]
                return lambda memory: kind([make(memory) for make in makers])
            case PythonJson():
                try:
                    value = json.loads(tree.text)
                except (ValueError, RecursionError) as error:
                    raise MessageError(f"a value that cannot be read: {error}") from None
                return lambda memory: value
            case Bytes():
                begin, size = self._next(tree.length)
                return lambda memory: memory[begin : begin + size].tobytes()

    def _maker_of_array(self, tree: Array) -> Callable[[np.ndarray], Any]:
        shape, length = tree.shape, math.prod(tree.shape)  # NumPy's product overflows
        try:
            dtype = np.dtype(tree.dtype)
            empty = None if length else np.zeros(shape, dtype)
        except (TypeError, ValueError, SyntaxError) as error:
            raise MessageError(f"an array that cannot be made: {error}") from None
        if dtype.kind in "OV" or not dtype.itemsize:
            raise MessageError(f"an array of {dtype}")
        begin, _ = self._next(dtype.itemsize * length)
        return lambda memory: np.ndarray(shape, dtype, memory, begin) if empty is None else empty.copy()

    def _next(self, size: int) -> tuple[int, int]:
        """Returns the position of the next buffer and its size."""
        begin = -(-self.bytes // ALIGNMENT) * ALIGNMENT
        self.bytes = begin + size
        return begin, size


def examples_in(batch: Any) -> int:
    """Returns the number of examples in a batch: the length of its first array or list of texts or numbers, or 1."""
    if isinstance(batch, np.ndarray):
        return len(batch) if batch.ndim else 1
    if isinstance(batch, dict):
        batch = list(batch.values())
    if isinstance(batch, (list, tuple)) and batch:
        return examples_in(batch[0]) if isinstance(batch[0], (np.ndarray, list, tuple, dict)) else len(batch)
    return 1


class MemoryPool:
    """Memory for received batches, used again when nothing refers to a batch any more. The kernel must fill fresh
    memory with zeros, which costs as much CPU as receiving into it."""

    def __init__(self) -> None:
        self._pieces: list[np.ndarray] = []
        self._lock = threading.Lock()

    def allocate(self, size: int) -> np.ndarray:
        """Returns uninitialized memory that nothing else refers to, uint8 [size]. Raises MemoryError."""
        most = size + size // 4
        with self._lock:
            for piece in self._pieces:
                if sys.getrefcount(piece) == _OWN_REFERENCES and size <= piece.size <= most:
                    return piece[:size]
            piece = np.empty(size, np.uint8)
            if len(self._pieces) >= MOST_KEPT:  # its users keep the oldest piece
                del self._pieces[0]
            self._pieces.append(piece)
            return piece[:size]
