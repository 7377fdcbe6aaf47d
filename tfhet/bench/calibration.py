"""`tfhet bench stages --calibrate`: what the implementations of each operation cost here, into this machine's table."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from benchmarks.stages import each
from tfhet.bench import harness
from tfhet.bench.case import Case
from tfhet.bench.chain import alone
from tfhet.errors import TfhetError
from tfhet.events import Observer
from tfhet.record import Figure, Record

if TYPE_CHECKING:
    import tensorflow as tf

    from tfhet.stages import costs

NAME = "stages.costs"
TRIALS: Mapping[str, str] = {
    "project": "random_rotation(0.1)",
    "blur": "gaussian_blur(11, 0.8)",
    "morphology": "dilate(3)",
    "sharpen": "sharpen()",
    "line": "random_brightness()",
    "lookup": "equalize()",
    "equalize": "equalize()",
    "statistics": "autocontrast()",
    "colour": "color_jitter()",
    "saturation": "random_saturation()",
    "grey": "grayscale()",
    "noise": "gaussian_noise()",
    "paint": "random_erasing()",
    "resize": "resize({half}, {half})",
}
"""Operation to a stage that is made of it, for the most part."""
CHANNELS = 3


def run(options: argparse.Namespace, observer: Observer, command: Sequence[str]) -> Record:
    """Measures all backends, an operation on one kind of images at a time, interleaved; writes the table."""
    from tfhet.stages import costs

    lines: list[costs.Cost] = []
    figures: dict[str, Figure] = {}
    left_out: dict[str, str] = {}
    raw: dict[str, Any] = {}
    for operation, backends in costs.BACKENDS.items():
        for size, batch in each.SIZES.items():
            for dtype in ("uint8", "float32"):
                cases, why = _cases(operation, backends, dtype, size, batch, options.threads)
                left_out.update(why)
                if len(cases) < 2:  # nothing to choose from
                    continue
                found = list(cases.values())
                taken = harness.measure(found, repeats=options.repeats, warmup=options.warmup, observer=observer)
                for backend, case in cases.items():
                    figure = taken[case.name].figure()
                    figures[f"{NAME}.{operation}.{backend}.{dtype}.{size}"] = figure
                    lines.append(costs.Cost(operation, backend, dtype, size * size, CHANNELS, round(figure.value, 3)))
                    raw[case.name] = taken[case.name].to_json()
    if not lines:
        words = "; ".join(f"{name}: {why}" for name, why in left_out.items())
        raise TfhetError(f"no operation has more than one implementation here: {words}")
    path = costs.write(lines)
    details = {"table": str(path), "left_out": left_out, "cases": raw}
    return Record.of(NAME, figures, details=details, command=command)


def _cases(
    operation: str, backends: Sequence[str], dtype: str, size: int, batch: int, threads: int | None
) -> tuple[dict[str, Case], dict[str, str]]:
    """The backends that are there, and why the others are not."""
    import tensorflow as tf

    from tfhet import stages as stage_room
    from tfhet.stages import ImageSpec, costs

    (stage,) = stage_room.parse(TRIALS[operation].format(half=size // 2))
    spec = ImageSpec(size, size, CHANNELS, dtype, 0.0, 255.0 if dtype == "uint8" else 1.0)
    images, ids = each.images(dtype, batch, size), tf.range(batch, dtype=tf.int64)
    found: dict[str, Case] = {}
    left_out: dict[str, str] = {}
    for backend in backends:
        try:
            with costs.forced(operation, backend) as chosen:
                work = tf.function(each.staged(stage, spec), autograph=False).get_concrete_function(images, ids)
        except (TfhetError, ImportError) as error:
            left_out[f"{operation}.{backend}"] = str(error)
            continue
        if chosen.get(operation) != backend:
            asked = "cannot be had here" if operation in chosen else f"{stage.name} does not ask the table"
            left_out[f"{operation}.{backend}"] = asked
            continue
        name = f"{operation} {backend} {dtype} {size}"
        found[backend] = alone(name, _called(work), (images, ids), threads, _count(work, images, ids, batch))
    return found, left_out


def _called(work: Any) -> Any:
    return lambda images, ids: work(images, ids)


def _count(work: Any, images: tf.Tensor, ids: tf.Tensor, batch: int) -> int:
    """Images in a run of about each.RUN_S."""
    work(images, ids)
    return each.runs(lambda: work(images, ids)) * batch
