"""Chains of stages without a framework: on NumPy arrays and image files, by the compiled core.

    chain = tfhet.stages.compile("decode(); random_resized_crop(224, 224); random_flip()")
    images = chain(contents, ids=ids, seed=0, epoch=3)  # list of bytes -> uint8 [batch, 224, 224, 3]

The result of an example depends on its seed, epoch and id alone, and equals the result in every framework.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tfhet.errors import UsageError
from tfhet.kernels import Contents
from tfhet.stages.call_syntax import parse, text
from tfhet.stages.fusion import placed
from tfhet.stages.program import Program
from tfhet.stages.spec import ImageSpec
from tfhet.stages.stage import Stage
from tfhet.stages.stream import Stream

PROGRAMS = 256
"""Maximum number of forms of images, such as sizes, for which a chain keeps its program."""


def compile(
    stages: str | Sequence[Stage],
    *,
    reorder: bool = True,
    fuse: bool = True,
    float_range: tuple[float, float] | None = None,
) -> CompiledChain:
    """Returns a chain of stages as a function of images.

    Args:
        stages: Stages, or text as `parse` reads it.
        reorder: Whether `rescale` may move after the stages that commute with it, as in a `Pipeline`.
        fuse: Whether neighbouring stages run as one operation if they can, as in a `Pipeline`.
        float_range: Lowest and highest value of float32 images, usually (0, 1). Stages that need it refuse None.

    Raises:
        UsageError: A stage or argument does not exist, or a stage sets the flow of a pipeline.
    """
    return CompiledChain(parse(stages) if isinstance(stages, str) else tuple(stages), reorder, fuse, float_range)


class CompiledChain:
    """Stages that run on NumPy arrays and image files. It can be pickled; threads may share it."""

    def __init__(
        self,
        stages: tuple[Stage, ...],
        reorder: bool = True,
        fuse: bool = True,
        float_range: tuple[float, float] | None = None,
    ) -> None:
        for stage in stages:
            if not isinstance(stage, Stage):
                raise UsageError(f"{stage!r} is not a stage; give stages like Dilate(3), or all of them as one text")
            if isinstance(stage, Stream):
                stage.refuse("it sets the flow of a pipeline, and a chain has only stages of images: omit it")
        self.stages, self.reorder, self.fuse, self.float_range = stages, reorder, fuse, float_range
        self.random = any(stage.random for stage in stages)
        """Whether a stage draws random numbers, so that calls need ids."""
        self._programs: dict[Any, Program] = {}
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple:
        return CompiledChain, (self.stages, self.reorder, self.fuse, self.float_range)

    def __repr__(self) -> str:
        return f"tfhet.stages.compile({text(self.stages)!r})"

    def program(self, spec: ImageSpec) -> Program:
        """Returns the chain for images of a spec. Raises UsageError if a stage does not fit them."""
        run = placed(self.stages, spec, self.reorder)
        if run and run[-1].output.ragged:
            run[-1].stage.refuse(
                "its images differ in size, so that they cannot be batched: put random_resized_crop, resize or "
                "resized_center_crop after it"
            )
        return Program.of(run, spec, self.fuse)

    def _program(self, images: np.ndarray | Sequence[bytes]) -> Program:
        key = (images.dtype, images.shape[1:]) if isinstance(images, np.ndarray) else None
        if (found := self._programs.get(key)) is None:
            spec = ImageSpec.of(images) if isinstance(images, np.ndarray) else ImageSpec.of_files()
            if spec.dtype == "float32" and self.float_range:
                spec = replace(spec, low=self.float_range[0], high=self.float_range[1])
            with self._lock:
                if len(self._programs) >= PROGRAMS:
                    self._programs.clear()
                found = self._programs.setdefault(key, self.program(spec))
        return found

    def output(self, images: np.ndarray | Sequence[bytes]) -> ImageSpec:
        """Returns the spec of the result for images, without running the chain."""
        segments = self._program(images).segments
        if not segments:
            return ImageSpec.of(images) if isinstance(images, np.ndarray) else ImageSpec.of_files()
        return segments[-1].stages[-1].output

    def __call__(
        self,
        images: np.ndarray | Sequence[bytes],
        *,
        ids: np.ndarray | Sequence[int] | None = None,
        seed: int = 0,
        epoch: int | np.ndarray = 0,
        labels: np.ndarray | None = None,
        threads: int = 1,
        out: np.ndarray | None = None,
    ) -> Any:
        """Runs the chain on a batch.

        Args:
            images: uint8 or float32 [batch, height, width, channels], or the contents of image files.
            ids: Example ids, int64 [batch], from which random numbers derive.
            seed: Seed of the run.
            epoch: Number of the epoch from 0, or int64 [batch].
            labels: [batch, ...], changed by stages such as `one_hot` and `mixup`; None if there are none.
            threads: Number of threads that work on the batch. Python's lock is not held meanwhile.
            out: Array for the images of the result; a new one if None.

        Returns:
            uint8 or float32 [batch, height, width, channels]; with `labels`, a pair of images and labels.

        Raises:
            UsageError: Images, ids or labels do not fit the chain, or a file cannot be decoded.
        """
        images = _given(images)
        if ids is None and self.random:
            names = ", ".join(stage.name for stage in self.stages if stage.random)
            raise UsageError(f"{names}: random numbers derive from example ids: pass ids=, int64 [batch]")
        numbers = None if ids is None else _integers(ids, "ids")
        if numbers is not None and numbers.shape != (len(images),):
            raise UsageError(f"ids are int64 [{len(images)}], one for each image, not {list(numbers.shape)}")
        relabels = labels is not None and any(stage.relabels for stage in self.stages)
        made, drawn = self._program(images).run(
            images, numbers, seed, _integers(epoch, "epoch"), threads, out, wants_draws=relabels
        )
        if labels is None:
            return made
        labels = np.asarray(labels)
        for place, parameters in drawn:
            if place.stage.relabels:
                labels = place.stage.labels(labels, parameters)
        return made, labels

    def step_us(self) -> dict[str, float]:
        """Returns the mean CPU microseconds of an image in each compiled step so far, by the names of its stages in
        running order; {} before the first batch."""
        found, images = dict[str, float](), 0
        for program in list(self._programs.values()):
            most = 0
            for segment in program.segments:
                if segment.chain is None:  # a stage of the user
                    continue
                step_ns, timed = segment.chain.times()
                most = max(most, timed)
                for step, taken_ns in zip(segment.steps, step_ns.tolist(), strict=True):
                    name = ", ".join(each.stage.name for each in step.stages)
                    found[name] = found.get(name, 0.0) + taken_ns / 1e3
            images += most
        return {name: taken_us / images for name, taken_us in found.items()} if images else {}

    def parameters(
        self, images: np.ndarray | Sequence[bytes], *, ids: np.ndarray, seed: int = 0, epoch: int = 0
    ) -> dict[str, np.ndarray]:
        """Returns the random parameters of a batch by `STAGE:POSITION/PARAMETER`, as a `Pipeline` with
        `record_parameters` has them: for boxes and masks that must move with the image. Arguments as in a call."""
        images = _given(images)
        run = self._program(images).run
        _, drawn = run(images, _integers(ids, "ids"), seed, _integers(epoch, "epoch"), wants_draws=True)
        return {
            f"{place.stage.name}:{place.declared}/{name}": value
            for place, parameters in drawn
            for name, value in parameters.items()
        }


def _integers(values: Any, name: str) -> np.ndarray:
    """Returns whole numbers as int64. Raises UsageError for others, which would silently lose their fractions."""
    array = np.asarray(values)
    if array.size and array.dtype.kind not in "iu":
        raise UsageError(f"{name} must be integers, not {array.dtype}")
    return array.astype(np.int64, copy=False)


def _given(images: np.ndarray | Sequence[bytes]) -> np.ndarray | Sequence[bytes]:
    is_ready = images.dtype.kind not in "OS" if isinstance(images, np.ndarray) else isinstance(images, Contents)
    return images if is_ready else list(images)
