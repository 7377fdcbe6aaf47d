"""The models of the built-in trainer, for square or oblong images in [0, 1]."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from tfhet.errors import unknown


def resnet50(shape: tuple[int, int, int], classes: int) -> tf.keras.Model:
    """ResNet-50 (He et al. 2015) without pre-trained weights, as Keras has it. Height and width at least 32."""
    return tf.keras.applications.ResNet50(weights=None, input_shape=shape, classes=classes)


def small_cnn(shape: tuple[int, int, int], classes: int) -> tf.keras.Model:
    """Two convolutions and two dense layers, about 160,000 parameters at 32x32x3; a second to build, quick on a CPU."""
    layers = tf.keras.layers
    return tf.keras.Sequential(
        [
            layers.Input(shape),
            layers.Conv2D(16, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(64, activation="relu"),
            layers.Dense(classes, activation="softmax", dtype="float32"),
        ],
        name="small_cnn",
    )


MODELS: dict[str, Callable[[tuple[int, int, int], int], tf.keras.Model]] = {
    "resnet50": resnet50,
    "small_cnn": small_cnn,
}


def model(name: str, shape: tuple[int, int, int], classes: int) -> tf.keras.Model:
    """The named model for images of `shape` (height, width, channels); it puts out probabilities, float32."""
    if name not in MODELS:
        unknown("model", name, [*MODELS, "emulated"])
    return MODELS[name](shape, classes)
