"""The cases of one chain: the whole, reading alone, and each step alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tfhet.bench.case import Case, Measurement
from tfhet.errors import TfhetError
from tfhet.record import Figure

if TYPE_CHECKING:
    import tensorflow as tf

    from tfhet.pipeline import Pipeline
    from tfhet.stages import Step

TFHET, DECODE = "tfhet", "decode"
"""Names of cases: the chain; reading and batching alone."""
PASSES, PHOTO_PASSES = 4, 2
"""Passes over the records in one run: of the cheap cases, and of photos."""
ALONE_IMAGES = {True: 65536, False: 1024}
"""Minimum number of images in one run of a step alone, by whether they are small."""


@dataclass(frozen=True)
class Course:
    """One chain, with its name in figures, on one data set, with everything that its cases need."""

    name: str
    pipeline: Pipeline
    examples: int
    threads: int | None
    """Threads of every pipeline; None for one a core."""
    cores: int

    @property
    def small(self) -> bool:
        """Whether the images are not photos."""
        return self.pipeline.input.dtype != "encoded"


def whole_cases(course: Course) -> list[Case]:
    """Returns the chain, and reading and batching alone."""
    return [
        pipeline_case(course, TFHET, course.pipeline, PASSES if course.small else PHOTO_PASSES),
        pipeline_case(course, DECODE, course.pipeline.with_stages(()), PASSES),
    ]


def dataset_case(
    course: Course, name: str, passes: int, build: Callable[[], tf.data.Dataset], images: Callable[[Any], Any]
) -> Case:
    """Returns a case that reads the data set that `build` makes, which goes over the records `passes` times."""
    return reading(name, course.examples * passes, lambda: threaded(build(), course.threads), images)


def pipeline_case(course: Course, name: str, pipeline: Pipeline, passes: int) -> Case:
    """Returns a case that reads what tfhet makes of `pipeline`, which goes over the records `passes` times."""
    from tfhet.pipeline import one_epoch

    def build() -> tf.data.Dataset:
        return one_epoch(pipeline, threads=course.threads).repeat(passes)

    return dataset_case(course, name, passes, build, lambda element: element["image"])


def step_cases(course: Course) -> dict[str, Case]:
    """Returns a case for each step, by stage names joined with a plus, on one batch that the steps before it made."""
    from tfhet.pipeline import one_epoch

    pipeline = course.pipeline
    element = next(iter(one_epoch(pipeline.with_stages(())).take(1)))
    images, ids = element["image"], element["id"]
    cases: dict[str, Case] = {}
    for step in pipeline.steps():
        work = work_of(pipeline, step)
        name = words = "+".join(placed.stage.name for placed in step.stages)
        count = 2
        while name in cases:
            name, count = f"{words}_{count}", count + 1
        cases[name] = _alone(course, f"{name} alone", work, images, ids)
        images = work(images, ids)
    return cases


def work_of(pipeline: Pipeline, step: Step) -> Callable[[tf.Tensor, tf.Tensor], tf.Tensor]:
    """Returns what a step does in epoch 0 as a function of a batch of images and their ids, int64 [batch]."""
    import tensorflow as tf

    from tfhet.stages import Program, tensor_chain

    (segment,) = Program.of(step.stages, step.input).segments

    def work(images: tf.Tensor, ids: tf.Tensor) -> tf.Tensor:
        if segment.chain is None:
            stage, keys = step.stages[0].stage, _keys(pipeline, step, ids)
            return stage.apply(images, stage.parameters(keys, step.input) if stage.random else {})
        return tensor_chain.run(segment, images, ids, tf.zeros_like(ids), pipeline.seed)[0]

    return work


def _keys(pipeline: Pipeline, step: Step, ids: tf.Tensor) -> tf.Tensor:
    from tfhet.stages import randomness

    (placed,) = step.stages
    return randomness.keys(pipeline.seed, placed.stage.name, placed.declared, 0, ids)


def _alone(course: Course, name: str, work: Callable[..., Any], images: tf.Tensor, ids: tf.Tensor) -> Case:
    """Returns the case of `work(images, ids)` as tf.data runs it, again and again."""
    import tensorflow as tf

    size = int(images.shape[0])
    batches = -(-ALONE_IMAGES[course.small] // size)

    def build() -> tf.data.Dataset:
        same = tf.data.Dataset.from_tensors((images, ids)).repeat(batches)
        parallel_calls = tf.data.AUTOTUNE if course.threads is None else course.threads
        unconverted = tf.autograph.experimental.do_not_convert(work)
        return threaded(same.map(unconverted, num_parallel_calls=parallel_calls), course.threads)

    return reading(name, batches * size, build)


def reading(
    name: str, count: int, build: Callable[[], Iterable[Any]], images: Callable[[Any], Any] = lambda element: element
) -> Case:
    """Returns a case whose run reads the data set that `build` makes, in whose elements `images` finds the images. The
    run raises TfhetError unless there are `count` images."""

    def read(iterator: Iterable[Any]) -> None:
        seen = sum(int(images(element).shape[0]) for element in iterator)
        if seen != count:
            raise TfhetError(f"bench case {name!r} gave {seen} images instead of {count}: its time means nothing")

    return Case(name, read, count, "image", build, begin=iter)


def threaded(dataset: tf.data.Dataset, threads: int | None) -> tf.data.Dataset:
    """Returns the data set on `threads` threads, or as it is for None."""
    if threads is None:
        return dataset
    import tensorflow as tf

    options = tf.data.Options()
    options.threading.private_threadpool_size = threads
    options.threading.max_intra_op_parallelism = threads
    return dataset.with_options(options)


def figures_of(course: Course, taken: Mapping[str, Measurement], steps: Mapping[str, Case]) -> dict[str, Figure]:
    whole = {
        f"stages.{course.name}.us_per_image": taken[TFHET].figure(),
        f"stages.{course.name}.examples_per_s_core": rate(taken[TFHET], course.cores),
    }
    return whole | part_figures(course, taken, steps)


def part_figures(course: Course, taken: Mapping[str, Measurement], steps: Mapping[str, Case]) -> dict[str, Figure]:
    figures = {f"stages.{course.name}.decode_us": taken[DECODE].figure()}
    return figures | {f"stages.{course.name}.{step}_us": taken[case.name].figure() for step, case in steps.items()}


def rate(measured: Measurement, cores: int) -> Figure:
    """Returns images per second and core, by wall time."""
    return Figure.of([1e6 / us / cores for us in measured.wall_us], unit="/s")
