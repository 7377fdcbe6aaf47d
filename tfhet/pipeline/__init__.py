"""The declared pipeline: what happens to every example, and how it runs, natively or as tf.data.

    pipeline = Pipeline(source, "random_flip(); rescale()", batch_size=64, shuffle=True, seed=1)

Names of tf.data (`one_epoch` and others) load TensorFlow when they are first used.
"""

from tfhet import extras

__getattr__, __dir__, __all__ = extras.attach(__name__, __file__)
