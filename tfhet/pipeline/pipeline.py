"""The declared pipeline: a value that says what happens to every example, but not on which host.

    from tfhet import Pipeline, SyntheticSource

    pipeline = Pipeline(SyntheticSource(10_000, 16), "random_flip(); rescale()", batch_size=64, seed=1)
    print(pipeline.explain())  # the stages in running order, the bytes after each, the cut
    for batch in pipeline.dataset(epoch=0):
        batch["image"], batch["label"], batch["id"]

`tfhet.distribute(pipeline)` runs the same declaration on a cluster.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tfhet import stages as stage_room
from tfhet.errors import UsageError
from tfhet.pipeline import settings as flow
from tfhet.source import ArraySpec, Source
from tfhet.stages import ImageSpec, PlacedStage, Stage, Step

if TYPE_CHECKING:
    import tensorflow as tf

IMAGE, LABEL, ID, EPOCH = "image", "label", "id", "epoch"
_ORDER = ("batch_size", "seed", "shuffle", "repeat", "interleave", "shuffle_splits")
_OF_CONTENT = (*_ORDER, "reorder", "fuse", "record_parameters")
"""Fields that, with source and stages, decide the content of batches."""


@dataclass(frozen=True)
class Pipeline:
    """Source, stages and batching of one data set. Nothing is read or built until it is used. Raises UsageError for
    stages that do not fit the source, and for numbers out of range."""

    source: Source
    """Where records come from. It needs a feature `image`."""
    stages: tuple[Stage, ...] | str = ()
    """Stages, or text: calls like `"dilate(3); rescale()"` or the name of a chain (see `tfhet.stages.parse`)."""
    batch_size: int = 32
    """Number of examples in a batch of one rank: the global batch is batch_size x ranks. At least 1."""
    seed: int = 0
    """Seed from which every random number of the pipeline derives."""
    shuffle: int | bool = 0
    """True for a new order of all examples in each epoch, natively and without a buffer. A number for the size of
    tf.data's shuffle buffer (natively: of windows), in examples. 0 for a new order of the splits alone."""
    repeat: int = 1
    """Number of passes over the data in an epoch; 0 for passes without end. Every pass draws new random numbers."""
    interleave: int = 1
    """Number of splits that are read at the same time, one example of each in turn. At least 1."""
    cache: str = ""
    """Directory on every reading host that keeps records after the first reading, for slow data; "" for none."""
    prefetch: int = 2
    """Number of batches that a worker, and again a rank, holds ready. A rank cannot give them to other ranks."""
    drop_last: bool = False
    """Whether examples that do not fill a batch on each rank are left out; natively. Otherwise the last batches of an
    epoch are smaller, and every example comes once."""
    max_bad_records: int = 0
    """Number of examples that may be left out of an epoch in each process because they cannot be read or decoded,
    natively. The log names them."""
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
        given = {name: getattr(self, name) for name in flow.FIELDS}
        defaults = vars(Pipeline)
        images, settings = flow.taken(stages, {name: v for name, v in given.items() if v != defaults[name]})
        for name, value in {"stages": images, **settings}.items():
            object.__setattr__(self, name, value)
        flow.check({**given, **settings})
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
    def image_stages(self) -> tuple[Stage, ...]:
        """The stages of images."""
        return tuple(stage for stage in self.stages if isinstance(stage, Stage))

    @property
    def input(self) -> ImageSpec:
        """Spec of the images before the first stage."""
        return ImageSpec.of(self.source.spec[IMAGE])

    def placed(self) -> tuple[PlacedStage, ...]:
        """Returns the stages in the order in which they run, each with its output."""
        return stage_room.placed(self.image_stages, self.input, self.reorder)

    def specs(self) -> list[ImageSpec]:
        """Returns the specs of the images before the first stage and after each."""
        return [self.input, *(placed.output for placed in self.placed())]

    @property
    def output(self) -> ImageSpec:
        """Spec of the images after the last stage."""
        return self.specs()[-1]

    def fingerprint(self) -> str:
        """Returns a hex digest of all that decides the content of batches; equal declarations have equal ones."""
        content = [
            self.source.fingerprint(),
            stage_room.text(self.image_stages),
            *(getattr(self, name) for name in _OF_CONTENT),
        ]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()

    def with_stages(self, stages: tuple[Stage, ...] | str) -> Pipeline:
        """Returns the same pipeline with other stages."""
        return replace(self, stages=stages)

    def dataset(self, epoch: int = 0) -> tf.data.Dataset:
        """Returns the batches of one epoch, prepared in this process. Elements: see `tfhet.pipeline.lowering`."""
        from tfhet.pipeline import one_epoch  # loads TensorFlow

        return one_epoch(self, epoch)

    def explain(self) -> str:
        """Returns a description for people: a line for each stage in running order, with the bytes and the spec of an
        example after it, fused operations, and the default cut."""
        cut, latest = Cut.smallest(self), -1
        lines = [_line(f"source: {self.source.name}", self.input)]
        for begin, end in ((0, cut.position), (cut.position, None)):
            for step in self.steps(begin, end):
                for placed in step.stages:
                    moved = "  (moved after its neighbours)" if placed.declared < latest else ""
                    latest = max(latest, placed.declared)
                    gutter = "  " if len(step.stages) == 1 else "| "
                    lines.append(_line(gutter + stage_room.text((placed.stage,)), placed.output) + moved)
                if step.does:
                    lines.append(f"  = {step.does}")
            if begin == 0 and cut.position < len(self.placed()):
                lines.append(f"{'-- cut: above on the data group, below on the trainer ':-<80}")
        return "\n".join(lines)

    def steps(self, begin: int = 0, end: int | None = None) -> tuple[Step, ...]:
        """Returns the operations of the stages from position `begin` up to `end`, in order."""
        return stage_room.fuse(self.placed()[begin:end], self.specs()[begin], self.fuse)


def bytes_per_example(spec: ImageSpec) -> int:
    """Returns the bytes of one image of this spec; an unknown height or width counts as 1."""
    return (spec.height or 1) * (spec.width or 1) * spec.channels * (4 if spec.dtype == "float32" else 1)


@dataclass(frozen=True)
class Cut:
    """Stages before `position`, in running order, run where the data is prepared; the rest on the trainer."""

    position: int
    """Number of stages before the cut, from 0."""

    @staticmethod
    def smallest(pipeline: Pipeline) -> Cut:
        """Returns the latest position at which an example has the fewest bytes; unknown sizes count as the largest."""
        sizes = [(s.ragged, s.example_bytes is None, bytes_per_example(s)) for s in pipeline.specs()]
        return Cut(len(sizes) - 1 - sizes[::-1].index(min(sizes)))

    def checked(self, pipeline: Pipeline) -> Cut:
        """Returns this cut. Raises UsageError when the pipeline has no such position."""
        last = len(pipeline.placed())
        if not 0 <= self.position <= last:
            raise UsageError(f"the cut must lie between 0 and {last} for this pipeline, not at {self.position}")
        if self.spec(pipeline).ragged:
            stage = pipeline.placed()[self.position - 1].stage.name
            raise UsageError(f"the cut cannot lie after {stage}: images of different sizes cannot be batched")
        return self

    def spec(self, pipeline: Pipeline) -> ImageSpec:
        """Returns the spec of the images that are sent from the data group to the trainer."""
        return pipeline.specs()[self.position]


def label_spec(features: Mapping[str, Any], placed: Sequence[PlacedStage]) -> ArraySpec | None:
    """Returns the spec of the labels after all stages; None when the source, whose features are given, has no labels.
    Raises UsageError, naming the stage, for one that changes labels where there are none, or that does not fit them."""
    given = features.get(LABEL)
    spec = None if given is None else ArraySpec.of(given)
    for stage in (each.stage for each in placed):
        if spec is None and stage.relabels:
            raise UsageError(
                f"stage {stage.name} changes labels, but the source has no feature {LABEL!r}, only "
                f"{', '.join(sorted(features))}"
            )
        if spec is not None:
            spec = stage.label_spec(spec)
    return spec


def relabelled(labels: Any, placed: Sequence[PlacedStage], drawn: Sequence[Mapping[str, Any]]) -> Any:
    """Returns labels after the stages, an array or a tensor [batch, ...]. drawn: each stage's parameters."""
    for each, parameters in zip(placed, drawn, strict=True):
        if each.stage.relabels:
            labels = each.stage.labels(labels, parameters)
    return labels


def _line(text: str, spec: ImageSpec) -> str:
    if spec.dtype == "encoded":
        return f"{text:<48}{'?':>9} B  image files"
    size = "x".join("?" if n is None else str(n) for n in (spec.height, spec.width, spec.channels))
    count = "?" if spec.example_bytes is None else bytes_per_example(spec)
    return f"{text:<48}{count:>9} B  {spec.dtype} {size} in [{spec.low:g}, {spec.high:g}]"
