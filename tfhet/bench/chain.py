"""The cases of one chain: tfhet in every form, the chain as plain TensorFlow, reading alone, and each step alone.

Only the same picture in the same dtype is compared, so chains that resize photos are measured in several forms.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tfhet.bench import plain
from tfhet.bench.case import Case, Measurement
from tfhet.errors import TfhetError
from tfhet.record import Figure

if TYPE_CHECKING:
    import tensorflow as tf

    from tfhet.placement import Pipeline
    from tfhet.stages import Stage

PLAIN, TFHET, DECODE = "example", "tfhet", "decode"
"""Names of cases: the chain as plain TensorFlow writes it, as AWS's example does; tfhet; reading and batching alone."""
PASSES = 4
"""Passes over the records in one run of the cheap cases."""
PHOTO_PASSES = 2
"""The same for photos."""
ALONE_IMAGES = {True: 16384, False: 512}
"""Minimum number of images in one run of a step alone, by whether they are small."""
LINEAR, ANTIALIAS = "linear", "antialias"
"""Ways to resize: bilinear between the four nearest pixels, or over all source pixels that a result pixel covers. The
pictures differ, so each way is compared only with itself."""
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


def forms(pipeline: Pipeline) -> tuple[Form, ...]:
    """Returns the forms of the pipeline's chain: with encoded images each way in uint8 and in float32."""
    if pipeline.input.dtype != "encoded":
        return (Form("", pipeline.output.dtype),)
    return tuple(Form(way, dtype) for way in WAYS for dtype in ("uint8", "float32"))


def shaped(pipeline: Pipeline, form: Form) -> Pipeline:
    """Returns the pipeline in one of its forms: stages resize that way, and for uint8 it ends before they leave it."""
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


@dataclass(frozen=True)
class Course:
    """One chain on one data set, with everything that its cases need."""

    name: str
    """Name of the chain in figures."""
    pipeline: Pipeline
    forms: tuple[Form, ...]
    examples: int
    """Number of records in the source."""
    threads: int | None
    """Threads of every pipeline; None for one a core."""
    cores: int
    """Number of cores that the pipelines have."""

    @property
    def small(self) -> bool:
        """Whether the images are not photos."""
        return not self.forms[0].way

    @property
    def plain_form(self) -> Form:
        """The form in which the chain is compared with plain TensorFlow."""
        return self.forms[0] if self.small else Form(LINEAR, "float32")


def name_of(form: Form) -> str:
    """Returns the name of tfhet's case in a form."""
    return f"{TFHET} {form.words}".strip()


def whole_cases(course: Course) -> list[Case]:
    """Returns the chain as plain TensorFlow where it can be written so, tfhet in every form, and reading alone."""
    passes = PASSES if course.small else PHOTO_PASSES
    cases = [_tfhet(course, name_of(form), shaped(course.pipeline, form), passes) for form in course.forms]
    cases.append(_tfhet(course, DECODE, course.pipeline.with_stages(()), PASSES))
    if plain.knows(course.pipeline.stages):
        cases.insert(0, dataset_case(course, PLAIN, 1, lambda: _plain(course), lambda element: element[0]))
    return cases


def dataset_case(
    course: Course, name: str, passes: int, build: Callable[[], tf.data.Dataset], images: Callable[[Any], Any]
) -> Case:
    """Returns a case that reads the data set that `build` makes, which goes over the records `passes` times."""
    return reading(name, course.examples * passes, lambda: threaded(build(), course.threads), images)


def _tfhet(course: Course, name: str, pipeline: Pipeline, passes: int) -> Case:
    from tfhet.placement import one_epoch

    def build() -> tf.data.Dataset:
        return one_epoch(pipeline, threads=course.threads).repeat(passes)

    return dataset_case(course, name, passes, build, lambda element: element["image"])


def _plain(course: Course) -> tf.data.Dataset:
    pipeline = shaped(course.pipeline, course.plain_form)
    files, shape = pipeline.source.files, pipeline.source.spec["image"].shape[1:]  # type: ignore[attr-defined]
    return plain.dataset(files, shape, pipeline.stages, pipeline.batch_size)  # type: ignore[arg-type]


def step_cases(course: Course) -> dict[str, Case]:
    """Returns a case for each step, by stage names joined with a plus, on one batch that the steps before it made."""
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
        cases[name] = _alone(course, f"{name} alone", work, images, ids)
        images = work(images, ids)
    return cases


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
    name: str,
    count: int,
    build: Callable[[], Iterable[Any]],
    images: Callable[[Any], Any] = lambda element: element,
) -> Case:
    """Returns a case whose run reads the data set that `build` makes, in whose elements `images` finds the images.

    The run raises TfhetError unless there are `count` images.
    """

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
    """Returns the figures of the chain, the ratio to plain TensorFlow first."""
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
    """Returns images per second and core, by wall time."""
    return Figure.of([1e6 / us / cores for us in measured.wall_us], unit="/s")
