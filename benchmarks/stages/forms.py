"""The forms in which a chain is compared: only images of one way of resizing and one dtype are compared."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.job_scripts import plain
from benchmarks.peers.peer import ANTIALIAS, LINEAR
from tfhet.bench import Case
from tfhet.bench.chain import PASSES, PHOTO_PASSES, TFHET, Course, dataset_case, pipeline_case, work_of

if TYPE_CHECKING:
    import tensorflow as tf

    from tfhet.pipeline import Pipeline
    from tfhet.stages import Stage

IN_MEMORY = f"{TFHET} in memory"
"""Name of the case of a chain on decoded small images in memory, as peers get them."""
PLAIN = "example"
"""Name of the case of the chain as AWS's example writes it."""


@dataclass(frozen=True)
class Form:
    """One form of a chain. A chain that crops photos has four, other chains have one without a name."""

    way: str = ""
    """How it resizes; "" for a chain that does not."""
    dtype: str = "float32"

    @property
    def key(self) -> str:
        """Part of a figure's name: `linear.uint8`; "" for a chain with one form."""
        return f"{self.way}.{self.dtype}" if self.way else ""

    @property
    def words(self) -> str:
        """Part of a case's name: `linear uint8`."""
        return self.key.replace(".", " ")

    @property
    def case(self) -> str:
        """Name of tfhet's case."""
        return f"{TFHET} {self.words}".strip()


def forms(pipeline: Pipeline) -> tuple[Form, ...]:
    """Returns the forms of the pipeline's chain."""
    if pipeline.input.dtype != "encoded":
        return (Form("", pipeline.output.dtype),)
    return tuple(Form(way, dtype) for way in (LINEAR, ANTIALIAS) for dtype in ("uint8", "float32"))


def shaped(pipeline: Pipeline, form: Form) -> Pipeline:
    """Returns the pipeline in one of its forms. For uint8 it ends before the first stage that returns float32."""
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


def plain_form(shapes: Sequence[Form]) -> Form:
    """Returns the form in which the chain is compared with AWS's example."""
    return Form(LINEAR, "float32") if shapes[0].way else shapes[0]


def whole_cases(course: Course) -> list[Case]:
    """Returns the chain as AWS's example writes it, if it can run here, and as tfhet runs it in every form."""
    passes, shapes = PASSES if course.small else PHOTO_PASSES, forms(course.pipeline)
    cases = [pipeline_case(course, form.case, shaped(course.pipeline, form), passes) for form in shapes]
    if course.small:
        cases.append(in_memory_case(course))
    if plain.knows(course.pipeline.stages) and not plain.missing(course.pipeline.stages):
        written = shaped(course.pipeline, plain_form(shapes))
        cases.insert(0, dataset_case(course, PLAIN, 1, lambda: _plain(written), lambda element: element[0]))
    return cases


def in_memory_case(course: Course) -> Case:
    """Returns the case of the chain on decoded images in memory."""
    import tensorflow as tf

    from tfhet.pipeline import one_epoch
    from tfhet.stages import Program, Step

    pipeline = course.pipeline
    read = list(one_epoch(pipeline.with_stages(())))
    images, ids = (tf.concat([element[name] for element in read], 0) for name in ("image", "id"))
    size = pipeline.batch_size
    segments = Program.of([each for step in pipeline.steps() for each in step.stages], pipeline.input).segments
    works = [work_of(pipeline, Step(part.stages, part.steps[0].input)) for part in segments]

    def batch(begin: tf.Tensor) -> tf.Tensor:
        made = images[begin : begin + size]
        for work in works:
            made = work(made, ids[begin : begin + size])
        return made

    def build() -> tf.data.Dataset:
        parts = tf.data.Dataset.range(0, course.examples, size).repeat(PASSES)
        unconverted = tf.autograph.experimental.do_not_convert(batch)
        return parts.map(unconverted, num_parallel_calls=course.threads or course.cores).prefetch(2)

    return dataset_case(course, IN_MEMORY, PASSES, build, lambda made: made)


def _plain(pipeline: Pipeline) -> tf.data.Dataset:
    files, shape = pipeline.source.files, pipeline.source.spec["image"].shape[1:]  # type: ignore[attr-defined]
    return plain.dataset(files, shape, pipeline.stages, pipeline.batch_size)  # type: ignore[arg-type]
