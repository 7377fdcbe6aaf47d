"""The life of one host, from start to exit."""

from tfhet import extras

__getattr__, __dir__, __all__ = extras.attach(__name__, __file__)
