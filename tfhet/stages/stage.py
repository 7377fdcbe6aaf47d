"""The stage: one named, configured operation on a batch of images."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn

import tensorflow as tf

from tfhet.errors import UsageError
from tfhet.stages.line import Line
from tfhet.stages.spec import ImageSpec

_MISSING = {
    "encoded": "the images are not decoded yet: put decode before it, or state a size for the source's Encoded images",
    "ragged": "the images differ in size: put random_resized_crop, resize or resized_center_crop behind decode",
    "images": "the images are decoded already: leave it out, or state no size for the source's Encoded images",
}


@dataclass(frozen=True)
class Stage:
    """One operation on `[batch, height, width, channels]`; its dataclass fields are its configuration.

    A stage is a value: two stages with equal fields do the same. It draws nothing while it is applied: what is random
    about it comes from `parameters`, one row per example, from that example's key alone.
    """

    name: ClassVar[str] = ""
    """The name in the registry; set by `register`."""
    random: ClassVar[bool] = False
    """Whether `parameters` draws anything."""
    rescales: ClassVar[bool] = False
    """Whether this stage is itself x -> a*x + b."""
    pointwise: ClassVar[bool] = False
    """Whether a value of the result depends on that value of the image, its channel and the parameters alone."""
    measures: ClassVar[bool] = False
    """Whether `line` also wants what `measured` finds in the very images that the stage gets, so that of several lines
    that are drawn together only the first may be of such a stage."""

    variadic: ClassVar[str] = ""
    """The field that all positional arguments go to when the stage is written as text; "": each has its own."""

    takes: ClassVar[tuple[str, ...]] = ("images",)
    """The forms of images that it works on: see `ImageSpec.form`."""

    # Four flags that may follow from the configuration. Where they do not, a subclass states them like the others:
    # `keeps_shape: ClassVar[bool] = False`.

    @property
    def keeps_shape(self) -> bool:
        """Whether height, width and channels come out as they went in."""
        return True

    @property
    def keeps_range(self) -> bool:
        """Whether dtype, low and high come out as they went in."""
        return True

    @property
    def commutes_with_rescale(self) -> bool:
        """Whether x -> a*x + b (a > 0) may be moved from before this stage to after it, within one grey level."""
        return False

    @property
    def relabels(self) -> bool:
        """Whether `labels` changes anything."""
        return False

    def __post_init__(self) -> None:
        """Brings each field to its declared type; raises UsageError for one that does not fit."""
        hints = typing.get_type_hints(type(self))
        for field in dataclasses.fields(self):
            object.__setattr__(self, field.name, self._typed(field.name, getattr(self, field.name), hints[field.name]))

    def _typed(self, field: str, value: Any, kind: Any) -> Any:
        if kind is float and type(value) is int:
            return float(value)
        if kind in (int, float, bool, str) and type(value) is not kind:
            self.refuse(f"{field} is {kind.__name__}, not {value!r}")
        return value

    def refuse(self, why: str) -> NoReturn:
        """Raises a UsageError that names this stage."""
        raise UsageError(f"stage {self.name or type(self).__name__}: {why}")

    def admit(self, spec: ImageSpec) -> None:
        """Raises UsageError, naming the stage and what to put before it, for images of a form that it does not take."""
        if spec.form not in self.takes:
            self.refuse(_MISSING[spec.form])

    def spec(self, spec: ImageSpec) -> ImageSpec:
        """What comes out when `spec` goes in. Raises UsageError, naming the stage, when that does not fit."""
        return spec

    def parameters(self, keys: tf.Tensor, spec: ImageSpec) -> dict[str, tf.Tensor]:
        """What is drawn for each example.

        keys: uint64 [batch], one per example (`tfhet.stages.randomness.keys`). Each value is [batch] or [batch, k], and
        its row depends on that example's key only. `{}` when the stage is not random.
        """
        return {}

    def apply(self, images: tf.Tensor, parameters: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """images: uint8 or float32 [batch, height, width, channels], the batch possibly symbolic -> the same rank."""
        raise NotImplementedError

    def line(self, parameters: Mapping[str, tf.Tensor], spec: ImageSpec) -> Line | None:
        """The stage as a straight line with ends, on images of `spec`, before results are rounded to whole levels; None
        when it is not one. Of a stage that measures, the parameters hold what it measured too."""
        return None

    def measured(self, images: tf.Tensor) -> dict[str, tf.Tensor]:
        """What `line` needs besides what was drawn, from the images that the stage gets; `{}` unless it measures."""
        return {}

    def label_spec(self, spec: tf.TensorSpec) -> tf.TensorSpec:
        """What comes out when labels of `spec` go in. Raises UsageError, naming the stage, when they do not fit."""
        return spec

    def labels(self, labels: tf.Tensor, parameters: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """[batch, ...] -> [batch, ...]: what the stage does to the labels, drawn with the same parameters."""
        return labels

    def config(self) -> dict[str, object]:
        """All fields by name; JSON values."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
