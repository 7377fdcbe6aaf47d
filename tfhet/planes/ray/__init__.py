"""A Ray cluster on the hosts of a job, from which ranks read Ray Data, and on which a script runs whatever Ray runs.

planes.get("ray").launcher_side(settings, place, outlets)     # starts the node of one host
"""

from tfhet import extras

__getattr__, __dir__, __all__ = extras.attach(__name__, __file__)
