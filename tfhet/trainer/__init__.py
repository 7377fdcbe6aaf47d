"""The built-in trainer: models, train step, step loop, checkpoints; `python -m tfhet.trainer` runs it all."""

from tfhet import extras

__getattr__, __dir__, __all__ = extras.attach(__name__, __file__)
