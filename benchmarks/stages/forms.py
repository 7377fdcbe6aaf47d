"""The forms in which a chain is compared, and the chain as plain TensorFlow.

Only the same picture in the same dtype is compared, so chains that resize photos are measured in several forms.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from unittest import mock

from benchmarks.job_scripts import plain
from benchmarks.peers.job import ANTIALIAS, LINEAR
from tfhet.bench import Case, Measurement
from tfhet.bench.chain import (
    PASSES,
    PHOTO_PASSES,
    TFHET,
    Course,
    dataset_case,
    part_figures,
    pipeline_case,
    rate,
    work_of,
)
from tfhet.native import SWITCH
from tfhet.record import Figure

if TYPE_CHECKING:
    import tensorflow as tf

    from tfhet.placement import Pipeline
    from tfhet.stages import Stage

IN_MEMORY = f"{TFHET} in memory"
"""Name of the case of a chain of small images that lie decoded in memory, as peers get them."""
UNFUSED = f"{IN_MEMORY}, each stage for itself"
STOCK = f"{UNFUSED}, in stock TensorFlow"
"""Names of the same without fused stages, and without compiled operations too: where the example's time goes."""
PLAIN = "example"
"""Name of the case of the chain as plain TensorFlow writes it, as AWS's example does."""
WAYS = (LINEAR, ANTIALIAS)


@dataclass(frozen=True)
class Form:
    """One form of a chain. Chains that crop photos have several; the others have one, without a name."""

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
    """The forms of the pipeline's chain: with encoded images each way in uint8 and in float32."""
    if pipeline.input.dtype != "encoded":
        return (Form("", pipeline.output.dtype),)
    return tuple(Form(way, dtype) for way in WAYS for dtype in ("uint8", "float32"))


def shaped(pipeline: Pipeline, form: Form) -> Pipeline:
    """The pipeline in one of its forms: stages resize that way, and for uint8 it ends before they leave it."""
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
    """The form in which the chain is compared with plain TensorFlow."""
    return Form(LINEAR, "float32") if shapes[0].way else shapes[0]


def whole_cases(course: Course) -> list[Case]:
    """The chain as plain TensorFlow where it can be written so, and tfhet in every form."""
    passes, shapes = PASSES if course.small else PHOTO_PASSES, forms(course.pipeline)
    cases = [pipeline_case(course, form.case, shaped(course.pipeline, form), passes) for form in shapes]
    if course.small:
        cases += [in_memory_case(course, name) for name in (IN_MEMORY, UNFUSED, STOCK)]
    if plain.knows(course.pipeline.stages):
        written = shaped(course.pipeline, plain_form(shapes))
        cases.insert(0, dataset_case(course, PLAIN, 1, lambda: _plain(written), lambda element: element[0]))
    return cases


def in_memory_case(course: Course, name: str) -> Case:
    """The chain on images that lie decoded in memory, batch by batch, in the way that is called so."""
    import tensorflow as tf

    from tfhet.placement import one_epoch, steps

    pipeline, threads = dataclasses.replace(course.pipeline, fuse=name == IN_MEMORY), course.threads or course.cores
    read = list(one_epoch(pipeline.with_stages(())))
    images, ids = (tf.concat([element[name] for element in read], 0) for name in ("image", "id"))
    works = [work_of(pipeline, step) for step in steps(pipeline)]
    size = pipeline.batch_size

    def batch(begin: tf.Tensor) -> tf.Tensor:
        made = images[begin : begin + size]
        for work in works:
            made = work(made, ids[begin : begin + size])
        return made

    def build() -> tf.data.Dataset:
        parts = tf.data.Dataset.range(0, course.examples, size).repeat(PASSES)
        unconverted = tf.autograph.experimental.do_not_convert(batch)
        with mock.patch.dict(os.environ, {SWITCH: "off"} if name == STOCK else {}):
            return parts.map(unconverted, num_parallel_calls=threads).prefetch(2)

    return dataset_case(course, name, PASSES, build, lambda made: made)


def _plain(pipeline: Pipeline) -> tf.data.Dataset:
    files, shape = pipeline.source.files, pipeline.source.spec["image"].shape[1:]  # type: ignore[attr-defined]
    return plain.dataset(files, shape, pipeline.stages, pipeline.batch_size)  # type: ignore[arg-type]


def figures_of(
    course: Course, shapes: Sequence[Form], taken: Mapping[str, Measurement], steps: Mapping[str, Case]
) -> dict[str, Figure]:
    """The figures of the chain in its forms, the ratio to plain TensorFlow first."""
    prefix, figures = f"stages.{course.name}", dict[str, Figure]()
    if PLAIN in taken:
        figures[f"{prefix}.vs_example"] = taken[plain_form(shapes).case].cheaper_than(taken[PLAIN], plain.AGAINST)
    if {PLAIN, STOCK} <= set(taken):
        whole = taken[IN_MEMORY]
        figures[f"{prefix}.by_batching"] = taken[STOCK].cheaper_than(
            taken[PLAIN], f"{plain.AGAINST}, which reads files, too"
        )
        figures[f"{prefix}.by_compiling"] = taken[UNFUSED].cheaper_than(taken[STOCK], "stages in stock TensorFlow")
        figures[f"{prefix}.by_fusing"] = whole.cheaper_than(taken[UNFUSED], "compiled stages, each for itself")
    if IN_MEMORY in taken:
        figures[f"{prefix}.in_memory_us_per_image"] = taken[IN_MEMORY].figure()
    for form in shapes:
        figures[".".join(filter(None, (prefix, form.key, "us_per_image")))] = taken[form.case].figure()
    for form in shapes:
        name = ".".join(filter(None, (prefix, form.key, "examples_per_s_core")))
        figures[name] = rate(taken[form.case], course.cores)
    if PLAIN in taken:
        figures[f"{prefix}.example_us_per_image"] = taken[PLAIN].figure()
    return figures | part_figures(course, taken, steps)
