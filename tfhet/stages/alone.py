"""One stage of the compiled core on given parameters, or keys: NumPy arrays and tensors of TensorFlow alike."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from tfhet import kernels
from tfhet.errors import UsageError
from tfhet.stages import tensor_chain
from tfhet.stages.core_text import node
from tfhet.stages.levels import FULL
from tfhet.stages.spec import ImageSpec
from tfhet.stages.stage import Array, Stage


@functools.lru_cache(maxsize=256)
def _chain(stage: Stage) -> kernels.Chain:
    return kernels.Chain(f"(single stages=[{node(stage, salt=0 if stage.random else None)}])")


def parameters(stage: Stage, keys: Array, spec: ImageSpec) -> dict[str, Array]:
    """See `Stage.parameters`."""
    stage.spec(spec)
    if spec.form != "images":
        stage.refuse("its parameters depend on the size of each image: run the whole chain")
    chain, shape = _chain(stage), (spec.height or 1, spec.width or 1, spec.channels)
    if not isinstance(keys, np.ndarray):
        return tensor_chain.drawn(chain, keys, spec.dtype, shape)
    named = chain.named(chain.draw_keys(keys, spec.dtype, shape))
    return {name: value for (_, name), value in named.items()}


def apply(stage: Stage, images: Array, parameters: Mapping[str, Array]) -> Array:
    """See `Stage.apply`."""
    chain, spec = _chain(stage), ImageSpec.of(images)
    if spec.form != "images":
        stage.refuse("it runs only in a chain, together with the stage that brings images to one size")
    if isinstance(images, np.ndarray):
        given = chain.slots_of(parameters, len(images)) if chain.slots else None
        return chain.run(images, given=given)
    return tensor_chain.applied(chain, images, parameters, _output(stage, spec))


def _output(stage: Stage, spec: ImageSpec) -> ImageSpec:
    """Returns the spec of the results for images whose range is unknown: the full range, or any other."""
    try:
        return stage.spec(replace(spec, low=0.0, high=FULL[spec.dtype]))
    except UsageError:
        with contextlib.suppress(UsageError):
            return stage.spec(spec)
        raise


Stage._draw_compiled = parameters
Stage._apply_compiled = apply
