"""The cases of one chain: tfhet in every form, the chain as plain TensorFlow, reading alone, and each step alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tfhet.bench import plain
from tfhet.bench.case import Case
from tfhet.bench.chain_form import LINEAR, Form, forms, shaped
from tfhet.bench.measurement import Measurement
from tfhet.errors import TfhetError
from tfhet.record import Figure

if TYPE_CHECKING:
    import tensorflow as tf

    from tfhet.placement import Pipeline

PLAIN, TFHET, DECODE = "example", "tfhet", "decode"
"""Names of cases: the chain as plain TensorFlow writes it, as AWS's example does; tfhet; reading and batching alone."""
PASSES = 4
"""Passes over the records in one run of the cheap cases."""
PHOTO_PASSES = 2
"""The same for photos."""
ALONE_IMAGES = {True: 16384, False: 512}
"""Minimum number of images in one run of a step alone, by whether they are small."""


@dataclass(frozen=True)
class Course:
    """One chain on one data set: all that is measured of it comes from here."""

    name: str
    """The name of the chain, in figures."""
    pipeline: Pipeline
    """As declared."""
    forms: tuple[Form, ...]
    """The forms to measure."""
    examples: int
    """Number of records in the source."""
    threads: int | None
    """Of every pipeline; None: as many as there are cores."""
    cores: int
    """Number of cores that the pipelines have."""

    @property
    def small(self) -> bool:
        """Whether the images are not photos."""
        return not self.forms[0].way

    @property
    def plain_form(self) -> Form:
        """The form in which the chain is held against plain TensorFlow."""
        return self.forms[0] if self.small else Form(LINEAR, "float32")


def name_of(form: Form) -> str:
    """The case of tfhet in a form."""
    return f"{TFHET} {form.words}".strip()


def whole_cases(course: Course) -> list[Case]:
    """The chain as plain TensorFlow where it can be written so, tfhet in every form, and reading alone."""
    passes = PASSES if course.small else PHOTO_PASSES
    cases = [dataset_case(course, PLAIN, 1, lambda: _plain(course), lambda element: element[0])]
    for form in course.forms:
        cases.append(dataset_case(course, name_of(form), passes, _tfhet(course, shaped(course.pipeline, form), passes)))
    cases.append(dataset_case(course, DECODE, PASSES, _tfhet(course, course.pipeline.with_stages(()), PASSES)))
    return cases if plain.knows(course.pipeline.stages) else cases[1:]


def dataset_case(
    course: Course,
    name: str,
    passes: int,
    build: Callable[[], tf.data.Dataset],
    images: Callable[[Any], Any] = lambda element: element["image"],
) -> Case:
    """A case that reads the data set that `build` makes, which goes over the records `passes` times."""
    return reading(name, course.examples * passes, lambda: threaded(build(), course.threads), images)


def _tfhet(course: Course, pipeline: Pipeline, passes: int) -> Callable[[], tf.data.Dataset]:
    from tfhet.placement import one_epoch

    return lambda: one_epoch(pipeline, threads=course.threads).repeat(passes)


def _plain(course: Course) -> tf.data.Dataset:
    pipeline = shaped(course.pipeline, course.plain_form)
    files, shape = pipeline.source.files, pipeline.source.spec["image"].shape[1:]  # type: ignore[attr-defined]
    return plain.dataset(files, shape, pipeline.stages, pipeline.batch_size)  # type: ignore[arg-type]


def step_cases(course: Course) -> dict[str, Case]:
    """Each step of one form alone, in running order, on one batch that the steps before it made: stage names, with a
    plus between those that run as one, to the case."""
    from tfhet.placement import one_epoch, steps
    from tfhet.stages import randomness

    pipeline = shaped(course.pipeline, course.plain_form)
    element = next(iter(one_epoch(pipeline.with_stages(())).take(1)))
    images, ids = element["image"], element["id"]
    cases: dict[str, Case] = {}
    for step in steps(pipeline):

        def work(images: tf.Tensor, ids: tf.Tensor, step: Any = step) -> tf.Tensor:
            drawn = []
            for placed, spec in zip(step.stages, step.inputs, strict=True):
                keys = randomness.keys(pipeline.seed, placed.stage.name, placed.declared, 0, ids)
                drawn.append(placed.stage.parameters(keys, spec) if placed.stage.random else {})
            return step.run(images, drawn)

        name = words = "+".join(placed.stage.name for placed in step.stages)
        count = 2
        while name in cases:
            name, count = f"{words}_{count}", count + 1
        cases[name] = alone(f"{name} alone", work, (images, ids), course.threads, ALONE_IMAGES[course.small])
        images = work(images, ids)
    return cases


def alone(name: str, work: Callable[..., Any], batch: tuple[Any, ...], threads: int | None, least: int) -> Case:
    """`work(*batch)` as tf.data runs it, again and again, on at least `least` images in one run."""
    import tensorflow as tf

    size = int(batch[0].shape[0])
    batches = -(-least // size)

    def build() -> tf.data.Dataset:
        same = tf.data.Dataset.from_tensors(batch).repeat(batches)
        parallel_calls = tf.data.AUTOTUNE if threads is None else threads
        unconverted = tf.autograph.experimental.do_not_convert(work)
        return threaded(same.map(unconverted, num_parallel_calls=parallel_calls), threads)

    return reading(name, batches * size, build)


def reading(
    name: str,
    count: int,
    build: Callable[[], Iterable[Any]],
    images: Callable[[Any], Any] = lambda element: element,
) -> Case:
    """A case that goes once over the data set that `build` makes in each run; it raises TfhetError unless that has
    `count` images. `images` finds them in an element."""

    def read(iterator: Iterable[Any]) -> None:
        seen = sum(int(images(element).shape[0]) for element in iterator)
        if seen != count:
            raise TfhetError(f"bench case {name!r} gave {seen} images instead of {count}: its time means nothing")

    return Case(name, read, count, "image", build, begin=iter)


def threaded(dataset: tf.data.Dataset, threads: int | None) -> tf.data.Dataset:
    """The data set on `threads` threads; as it is for None."""
    if threads is None:
        return dataset
    import tensorflow as tf

    options = tf.data.Options()
    options.threading.private_threadpool_size = threads
    options.threading.max_intra_op_parallelism = threads
    return dataset.with_options(options)


def figures_of(course: Course, taken: Mapping[str, Measurement], steps: Mapping[str, Case]) -> dict[str, Figure]:
    """The figures of the chain, the ratio to plain TensorFlow first."""
    prefix, figures = f"stages.{course.name}", dict[str, Figure]()
    if PLAIN in taken:
        ours = taken[name_of(course.plain_form)]
        figures[f"{prefix}.vs_example"] = ours.cheaper_than(taken[PLAIN], plain.AGAINST)
    for form in course.forms:
        figures[".".join(filter(None, (prefix, form.key, "us_per_image")))] = taken[name_of(form)].figure()
    for form in course.forms:
        name = ".".join(filter(None, (prefix, form.key, "examples_per_s_core")))
        figures[name] = rate(taken[name_of(form)], course.cores)
    if PLAIN in taken:
        figures[f"{prefix}.example_us_per_image"] = taken[PLAIN].figure()
    figures[f"{prefix}.decode_us"] = taken[DECODE].figure()
    return figures | {f"{prefix}.{step}_us": taken[case.name].figure() for step, case in steps.items()}


def rate(measured: Measurement, cores: int) -> Figure:
    """Images per second and core, by wall time."""
    return Figure.of([1e6 / us / cores for us in measured.wall_us], unit="/s")


def course_of(name: str, pipeline: Pipeline, examples: int, threads: int | None, cores: int) -> Course:
    """The course of a pipeline in all its forms."""
    return Course(name, pipeline, forms(pipeline), examples, threads, cores)
