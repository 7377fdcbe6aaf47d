"""The stage: one named, configured operation on a batch of images.

    @tfhet.stages.register("darken")
    class Darken(tfhet.Stage):
        factor: float = 0.5

        def apply(self, images, parameters):
            return tf.cast(tf.cast(images, tf.float32) * self.factor, images.dtype)

From then on every chain may name it: `"random_flip(); darken(0.8); rescale()"`. docs/pipelines-and-stages.md shows one
that draws random numbers.
"""

from __future__ import annotations

import dataclasses
import math
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NoReturn, TypeAlias

from tfhet.errors import UsageError, check_known
from tfhet.source import ArraySpec
from tfhet.stages.spec import ImageSpec

_MISSING = {
    "encoded": "the images are not decoded yet: put decode before it, or state a size for the source's Encoded images",
    "ragged": "the images differ in size: put random_resized_crop, resize or resized_center_crop after decode",
    "images": "the images are already decoded: omit it, or state no size for the source's Encoded images",
}
_PACKAGE = "tfhet.stages."
Array: TypeAlias = Any
"""A NumPy array, or a tensor of TensorFlow."""


@dataclass(frozen=True)
class Within:
    """Finite numbers from `low` to `high`: what a field declared as `Annotated[float, Within(0, 1)]` may be."""

    low: float = -math.inf
    high: float = math.inf
    above: bool = False
    """Whether `low` itself is not allowed."""
    below: bool = False
    """Whether `high` itself is not allowed."""

    def __contains__(self, value: float) -> bool:
        excluded = (self.above and value == self.low) or (self.below and value == self.high)
        return self.low <= value <= self.high and abs(value) < math.inf and not excluded

    def __str__(self) -> str:
        if self.high < math.inf:
            return f"from {self.low:g} to {'below ' * self.below}{self.high:g}"
        return f"{'above' if self.above else 'at least'} {self.low:g}"


Count: TypeAlias = Annotated[int, Within(1)]
CountOrZero: TypeAlias = Annotated[int, Within(0)]
Finite: TypeAlias = Annotated[float, Within()]
Positive: TypeAlias = Annotated[float, Within(0, above=True)]
PositiveOrZero: TypeAlias = Annotated[float, Within(0)]
Fraction: TypeAlias = Annotated[float, Within(0, 1)]
"""Types of fields with usual limits."""


@dataclass(frozen=True)
class Stage:
    """One operation on `[batch, height, width, channels]`; its dataclass fields are its configuration.

    A field may state what it allows: `Annotated[float, Within(0, 1)]`, `Annotated[str, ("nearest", "bilinear")]`.

    A stage is a value: two stages with equal fields do the same. `apply` draws no random numbers: they come from
    `parameters`, one row per example, which derives from that example's key alone.
    """

    name: ClassVar[str] = ""
    """The name in the registry; set by `register`."""
    random: ClassVar[bool] = False
    """Whether `parameters` draws anything: in a class that defines them, unless it states otherwise."""
    rescales: ClassVar[bool] = False
    """Whether this stage is itself x -> a*x + b."""
    pointwise: ClassVar[bool] = False
    """Whether each value of the result depends only on the same value of the image, its channel and the parameters."""
    is_line: ClassVar[bool] = False
    """Whether the stage is a straight line with ends for each channel, before rounding."""
    measures: ClassVar[bool] = False
    """Whether its line depends on the image. Of several lines that run as one, only the first may depend on it."""
    variadic: ClassVar[str] = ""
    """Field that takes all positional arguments when the stage is written as text; "" gives each field its own."""
    ordered: ClassVar[tuple[tuple[str, str], ...]] = ()
    """Pairs of names of fields: the first field is at most the second."""
    takes: ClassVar[tuple[str, ...]] = ("images",)
    """Forms of images that the stage accepts: see `ImageSpec.form`."""
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
        return False

    def __init_subclass__(cls) -> None:
        if "parameters" in vars(cls) and "random" not in vars(cls):
            cls.random = True

    def __post_init__(self) -> None:
        """Converts each field to its declared type. Raises UsageError for a value that does not fit."""
        hints = typing.get_type_hints(type(self), include_extras=True)
        for field in dataclasses.fields(self):
            object.__setattr__(self, field.name, self._typed(field.name, getattr(self, field.name), hints[field.name]))
        for pair in self.ordered:
            low, high = (getattr(self, name) for name in pair)
            if low > high:
                self.refuse(f"{' is at most '.join(pair)}, not {low}, {high}")

    def _typed(self, field: str, value: Any, kind: Any) -> Any:
        notes: list[Any] = []
        if typing.get_origin(kind) is Annotated:
            kind, *notes = typing.get_args(kind)
        if kind is float and type(value) is int:
            value = float(value)
        if kind in (int, float, bool, str) and type(value) is not kind:
            self.refuse(f"{field} must be {kind.__name__}, not {value!r}")
        for note in notes:
            if isinstance(note, tuple):
                check_known(f"{field} of stage {self.name}", value, note)
            if isinstance(note, Within) and value not in note:
                self.refuse(f"{field} is {note if abs(value) < math.inf else 'finite'}, not {value}")
        return value

    def refuse(self, why: str) -> NoReturn:
        """Raises a UsageError that names this stage."""
        raise UsageError(f"stage {self.name or type(self).__name__}: {why}")

    def check_value(self, field: str, value: float, spec: ImageSpec, whole: bool = False) -> None:
        """Raises UsageError for a value outside the range of images; with `whole`, also for a fraction among uint8."""
        if not spec.low - 1e-6 <= value <= spec.high + 1e-6:
            self.refuse(f"{field} {value:g} is outside the images' range, {spec.low:g} to {spec.high:g}")
        if whole and spec.dtype == "uint8" and value != int(value):
            self.refuse(f"{field} {value:g} is not a whole number, as uint8 images need")

    def known_size(self, spec: ImageSpec) -> tuple[int, int]:
        """Returns height and width of the images. Raises UsageError when one is unknown."""
        if spec.height is None or spec.width is None:
            self.refuse("height and width of the images must be known: resize them before")
        return spec.height, spec.width

    def admit(self, spec: ImageSpec) -> None:
        """Raises UsageError, which says what to put before the stage, for a form of images that it does not accept."""
        if spec.form not in self.takes:
            self.refuse(_MISSING[spec.form])

    def spec(self, spec: ImageSpec) -> ImageSpec:
        """Returns the spec of the results. Raises UsageError, naming the stage, for images that do not fit."""
        return spec

    @property
    def compiled_name(self) -> str:
        """Name of the stage in the compiled core: the name of the package's class from which it derives, or ""."""
        own = (vars(kind).get("name", "") for kind in type(self).__mro__ if kind.__module__.startswith(_PACKAGE))
        return next(filter(None, own), "")

    @property
    def is_compiled(self) -> bool:
        """Whether the compiled core runs the stage: a stage of the package whose methods no subclass replaces."""
        kind: Any = type(self)
        methods = (kind.apply, kind.parameters, kind.config)
        return self.compiled_name != "" and all(each.__module__.startswith(_PACKAGE) for each in methods)

    def config(self) -> dict[str, Any]:
        """Returns the configuration of the stage in the compiled core; for stages of the package."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    def parameters(self, keys: Array, spec: ImageSpec) -> dict[str, Array]:
        """Returns the random parameters by name, each [batch] or [batch, k]; `{}` when the stage is not random.

        Args:
            keys: uint64 [batch], one per example (`tfhet.stages.randomness.keys`), on which alone its row depends; a
                NumPy array or a tensor of TensorFlow, like the result.
            spec: Spec of the images before the stage.
        """
        return self._draw_compiled(keys, spec) if self.compiled_name and self.random else {}

    def apply(self, images: Array, parameters: Mapping[str, Array]) -> Array:
        """Returns the changed images, [batch, height, width, channels] of uint8 or float32; batch may be unknown.

        Args:
            images: A NumPy array or a tensor of TensorFlow, like the result.
            parameters: What `parameters` returned for the batch.
        """
        if not self.compiled_name:
            raise NotImplementedError(f"stage {self.name}: define apply")
        return self._apply_compiled(images, parameters)

    # The compiled core's part, which `tfhet.stages.alone` sets: it needs this class.
    _draw_compiled: ClassVar[Callable[..., dict[str, Array]]]
    _apply_compiled: ClassVar[Callable[..., Array]]

    def label_spec(self, spec: ArraySpec) -> ArraySpec:
        """Returns the spec of the labels after the stage. Raises UsageError if they do not fit."""
        return spec

    def labels(self, labels: Array, parameters: Mapping[str, Array]) -> Array:
        """Returns the changed labels, [batch, ...], with the same parameters as for the images."""
        return labels
