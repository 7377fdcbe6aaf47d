from .batch_reader import START as START, Position as Position
from .delivered import BatchRequest as BatchRequest, Key as Key, Received as Received, SourceError as SourceError
from .frame import examples_in as examples_in
from .plane import FEED as FEED
from .production import EndOfShard as EndOfShard, Production as Production
from .reader import FeedReader as FeedReader
from .server import Server as Server
from .source import FeedSource as FeedSource, Shard as Shard
