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
from dataclasses import dataclass, replace

import tensorflow as tf

from tfhet import stages as stage_room
from tfhet.errors import UsageError
from tfhet.placement import lowering, stream
from tfhet.placement.cut import Cut, bytes_per_example
from tfhet.placement.declaration import IMAGE, PlacedStage
from tfhet.placement.labels import label_spec
from tfhet.source import Source
from tfhet.stages import ImageSpec, Stage


@dataclass(frozen=True)
class Pipeline:
    """Source, stages and batching of one data set. Nothing is read or built until it is lowered.

    Raises UsageError for stages that do not fit the source, and for numbers out of range.
    """

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
    """Directory on every reading host that keeps the records of a split after the first reading, for slow or remote
    data; "" for none."""
    prefetch: int = 2
    """Number of batches that a worker, and again a rank, holds ready. A rank cannot give them to other ranks."""
    shuffle_splits: bool = True
    """Whether each epoch reads the splits in a new order, which derives from the seed."""
    reorder: bool = True
    """Whether `rescale` may move after the stages that commute with it, so that images are sent as uint8. The result
    differs from that of the declared order only by the rounding to whole grey levels."""
    fuse: bool = True
    """Whether neighbouring stages run as one operation where they can: see `tfhet.placement.fusion`."""
    record_parameters: bool = False
    """Whether each element holds the random parameters of its examples too, as `STAGE:POSITION/PARAMETER`."""

    def __post_init__(self) -> None:
        stages = stage_room.parse(self.stages) if isinstance(self.stages, str) else tuple(self.stages)
        for stage in stages:
            if not isinstance(stage, Stage):
                raise UsageError(f"{stage!r} is not a stage; give stages like Dilate(3), or all of them as one text")
        images, settings = stream.taken(stages, {name: getattr(self, name) for name in stream.DEFAULTS})
        for name, value in {"stages": images, **settings}.items():
            object.__setattr__(self, name, value)
        stream.check({name: getattr(self, name) for name in stream.DEFAULTS})
        if IMAGE not in self.source.spec:
            raise UsageError(
                f"source {self.source.name!r} has no feature {IMAGE!r}, only {', '.join(sorted(self.source.spec))}; "
                "stages need images"
            )
        label_spec(self.source.spec, self.placed())
        if self.output.ragged:  # and a stage that does not fit is found before anything runs
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
        declared = [(stage, position) for position, stage in enumerate(self.stages) if isinstance(stage, Stage)]
        order = _deferred(declared, self.input) if self.reorder else declared
        spec, result = self.input, []
        for stage, position in order:
            stage.admit(spec)
            spec = stage.spec(spec)
            result.append(PlacedStage(stage, position, spec))
        return tuple(result)

    @property
    def output(self) -> ImageSpec:
        """Spec of the images after the last stage."""
        placed = self.placed()
        return placed[-1].output if placed else self.input

    def fingerprint(self) -> str:
        """Returns a hex digest of all that decides the content of batches; equal declarations have equal ones."""
        text = json.dumps(
            [
                self.source.fingerprint(),
                stage_room.text(tuple(s for s in self.stages if isinstance(s, Stage))),
                self.batch_size,
                self.seed,
                self.shuffle,
                self.repeat,
                self.interleave,
                self.shuffle_splits,
                self.reorder,
                self.fuse,
                self.record_parameters,
            ]
        )
        return hashlib.sha256(text.encode()).hexdigest()

    def with_stages(self, stages: tuple[Stage, ...] | str) -> Pipeline:
        """Returns the same pipeline with other stages."""
        return replace(self, stages=stages)

    def dataset(self, epoch: int = 0) -> tf.data.Dataset:
        """Returns the batches of one epoch, prepared in this process. Elements: see `tfhet.placement.lowering`."""
        return lowering.one_epoch(self, epoch)

    def explain(self) -> str:
        """Returns a description for people: a line for each stage in running order, fused operations, the default cut.

        Each line ends with the bytes and the spec of an example after the stage.
        """
        cut = Cut.smallest(self)
        lines = [_line(f"source: {self.source.name}", self.input)]
        latest = -1
        for begin, end in ((0, cut.position), (cut.position, None)):
            for step in lowering.steps(self, begin, end):
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


def _line(text: str, spec: ImageSpec) -> str:
    if spec.dtype == "encoded":
        return f"{text:<48}{'?':>9} B  image files"
    size = "x".join("?" if n is None else str(n) for n in (spec.height, spec.width, spec.channels))
    count = "?" if spec.example_bytes is None else bytes_per_example(spec)
    return f"{text:<48}{count:>9} B  {spec.dtype} {size} in [{spec.low:g}, {spec.high:g}]"


def _deferred(stages: list[tuple[Stage, int]], source: ImageSpec) -> list[tuple[Stage, int]]:
    """Moves each rescale after the stages that commute with it, where images stay uint8 for longer by that."""
    order: list[tuple[Stage, int]] = []
    held: list[tuple[Stage, int]] = []
    spec = source
    for stage, position in stages:
        if stage.rescales and spec.dtype == "uint8":
            held.append((stage, position))
            continue
        if held and not stage.commutes_with_rescale:
            order += held
            for waiting, _ in held:
                spec = waiting.spec(spec)
            held = []
        order.append((stage, position))
        spec = stage.spec(spec)
    return order + held
