"""The feed: any Python on the hosts that serve, read by ranks of any framework.

planes.get("feed").launcher_side(settings, place, outlets)     # starts the processes of one host
FeedReader(servers, key, source)                               # in a rank
"""

from tfhet import extras

__getattr__, __dir__, __all__ = extras.attach(__name__, __file__)
