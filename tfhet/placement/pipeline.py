"""The declared pipeline: a value that says what happens to every example, and nothing about where."""

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

    `stages` may be given as text, in call syntax or as the name of a chain: see `tfhet.stages.parse`.
    Raises UsageError for stages that do not fit the source, and for sizes out of range.
    """

    source: Source
    stages: tuple[Stage, ...] | str = ()
    batch_size: int = 32
    """Examples in a batch, which is per rank: the global batch is batch_size x ranks."""
    seed: int = 0
    """Every random number of the pipeline derives from it."""
    shuffle: int = 0
    """Size of the shuffle buffer, in examples; 0: the order of the splits is shuffled, examples within one are not."""
    repeat: int = 1
    """Passes over the data that make up an epoch; 0: without end. Every pass draws anew."""
    interleave: int = 1
    """Splits that are read side by side, an example of each in turn."""
    cache: str = ""
    """A directory, on every host that reads, where the records of a split are kept after they were read once: for data
    that come slowly, from afar. "": none."""
    prefetch: int = 2
    """Batches held ready by a worker, and by a rank. More of them wait in the wrong rank when an epoch ends."""
    shuffle_splits: bool = True
    """Whether each epoch reads the splits in another (seeded) order."""
    reorder: bool = True
    """Whether `rescale` may move behind stages that commute with it, so that what travels stays uint8. The result
    differs from the declared order by the rounding to whole grey levels only."""
    fuse: bool = True
    """Whether neighbouring stages that can be one operation run as one: see `tfhet.placement.fusion`."""
    record_parameters: bool = False
    """Whether the drawn random parameters travel with each example, as `STAGE:POSITION/PARAMETER`."""

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
                "stages work on images"
            )
        label_spec(self.source.spec, self.placed())
        if self.output.ragged:  # and a stage that does not fit is found before anything runs
            self.placed()[-1].stage.refuse(
                "its images are of many sizes, which make no batch: put random_resized_crop, resize or "
                "resized_center_crop behind it"
            )

    @property
    def input(self) -> ImageSpec:
        """What the first stage gets, per example."""
        return ImageSpec.of(self.source.spec[IMAGE])

    def placed(self) -> tuple[PlacedStage, ...]:
        """The stages in the order in which they run, each with what it puts out."""
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
        """What the last stage puts out, per example."""
        placed = self.placed()
        return placed[-1].output if placed else self.input

    def fingerprint(self) -> str:
        """Hex digest of all that decides the content of a batch; equal in every process that declares the same."""
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
        """The same with other stages."""
        return replace(self, stages=stages)

    def dataset(self, epoch: int = 0) -> tf.data.Dataset:
        """One epoch, all of it in this process. Elements: see `tfhet.placement.lowering`."""
        return lowering.one_epoch(self, epoch)

    def explain(self) -> str:
        """The stages in running order, a line each, with the bytes of an example behind them; what is one operation;
        and the default cut."""
        cut = Cut.smallest(self)
        lines = [_line(f"source: {self.source.name}", self.input)]
        latest = -1
        for begin, end in ((0, cut.position), (cut.position, None)):
            for step in lowering.steps(self, begin, end):
                for placed in step.stages:
                    moved = "  (moved back: it commutes with the stages before it)" if placed.declared < latest else ""
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
    """Moves each rescale behind the stages that it commutes with, as long as that keeps uint8 uint8."""
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
