"""Shape and dtype of a feature, without a framework."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tfhet.extras import tensorflow as tf

if TYPE_CHECKING:
    import tensorflow


@dataclass(frozen=True)
class ArraySpec:
    """Values of a feature for a batch."""

    shape: tuple[int | None, ...]
    """Lengths of the axes, the batch first; None for a length that is not known in advance."""
    dtype: str
    """Name of the dtype, or "string" for byte strings."""

    @classmethod
    def of(cls, spec: Any) -> ArraySpec:
        """Returns an ArraySpec or a `tf.TensorSpec` as ArraySpec."""
        if isinstance(spec, cls):
            return spec
        return cls(tuple(spec.shape), spec.dtype if isinstance(spec.dtype, str) else spec.dtype.name)

    @property
    def is_integer(self) -> bool:
        """Whether values are integers."""
        return self.dtype.startswith(("int", "uint"))

    @property
    def tensor(self) -> tensorflow.TensorSpec:
        """TensorFlow's spec of the values."""
        return tf.TensorSpec(list(self.shape), tf.as_dtype(self.dtype))

    def __str__(self) -> str:
        return f"{self.dtype} {list(self.shape)}"
