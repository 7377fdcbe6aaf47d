"""Many hosts on one machine: process trees, or containers with a network and limits of their own."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
