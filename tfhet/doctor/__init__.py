"""Finds what will fail before anything starts: in this machine, its packages, a cluster, a data set, a script.

from tfhet.cluster import environment
from tfhet.doctor import examine

print(examine(environment(), cluster_file="demo").verdict)
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
