"""What stages do to labels: checked when a pipeline is declared, done beside the images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import tensorflow as tf

from tfhet.errors import UsageError
from tfhet.placement.declaration import LABEL, PlacedStage


def label_spec(features: Mapping[str, tf.TensorSpec], placed: Sequence[PlacedStage]) -> tf.TensorSpec | None:
    """What the labels are behind all stages; `features` are the source's. None when the source has none.

    Raises UsageError, naming the stage, for one that changes labels where there are none, or others than it can.
    """
    spec = features.get(LABEL)
    for stage in (each.stage for each in placed):
        if spec is None and stage.relabels:
            raise UsageError(
                f"stage {stage.name} changes labels, and the source has no feature {LABEL!r}, only "
                f"{', '.join(sorted(features))}"
            )
        if spec is not None:
            spec = stage.label_spec(spec)
    return spec


def relabelled(labels: tf.Tensor, placed: Sequence[PlacedStage], drawn: Sequence[Mapping[str, tf.Tensor]]) -> tf.Tensor:
    """[batch, ...], and the parameters of each stage, those with which it changes the images -> [batch, ...]."""
    for each, parameters in zip(placed, drawn, strict=True):
        if each.stage.relabels:
            labels = each.stage.labels(labels, parameters)
    return labels
