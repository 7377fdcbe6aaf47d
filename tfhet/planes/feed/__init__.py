"""The feed: any Python on the hosts that serve, read by ranks of any framework.

planes.get("feed").launcher_side(settings, place, outlets)     # starts the processes of one host
FeedReader(servers, key, source)                               # in a rank
"""

from tfhet.planes.feed.plane import FEED
