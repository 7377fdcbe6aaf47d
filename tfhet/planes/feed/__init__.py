"""The feed: any Python on the hosts that serve, read by ranks of any framework.

planes.get("feed").launcher_side(settings, place, outlets)     # starts the processes of one host
FeedReader(servers, key, source)                               # in a rank
"""

from typing import TYPE_CHECKING

from tfhet import lazy
from tfhet.planes.feed.plane import FEED

if TYPE_CHECKING:
    from tfhet.planes.feed.frame import examples_in
    from tfhet.planes.feed.production import Over, Production, Wish
    from tfhet.planes.feed.reader import FeedReader
    from tfhet.planes.feed.server import Server
    from tfhet.planes.feed.source import FeedSource, Shard

# A launcher does without NumPy, which these need.
lazy.names_on_demand(__name__)
