"""Many hosts on one machine: process trees, or containers with a network and limits of their own."""

from tfhet import extras

__getattr__, __dir__, __all__ = extras.attach(__name__, __file__)
