"""Data planes: how batches come from the hosts that prepare them to the ranks, behind one protocol.

import tfhet.planes as planes

planes.names()                                        # ('local', 'tf_service', ...)
planes.get("tf_service").serving(settings, roles)     # the hosts that prepare batches
"""

from tfhet import extras

__getattr__, __dir__, __all__ = extras.attach(__name__, __file__)
