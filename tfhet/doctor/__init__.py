"""Finds what will fail before anything starts: in this machine, its packages, a cluster, a data set, a script.

from tfhet.cluster import environment
from tfhet.doctor import examine

print(examine(environment(), cluster_file="demo").verdict)
"""

from tfhet import extras

__getattr__, __dir__, __all__ = extras.attach(__name__, __file__)
