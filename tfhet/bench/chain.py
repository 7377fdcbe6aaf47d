"""One chain measured whole: tfhet in every form, the example, the peers, the floors, and each step alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchmarks.peers.job import LINEAR
from benchmarks.stages.peer_cases import Entry
from tfhet.bench import plain as example
from tfhet.bench.case import Case
from tfhet.bench.forms import Form, shaped
from tfhet.bench.measurement import Measurement
from tfhet.errors import TfhetError
from tfhet.record import Figure

if TYPE_CHECKING:
    import tensorflow as tf

    from tfhet.placement import Pipeline

EXAMPLE, TFHET, DECODE, CROP = "example", "tfhet", "decode", "crop decode"
PASSES = 4
"""How often the cheap cases go over the records in one run."""
PHOTO_PASSES = 2
"""The same for photos."""
ALONE_IMAGES = {True: 16384, False: 512}
"""Least images that a step alone does in one run, by whether they are small."""
CROP_DECODED = "imagenet-train"
"""The chain that is held against decoding its crops and nothing else."""


@dataclass(frozen=True)
class Course:
    """What all cases of a chain are made from."""

    pipeline: Pipeline
    """As the chain says."""
    forms: tuple[Form, ...]
    """To be measured."""
    examples: int
    """In the source."""
    threads: int | None
    """Of every pipeline; None: as many as there are cores."""

    @property
    def small(self) -> bool:
        """Whether the images are not photos."""
        return not self.forms[0].way

    def named(self, form: Form) -> str:
        """The case of tfhet in a form."""
        return f"{TFHET} {form.words}".strip()


def whole_cases(course: Course) -> list[Case]:
    """tfhet in every form, and what it is held against in this process."""
    passes = PASSES if course.small else PHOTO_PASSES
    cases = [
        _case(course, course.named(f), passes, _tfhet(course, shaped(course.pipeline, f), passes)) for f in course.forms
    ]
    plain = course.pipeline.with_stages(())
    floor = _case(course, DECODE, PASSES, _tfhet(course, plain, PASSES))
    if example_knows(course.pipeline):
        cases = [_case(course, EXAMPLE, 1, lambda: _example(course), lambda element: element[0]), *cases]
    if (
        any(getattr(stage, "name", "") == "random_resized_crop" for stage in course.pipeline.stages)
        and not course.small
    ):
        cases.append(
            _case(course, CROP, PHOTO_PASSES, lambda: _crops(course).repeat(PHOTO_PASSES), lambda element: element)
        )
    return [*cases, floor]


def example_knows(pipeline: Pipeline) -> bool:
    """Whether the chain can be written in the example's style."""
    return all(getattr(stage, "name", "") in example.STEPS for stage in pipeline.stages)


def _case(
    course: Course,
    name: str,
    passes: int,
    build: Callable[[], tf.data.Dataset],
    images: Callable[[Any], Any] = lambda element: element["image"],
) -> Case:
    count = course.examples * passes
    return reading(name, count, lambda: threaded(build(), course.threads), images)


def _tfhet(course: Course, pipeline: Pipeline, passes: int) -> Callable[[], tf.data.Dataset]:
    from tfhet.placement import one_epoch

    return lambda: one_epoch(pipeline, threads=course.threads).repeat(passes)


def _example(course: Course) -> tf.data.Dataset:
    pipeline = course.pipeline
    files, shape = pipeline.source.files, pipeline.source.spec["image"].shape[1:]  # type: ignore[attr-defined]
    return example.dataset(files, shape, pipeline.stages, pipeline.batch_size)  # type: ignore[arg-type]


def _crops(course: Course) -> tf.data.Dataset:
    """The crops of `random_resized_crop`, from memory, decoded by `tf.io.decode_and_crop_jpeg` in their own sizes and
    nothing else: what the whole chain would cost if only decoding did."""
    import tensorflow as tf

    from tfhet.placement import one_epoch
    from tfhet.stages import RandomResizedCrop, randomness

    pipeline = course.pipeline
    at = [getattr(stage, "name", "") for stage in pipeline.stages].index("random_resized_crop")
    crop = pipeline.stages[at]
    assert isinstance(crop, RandomResizedCrop)
    spec = pipeline.input
    for stage in pipeline.stages[:at]:
        spec = stage.spec(spec)  # type: ignore[union-attr]
    contents, boxes = [], []
    for element in one_epoch(pipeline.with_stages(())):
        sizes = tf.map_fn(tf.io.extract_jpeg_shape, element["image"], fn_output_signature=tf.int32)[:, :2]
        drawn = crop.parameters(randomness.keys(pipeline.seed, crop.name, at, 0, element["id"]), spec)
        contents.append(element["image"])
        boxes.append(tf.cast(crop.windows(drawn, sizes), tf.int32))

    def one(content: tf.Tensor, box: tf.Tensor) -> tf.Tensor:
        # Its shape alone goes on: a batch of many sizes would cost more than the decoding.
        return tf.shape(tf.io.decode_and_crop_jpeg(content, box, channels=3))

    side_by_side = tf.data.AUTOTUNE if course.threads is None else course.threads
    made = tf.data.Dataset.from_tensor_slices((tf.concat(contents, 0), tf.concat(boxes, 0)))
    return made.map(one, num_parallel_calls=side_by_side).batch(pipeline.batch_size)


def step_cases(course: Course) -> dict[str, Case]:
    """Each step of the first form alone, in running order, on one batch that the steps before it made: stage names,
    with a plus between those that run as one, to case."""
    from tfhet.placement import one_epoch
    from tfhet.placement.lowering import steps
    from tfhet.stages import randomness

    pipeline = shaped(course.pipeline, course.forms[-1] if course.small else Form(LINEAR, "float32"))
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
    """`work(*batch)` as tf.data runs it, over and over, at least `least` images in one run."""
    import tensorflow as tf

    size = int(batch[0].shape[0])
    batches = -(-least // size)

    def build() -> tf.data.Dataset:
        same = tf.data.Dataset.from_tensors(batch).repeat(batches)
        side_by_side = tf.data.AUTOTUNE if threads is None else threads
        as_written = tf.autograph.experimental.do_not_convert(work)
        return threaded(same.map(as_written, num_parallel_calls=side_by_side), threads)

    return reading(name, batches * size, build)


def reading(
    name: str,
    count: int,
    build: Callable[[], Iterable[Any]],
    images: Callable[[Any], Any] = lambda element: element,
) -> Case:
    """A case that goes over the data set that `build` makes once in each run, and counts its images: there must be
    `count`. `images` finds them in an element."""

    def read(iterator: Iterable[Any]) -> None:
        seen = sum(int(images(element).shape[0]) for element in iterator)
        if seen != count:
            raise TfhetError(f"bench case {name!r} gave {seen} images instead of {count}: its time means nothing")

    return Case(name, read, count, "image", build, begin=iter)


def threaded(dataset: tf.data.Dataset, threads: int | None) -> tf.data.Dataset:
    """The data set on so many threads; as it is for None."""
    if threads is None:
        return dataset
    import tensorflow as tf

    options = tf.data.Options()
    options.threading.private_threadpool_size = threads
    options.threading.max_intra_op_parallelism = threads
    return dataset.with_options(options)


def figures_of(
    chain: str,
    taken: Mapping[str, Measurement],
    *,
    forms: Sequence[Form] = (Form(),),
    entries: Sequence[Entry] = (),
    alone: Mapping[str, str] | None = None,
    cores: int = 1,
) -> dict[str, Figure]:
    """The flat table of one chain: the ratios first. `alone`: steps to the cases that measured them by themselves;
    `cores`: how many the pipelines had."""
    prefix = f"stages.{chain}"
    ours = {form: taken[f"{TFHET} {form.words}".strip()] for form in forms}
    ratios: dict[str, Figure] = {}
    if EXAMPLE in taken:
        ratios[f"{prefix}.vs_example"] = ours[forms[0]].cheaper_than(taken[EXAMPLE], example.AGAINST)
    peers = [
        (entry, ours[entry.form].cheaper_than(taken[entry.case.name], entry.words))
        for entry in entries
        if entry.form in ours
    ]
    for name in dict.fromkeys(entry.peer.name for entry, _ in peers):
        ratios[f"{prefix}.vs_{name}"] = _least([ratio for entry, ratio in peers if entry.peer.name == name])
    if peers:
        ratios[f"{prefix}.vs_best_peer"] = _least([ratio for _, ratio in peers])
    plain = Form(LINEAR, "uint8")
    if chain == CROP_DECODED and CROP in taken and plain in ours:
        over = Figure.ratio(ours[plain].cpu_us, taken[CROP].cpu_us, against="decoding the crops alone")
        ratios[f"{prefix}.over_crop_decode"] = over
    table = {_key(prefix, form.key, "us_per_image"): measured.figure() for form, measured in ours.items()}
    table |= {_key(prefix, form.key, "examples_per_s_core"): _rate(each, cores) for form, each in ours.items()}
    if EXAMPLE in taken:
        table[f"{prefix}.example_us_per_image"] = taken[EXAMPLE].figure()
    for entry, ratio in peers:
        table[f"{prefix}.{entry.key}.us_per_image"] = taken[entry.case.name].figure()
        table[f"{prefix}.{entry.key}.examples_per_s_core"] = _rate(taken[entry.case.name], cores)
        table[f"{prefix}.{entry.key}.ratio"] = ratio
    for case, name in ((DECODE, "decode_us"), (CROP, "crop_decode_us")):
        if case in taken:
            table[f"{prefix}.{name}"] = taken[case].figure()
    steps = {f"{prefix}.{step}_us": taken[case].figure() for step, case in (alone or {}).items()}
    return {**ratios, **table, **steps}


def _key(*parts: str) -> str:
    return ".".join(part for part in parts if part)


def _least(ratios: Sequence[Figure]) -> Figure:
    """The ratio to whoever comes closest."""
    return min(ratios, key=lambda ratio: ratio.value)


def _rate(measured: Measurement, cores: int) -> Figure:
    """By the wall: images in a second, for each core that could work on them."""
    return Figure.of([1e6 / us / cores for us in measured.wall_us], unit="/s")
