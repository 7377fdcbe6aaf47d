"""The declaration of a pipeline, as the lowering reads it, the names in its elements, and its cut."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import tensorflow as tf

from tfhet import stages as stage_room
from tfhet.errors import UsageError
from tfhet.placement import stream
from tfhet.source import Source
from tfhet.stages import ImageSpec, PlacedStage, Stage

IMAGE, LABEL, ID, EPOCH = "image", "label", "id", "epoch"
_ORDER = ("batch_size", "seed", "shuffle", "repeat", "interleave", "shuffle_splits")
_OF_CONTENT = (*_ORDER, "reorder", "fuse", "record_parameters")
"""Fields that, with source and stages, decide the content of batches."""


@dataclass(frozen=True)
class Declaration:
    """The fields of a `Pipeline` and what follows from them; `Pipeline` adds what is built from both."""

    source: Source
    """Where records come from. It needs a feature `image`."""
    stages: tuple[Stage, ...] | str = ()
    """Stages, or text: calls like `"dilate(3); rescale()"` or the name of a chain (see `tfhet.stages.parse`)."""
    batch_size: int = 32
    """Number of examples in a batch of one rank: the global batch is batch_size x ranks. At least 1."""
    seed: int = 0
    """Seed from which every random number of the pipeline derives."""
    shuffle: int = 0
    """Size of the shuffle buffer, in examples; 0 shuffles the order of the splits but not the examples within one."""
    repeat: int = 1
    """Number of passes over the data in an epoch; 0 for passes without end. Every pass draws new random numbers."""
    interleave: int = 1
    """Number of splits that are read at the same time, one example of each in turn. At least 1."""
    cache: str = ""
    """Directory on every reading host that keeps records after the first reading, for slow data; "" for none."""
    prefetch: int = 2
    """Number of batches that a worker, and again a rank, holds ready. A rank cannot give them to other ranks."""
    shuffle_splits: bool = True
    """Whether each epoch reads the splits in a new order, which derives from the seed."""
    reorder: bool = True
    """Whether `rescale` may move after the stages that commute with it, so that images are sent as uint8. The result
    differs from the declared order's only by the rounding to whole grey levels."""
    fuse: bool = True
    """Whether neighbouring stages run as one operation where they can: see `tfhet.stages.fusion`."""
    record_parameters: bool = False
    """Whether each element holds the random parameters of its examples too, as `STAGE:POSITION/PARAMETER`."""

    def __post_init__(self) -> None:
        stages = stage_room.parse(self.stages) if isinstance(self.stages, str) else tuple(self.stages)
        for stage in stages:
            if not isinstance(stage, Stage):
                raise UsageError(f"{stage!r} is not a stage; give stages like Dilate(3), or all of them as one text")
        given = {name: getattr(self, name) for name in stream.FIELDS}
        defaults = vars(Declaration)
        images, settings = stream.taken(stages, {name: v for name, v in given.items() if v != defaults[name]})
        for name, value in {"stages": images, **settings}.items():
            object.__setattr__(self, name, value)
        stream.check({**given, **settings})
        if IMAGE not in self.source.spec:
            raise UsageError(
                f"source {self.source.name!r} has no feature {IMAGE!r}, only {', '.join(sorted(self.source.spec))}; "
                "stages need images"
            )
        label_spec(self.source.spec, self.placed())  # a stage that does not fit is found before anything runs
        if self.output.ragged:
            self.placed()[-1].stage.refuse(
                "its images differ in size, so that they cannot be batched: put random_resized_crop, resize or "
                "resized_center_crop after it"
            )

    @property
    def input(self) -> ImageSpec:
        """Spec of the images before the first stage."""
        return ImageSpec.of(self.source.spec[IMAGE])

    def placed(self) -> tuple[PlacedStage, ...]:
        """Returns the stages in the order in which they run, each with its output."""
        return stage_room.placed([stage for stage in self.stages if isinstance(stage, Stage)], self.input, self.reorder)

    def specs(self) -> list[ImageSpec]:
        """Returns the specs of the images before the first stage and after each."""
        return [self.input, *(placed.output for placed in self.placed())]

    @property
    def output(self) -> ImageSpec:
        """Spec of the images after the last stage."""
        return self.specs()[-1]

    def fingerprint(self) -> str:
        """Returns a hex digest of all that decides the content of batches; equal declarations have equal ones."""
        stages = stage_room.text(tuple(s for s in self.stages if isinstance(s, Stage)))
        content = [self.source.fingerprint(), stages, *(getattr(self, name) for name in _OF_CONTENT)]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def bytes_per_example(spec: ImageSpec) -> int:
    """Returns the bytes of one image of this spec; an unknown height or width counts as 1."""
    return (spec.height or 1) * (spec.width or 1) * spec.channels * (4 if spec.dtype == "float32" else 1)


@dataclass(frozen=True)
class Cut:
    """Stages before `position`, in running order, run where the data is prepared; the rest on the trainer."""

    position: int
    """Number of stages before the cut, from 0."""

    @staticmethod
    def smallest(pipeline: Declaration) -> Cut:
        """Returns the latest position at which an example has the fewest bytes; unknown sizes count as the largest."""
        sizes = [(s.ragged, s.example_bytes is None, bytes_per_example(s)) for s in pipeline.specs()]
        return Cut(len(sizes) - 1 - sizes[::-1].index(min(sizes)))

    def checked(self, pipeline: Declaration) -> Cut:
        """Returns this cut. Raises UsageError when the pipeline has no such position."""
        last = len(pipeline.placed())
        if not 0 <= self.position <= last:
            raise UsageError(f"the cut must lie between 0 and {last} for this pipeline, not at {self.position}")
        if self.spec(pipeline).ragged:
            stage = pipeline.placed()[self.position - 1].stage.name
            raise UsageError(f"the cut cannot lie after {stage}: images of different sizes cannot be batched")
        return self

    def spec(self, pipeline: Declaration) -> ImageSpec:
        """Returns the spec of the images that are sent from the data group to the trainer."""
        return pipeline.specs()[self.position]


def label_spec(features: Mapping[str, tf.TensorSpec], placed: Sequence[PlacedStage]) -> tf.TensorSpec | None:
    """Returns the spec of the labels after all stages; None when the source, whose features are given, has no labels.
    Raises UsageError, naming the stage, for one that changes labels where there are none, or that does not fit them."""
    spec = features.get(LABEL)
    for stage in (each.stage for each in placed):
        if spec is None and stage.relabels:
            raise UsageError(
                f"stage {stage.name} changes labels, but the source has no feature {LABEL!r}, only "
                f"{', '.join(sorted(features))}"
            )
        if spec is not None:
            spec = stage.label_spec(spec)
    return spec


def relabelled(labels: tf.Tensor, placed: Sequence[PlacedStage], drawn: Sequence[Mapping[str, tf.Tensor]]) -> tf.Tensor:
    """Returns the labels after the stages. labels: [batch, ...]. drawn: each stage's parameters, as for the images."""
    for each, parameters in zip(placed, drawn, strict=True):
        if each.stage.relabels:
            labels = each.stage.labels(labels, parameters)
    return labels
