"""A profile of the chain `aws-cifar`, as `tfhet profile` measured it on two cores of an AMD EPYC in November 2026."""

from __future__ import annotations

from tfhet.profile import Cost, Profile


def _stage(
    name: str, us: tuple[float, ...], alone_us: tuple[float, ...], size: int = 3096, dtype: str = "uint8"
) -> Cost:
    return Cost(name, us, alone_us, bytes_per_example=size, dtype=dtype, examples=256, kind="Stage")


PROFILE = Profile(
    "pipeline",
    (
        Cost("read, parse and batch", (1.79, 1.84, 1.77), (), 3096, "uint8", 256, "Source"),
        _stage("dilate()", (2.07, 2.31, 2.09), (0.385, 0.396, 0.411)),
        _stage("gaussian_blur()", (3.66, 3.73, 3.71), (1.67, 1.68, 1.68)),
        _stage("random_flip(); random_rotation(); random_zoom()", (6.38, 6.22, 6.21), (2.64, 2.65, 2.62)),
        _stage("rescale()", (6.59, 6.48, 6.31), (0.257, 0.25, 0.257), 12312, "float32"),
    ),
)
