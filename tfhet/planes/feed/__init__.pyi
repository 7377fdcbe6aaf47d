from .frame import examples_in as examples_in
from .plane import FEED as FEED
from .production import Over as Over, Production as Production, Wish as Wish
from .reader import FeedReader as FeedReader
from .server import Server as Server
from .source import FeedSource as FeedSource, Shard as Shard
