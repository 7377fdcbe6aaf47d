"""The forms in which a chain is measured: only the same picture in the same dtype is compared."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tfhet.placement import Pipeline
    from tfhet.stages import Stage

LINEAR, ANTIALIAS = "linear", "antialias"
"""Ways to resize: bilinear between the four nearest pixels, or over all pixels that one of the result covers. The
pictures differ, so each way is compared only with itself."""
WAYS = (LINEAR, ANTIALIAS)


@dataclass(frozen=True)
class Form:
    """One form of a chain. Chains that crop photos have several; the others have one, without a name."""

    way: str = ""
    """How it resizes; "" for a chain that does not."""
    dtype: str = "float32"
    """Of the result."""

    @property
    def key(self) -> str:
        """Its part of a figure's name: `linear.uint8`; "" for a chain with one form."""
        return f"{self.way}.{self.dtype}" if self.way else ""

    @property
    def words(self) -> str:
        """Its part of a case's name."""
        return f"{self.way} {self.dtype}" if self.way else ""


def forms(pipeline: Pipeline, ways: Iterable[str] = WAYS) -> tuple[Form, ...]:
    """The forms of the pipeline's chain: with encoded images each of `ways` in uint8 and in float32."""
    if pipeline.input.dtype != "encoded":
        return (Form("", pipeline.output.dtype),)
    return tuple(Form(way, dtype) for way in ways for dtype in ("uint8", "float32"))


def shaped(pipeline: Pipeline, form: Form) -> Pipeline:
    """The pipeline in one of its forms: stages that can resize either way do it that way, and for uint8 it ends before
    the stages that leave it."""
    if not form.way:
        return pipeline
    stages = [_resizing(stage, form.way) for stage in pipeline.stages]  # type: ignore[arg-type]
    made = pipeline.with_stages(tuple(stages))
    while made.output.dtype != form.dtype and stages:
        stages.pop()
        made = pipeline.with_stages(tuple(stages))
    return made


def _resizing(stage: Stage, way: str) -> Stage:
    if any(field.name == "antialias" for field in dataclasses.fields(stage)):
        return dataclasses.replace(stage, antialias=way == ANTIALIAS)  # type: ignore[call-arg]
    return stage
