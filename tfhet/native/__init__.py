"""Compiled ops for what plain TensorFlow does slowly; built on first use, never needed."""

from tfhet.native.library import available, load_all, names, ops

__all__ = ["available", "load_all", "names", "ops"]
