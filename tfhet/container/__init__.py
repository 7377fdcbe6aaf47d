"""Containers without Docker: processes with a network, a root and limits of their own. Needs Linux and root."""

from tfhet import extras

__getattr__, __dir__, __all__ = extras.attach(__name__, __file__)
