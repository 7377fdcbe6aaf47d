"""The data plane `tf_service`: tf.data service workers on data hosts, and on dnn hosts where that is asked for.

TF_SERVICE.launcher_side(settings, place, outlets)   # dispatcher and workers of one host, kept alive
TF_SERVICE.rank_side().reader(pipeline, job)         # one rank's batches
"""

from tfhet import extras

__getattr__, __dir__, __all__ = extras.attach(__name__, __file__)
