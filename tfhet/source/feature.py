"""Features: how a value is stored in a `tf.train.Example`, and the tensor that it becomes; each has a JSON form."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tfhet import extras, kernels, native
from tfhet.errors import DataError, UsageError
from tfhet.schema import Count, from_json as parsed
from tfhet.source import encoding
from tfhet.source.array_spec import ArraySpec

if TYPE_CHECKING:
    import tensorflow as tf
else:  # writing, and the JSON form, need no TensorFlow
    tf = extras.deferred("tensorflow")

NUMPY_DTYPES = (
    *("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"),
    *("float16", "float32", "float64"),
)
"""Names that mean the same dtype to NumPy and TensorFlow."""
_STORED = {"bytes": "string", "int64": "int64", "float": "float32"}  # of the lists in an Example


@dataclass(frozen=True)
class Feature:
    """One feature of an example. `kind` names the class in the JSON form."""

    kind: ClassVar[str]

    def stored(self) -> Any:
        """Returns the tf.io feature that reads it from an Example."""
        raise NotImplementedError

    def decode(self, values: tf.Tensor) -> tf.Tensor:
        """Turns what `stored` reads, [batch, ...], into [batch, ...] as `spec` says."""
        raise NotImplementedError

    def encode(self, value: Any) -> bytes:
        """Returns one example's value as a serialised `tf.train.Feature`. Raises UsageError if it does not fit."""
        raise NotImplementedError

    @property
    def spec(self) -> Any:
        """ArraySpec of what `decode` returns, the leading dimension None; a spec of TensorFlow for `Native`."""
        raise NotImplementedError

    def as_json(self) -> dict[str, Any]:
        return {"kind": self.kind, **{f.name: getattr(self, f.name) for f in fields(self) if f.init}}


@dataclass(frozen=True)
class _Shaped(Feature):
    """A tensor of a fixed shape."""

    shape: Sequence[Count]
    """Shape of one example; () for one number."""
    dtype: str = "float32"
    """Dtype of the tensor."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", tuple(self.shape))

    @property
    def spec(self) -> ArraySpec:
        dtype = "string" if self.dtype == "string" else _numpy_dtype(self.dtype).name
        return ArraySpec((None, *self.shape), dtype)

    def _fitting(self, value: Any) -> np.ndarray:
        array = np.asarray(value)
        if array.shape != self.shape:
            raise UsageError(f"a value of shape {array.shape} does not fit a feature of shape {self.shape}")
        return _cast(array, _numpy_dtype(self.dtype), f"a feature of {self.dtype}")


def _numpy_dtype(name: str) -> np.dtype[Any]:
    """Returns the dtype of a name. TensorFlow knows `bfloat16` and others, and calls float32 `float`."""
    return np.dtype(name if name in NUMPY_DTYPES else tf.as_dtype(name).as_numpy_dtype)


def _is_float(dtype: np.dtype[Any]) -> bool:
    return "float" in dtype.name  # NumPy does not count bfloat16 among its floats


def _cast(array: np.ndarray, dtype: np.dtype[Any], what: str) -> np.ndarray:
    """Casts numbers. Raises UsageError for values that change, except by rounding of one float type to another."""
    refusal = f"values of {array.dtype} do not fit {what}"
    if array.dtype.kind not in "biu" and not _is_float(array.dtype):
        raise UsageError(refusal)
    with np.errstate(all="ignore"):
        cast = array.astype(dtype)
        if _is_float(dtype) and _is_float(array.dtype):
            fits = np.isfinite(cast) == np.isfinite(array)
        else:  # the way back alone would accept a sign that wraps around twice
            fits = (cast == array) & (cast.astype(array.dtype) == array)
    if not fits.all():
        raise UsageError(f"{refusal}, for example {array[~fits].flat[0]}")
    return cast


@dataclass(frozen=True)
class Raw(_Shaped):
    """A tensor as the bytes of its elements, little-endian, C order: `array.tobytes()`."""

    dtype: str = "uint8"

    kind: ClassVar[str] = "raw"

    def stored(self) -> Any:
        return tf.io.FixedLenFeature([], tf.string)

    def decode(self, values: tf.Tensor) -> tf.Tensor:
        # Checked here, because two images of half the size would silently reshape into one.
        flat = tf.ensure_shape(tf.io.decode_raw(values, tf.as_dtype(self.dtype)), [None, math.prod(self.shape)])
        return tf.reshape(flat, [-1, *self.shape])

    def encode(self, value: Any) -> bytes:
        array = self._fitting(value)
        little_endian = array.astype(array.dtype.newbyteorder("<"), copy=False)
        return encoding.bytes_feature([little_endian.tobytes()])

    def array(self, stored: Any) -> np.ndarray:
        """Turns stored bytes, uint8 [batch, bytes], into [batch, ...] as `spec` says."""
        values = stored.view(np.dtype(self.dtype).newbyteorder("<")).reshape(-1, *self.shape)
        return values.astype(self.dtype, copy=False)


@dataclass(frozen=True)
class Fixed(_Shaped):
    """A tensor of numbers or strings, as a list in the Example: integers as int64, floats as float32."""

    kind: ClassVar[str] = "fixed"

    def stored(self) -> Any:
        return tf.io.FixedLenFeature(self.shape, tf.as_dtype(_STORED[self.stored_kind]))

    @property
    def stored_kind(self) -> str:
        """Kind of the list in the Example: bytes, int64 or float."""
        if self.dtype == "string":
            return "bytes"
        return "int64" if _numpy_dtype(self.dtype).kind in "biu" else "float"

    def array(self, stored: Any) -> np.ndarray:
        """As `Raw.array`, of stored numbers, [batch, values]. Raises DataError if they do not fit."""
        try:
            return _cast(stored, _numpy_dtype(self.dtype), self.dtype).reshape(-1, *self.shape)
        except UsageError as error:
            raise DataError(str(error)) from None

    def decode(self, values: tf.Tensor) -> tf.Tensor:
        """Raises InvalidArgumentError, when it runs, for values that the dtype cannot hold."""
        if values.dtype == self.dtype:
            return values
        message = [f"values do not fit {self.dtype}:", values]
        with tf.control_dependencies([tf.debugging.Assert(tf.reduce_all(self.fits(values)), message)]):
            return tf.cast(values, self.dtype)

    def fits(self, values: tf.Tensor) -> tf.Tensor:
        """Returns whether the dtype can hold the stored values of each example, bool [batch]."""
        if values.dtype == self.dtype:
            return tf.fill(tf.shape(values)[:1], True)
        cast = tf.cast(values, self.dtype)
        if cast.dtype.is_floating:
            fits = tf.math.is_finite(cast) == tf.math.is_finite(values)
        else:
            fits = tf.cast(cast, values.dtype) == values
        return tf.reduce_all(fits, axis=list(range(1, len(values.shape))))

    def encode(self, value: Any) -> bytes:
        if self.dtype == "string":
            texts = [text.encode() if isinstance(text, str) else text for text in np.ravel(np.asarray(value, object))]
            return encoding.bytes_feature(texts)
        flat = self._fitting(value).ravel()
        if flat.dtype.kind in "biu":
            return encoding.int64_feature(flat)
        stored = flat.astype(np.float32)
        if self.dtype == "float64" and not np.array_equal(stored, flat, equal_nan=True):
            raise UsageError("an Example stores float32, which rounds these float64 values: use Raw, or dtype float32")
        return encoding.float_feature(stored)


@dataclass(frozen=True)
class Scalar(Fixed):
    """One number or string for each example, like a label: [batch]."""

    shape: Sequence[Count] = field(default=(), init=False, repr=False)
    dtype: str = "int64"

    kind: ClassVar[str] = "scalar"


@dataclass(frozen=True)
class Encoded(Feature):
    """An image file that the stage `decode` reads. With a stated size the core decodes it, and resizes it (bilinear,
    antialiased) if its own size differs. Without one it stays the bytes of its file, for the stage."""

    height: int | None = None
    """Rows of the decoded image; stated together with `width`."""
    width: int | None = None
    """Columns of the decoded image; stated together with `height`."""
    channels: int = 3
    """Channels of the decoded image: 1 (grey) or 3 (RGB)."""
    upright: bool = True
    """Whether the decoded image is turned by the Exif orientation of its file, as photos of phones need."""
    accurate: bool = False
    """Whether JPEG is decoded by the accurate transform (JDCT_ISLOW); see the stage `decode`."""

    kind: ClassVar[str] = "encoded"

    def __post_init__(self) -> None:
        if (self.height is None) != (self.width is None):
            raise UsageError(f"encoded images have a height and a width, or neither, not {self.height}, {self.width}")

    def stored(self) -> Any:
        return tf.io.FixedLenFeature([], tf.string)

    def decode(self, values: tf.Tensor) -> tf.Tensor:
        if self.height is None:
            return values
        nothing = tf.zeros([0], tf.int64)
        made, _ = native.chain_ops().tfhet_chain(
            *(values, nothing, nothing, tf.zeros([0, 0], tf.float64)), result_type=tf.uint8, chain=self._chain, salts=""
        )
        return native.shaped(made, [None, self.height, self.width, self.channels])

    def array(self, stored: Any) -> Any:
        """Decodes files as `decode` does, without TensorFlow. Raises UsageError for a broken one."""
        return stored if self.height is None else kernels.Chain(self._chain).run(stored)

    @property
    def _chain(self) -> str:
        decode = f"(decode channels={self.channels} upright={self.upright:d} accurate={self.accurate:d} reduced=0)"
        resize = f"(resize height={self.height} width={self.width} method='bilinear' antialias=1)"
        return f"(window stages=[{decode} {resize}])"

    def encode(self, value: Any) -> bytes:
        if not isinstance(value, bytes):
            raise UsageError(f"an encoded image is the bytes of its file, not {type(value).__name__}")
        return encoding.bytes_feature([value])

    @property
    def spec(self) -> ArraySpec:
        if self.height is None:
            return ArraySpec((None,), "string")
        return ArraySpec((None, self.height, self.width, self.channels), "uint8")


@dataclass(frozen=True)
class Native(Feature):
    """Any feature of tf.io (`VarLenFeature`, `RaggedFeature`, ...), as TensorFlow reads it."""

    feature: Any
    """The tf.io configuration."""

    kind: ClassVar[str] = "native"

    def stored(self) -> Any:
        return self.feature

    def decode(self, values: tf.Tensor) -> tf.Tensor:
        return values

    def encode(self, value: Any) -> bytes:
        raise UsageError(f"tfhet cannot write {self.feature}: use Raw, Scalar, Fixed or Encoded")

    @property
    def spec(self) -> Any:
        def read(records: tf.Tensor) -> tf.Tensor:
            return tf.io.parse_example(records, {"feature": self.feature})["feature"]

        traced = tf.function(read).get_concrete_function(tf.TensorSpec([None], tf.string))
        given = traced.structured_outputs  # a spec for a plain tensor, symbolic values for a ragged or sparse one
        return given if isinstance(given, tf.TypeSpec) else tf.type_spec_from_value(given)

    def as_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "feature": repr(self.feature)}


KINDS: dict[str, type[Feature]] = {kind.kind: kind for kind in (Raw, Scalar, Fixed, Encoded)}


def from_json(document: dict[str, Any]) -> Feature:
    """Reads what `as_json` returned. Raises UsageError for a feature that this version does not know."""
    values = dict(document)
    kind = KINDS.get(values.pop("kind", ""))
    if kind is not None and values.keys() <= {each.name for each in fields(kind) if each.init}:
        with contextlib.suppress(DataError, TypeError):
            feature = parsed(kind, values, kind.kind, is_strict=True)
            if isinstance(feature, _Shaped) and feature.dtype != "string":
                _numpy_dtype(feature.dtype)
            return feature
    raise UsageError(f"not a feature that this version can read: {document}; known kinds: {', '.join(KINDS)}")
