"""The fused, compiled chains make the images of their stages run one by one in stock TensorFlow.

A fused sampling stays one sampling in the reference, because several in a row are softer.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

pytest.importorskip("tensorflow")
pytest.importorskip("sklearn")

from benchmarks.peers.peer import ANTIALIAS
from benchmarks.stages.forms import Form, forms, shaped
from tfhet.bench.chain import work_of
from tfhet.native import SWITCH
from tfhet.placement import Pipeline, one_epoch, steps
from tfhet.source import TFRecordSource, digits, photos
from tfhet.stages import CHAINS, Normalize, Rescale
from tfhet.stages.fusion import Sampling, Step

COUNT = 4
ONE_LEVEL = 1.01
"""Grey levels by which results differ that are rounded either way."""


def parts_of(step: Step) -> list[Step]:
    if isinstance(step, Sampling):
        return [step]
    return [Step((placed,), spec) for placed, spec in zip(step.stages, step.inputs, strict=True)]


def levels_of(pipeline: Pipeline) -> np.ndarray:
    """Grey levels in one unit of the result, per channel."""
    levels = np.ones(1, np.float32)
    for stage in pipeline.stages:
        if isinstance(stage, Normalize):
            levels = levels * 255.0 * np.array(stage.std, np.float32)
        elif isinstance(stage, Rescale):
            levels = levels / stage.scale
    return levels


def made(pipeline: Pipeline, parts: Sequence[Step]) -> np.ndarray:
    element = next(iter(one_epoch(pipeline.with_stages(()))))
    images = element["image"]
    for step in parts:
        images = work_of(pipeline, step)(images, element["id"])
    return np.asarray(images, np.float32) * levels_of(pipeline)


@pytest.mark.parametrize("name", CHAINS)
def test_fused_chain_equals_its_stages(
    name: str, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path_factory.mktemp(name)
    if "decode" in CHAINS[name]:
        source = TFRecordSource.from_directory(photos.photos(count=COUNT, cache=folder))
    else:
        source = digits.repeated(folder, COUNT, folder)
    pipeline = Pipeline(source, name, COUNT, seed=3)
    pipeline = shaped(pipeline, Form(ANTIALIAS, "float32")) if len(forms(pipeline)) > 1 else pipeline
    fused = made(pipeline, steps(pipeline))
    monkeypatch.setenv(SWITCH, "off")
    apart = np.abs(fused - made(pipeline, [part for step in steps(pipeline) for part in parts_of(step)]))
    assert fused.shape[0] == COUNT and (apart > ONE_LEVEL).mean() < 5e-4
    if name != "randaugment-224":  # its solarize has a threshold: one level before it may be many behind it
        assert apart.max() < (2.0 if name == "imagenet-jitter" else 1.0) * ONE_LEVEL
