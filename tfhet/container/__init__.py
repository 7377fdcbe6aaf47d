"""Containers without Docker: processes with a network, a root and limits of their own. Needs Linux and root."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
