"""Registers the stage `random_exposure`."""

from collections.abc import Mapping

import tensorflow as tf

from tfhet.stages import ImageSpec, Stage, randomness, register


@register("random_exposure")
class RandomExposure(Stage):
    """Makes each image brighter or darker by up to `stops` aperture stops; one stop is a factor of 2."""

    stops: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()  # checks the types of the fields
        if not self.stops > 0:
            self.refuse(f"stops is positive, not {self.stops}")

    def spec(self, spec: ImageSpec) -> ImageSpec:
        if spec.dtype != "uint8":
            self.refuse(f"works on uint8, not {spec.dtype}")
        return spec

    def parameters(self, keys: tf.Tensor, spec: ImageSpec) -> dict[str, tf.Tensor]:
        return {"stops": randomness.uniform(keys, 0, -self.stops, self.stops)}  # one number per example

    def apply(self, images: tf.Tensor, parameters: Mapping[str, tf.Tensor]) -> tf.Tensor:
        factors = tf.pow(2.0, parameters["stops"])[:, tf.newaxis, tf.newaxis, tf.newaxis]
        return tf.saturate_cast(tf.round(tf.cast(images, tf.float32) * factors), tf.uint8)
