"""Changes of labels by stages: checked when a pipeline is declared, made beside those of the images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import tensorflow as tf

from tfhet.errors import UsageError
from tfhet.placement.declaration import LABEL, PlacedStage


def label_spec(features: Mapping[str, tf.TensorSpec], placed: Sequence[PlacedStage]) -> tf.TensorSpec | None:
    """Returns the spec of the labels after all stages; None when the source, whose features are given, has no labels.

    Raises UsageError, naming the stage, for one that changes labels where there are none, or that does not fit them.
    """
    spec = features.get(LABEL)
    for stage in (each.stage for each in placed):
        if spec is None and stage.relabels:
            raise UsageError(
                f"stage {stage.name} changes labels, but the source has no feature {LABEL!r}, only "
                f"{', '.join(sorted(features))}"
            )
        if spec is not None:
            spec = stage.label_spec(spec)
    return spec


def relabelled(labels: tf.Tensor, placed: Sequence[PlacedStage], drawn: Sequence[Mapping[str, tf.Tensor]]) -> tf.Tensor:
    """Returns the labels after the stages. labels: [batch, ...]. drawn: each stage's parameters, as for the images."""
    for each, parameters in zip(placed, drawn, strict=True):
        if each.stage.relabels:
            labels = each.stage.labels(labels, parameters)
    return labels
