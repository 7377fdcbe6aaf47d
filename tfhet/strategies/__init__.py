"""How ranks train together: strategies behind one protocol, and where a rank finds its place in the job.

import tfhet.strategies as strategies

strategies.names()                       # ('solo', 'horovod', ...)
strategies.get("horovod")                # a Strategy
JobContext.from_env(environment())       # the place that the launcher gave this process
"""

from tfhet.strategies.job import LOCAL_PLANE, JobContext
from tfhet.strategies.rank_source import OWN, RankSource
from tfhet.strategies.registry import AUTO, chosen, get, names, rank_of, roles, source_of, sources, translated
from tfhet.strategies.strategy import Claim, Collective, Meeting, Strategy

# fmt: off
__all__ = [
    "AUTO", "LOCAL_PLANE", "OWN", "Claim", "Collective", "JobContext", "Meeting", "RankSource", "Strategy", "chosen",
    "get", "names", "rank_of", "roles", "source_of", "sources",
    "translated",
]
