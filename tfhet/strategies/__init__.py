"""How ranks train together: strategies with one interface, and the place of a rank in its job.

strategies.get("horovod")                # a Strategy of strategies.names() JobContext.from_env(environment())       #
the place of this process, from its launcher
"""

from tfhet.strategies.job import LOCAL_PLANE, JobContext
from tfhet.strategies.registry import AUTO, chosen, get, names, rank_of, roles, source_of, sources, translated
from tfhet.strategies.strategy import OWN, Claim, Collective, Meeting, RankSource, Strategy
from tfhet.strategies.tensorflow import keras_fit
