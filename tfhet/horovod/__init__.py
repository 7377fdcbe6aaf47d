"""Horovod under Keras 3 and Keras 2, in place of `horovod.tensorflow` and `horovod.tensorflow.keras`.

import tfhet.horovod as hvd

hvd.init()
model.compile(hvd.DistributedOptimizer(optimizer), loss)
model.fit(dataset, callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)])

Horovod's own `DistributedOptimizer` reduces nothing under Keras 3, without an error. Under Keras 2, the names of this
package are Horovod's own.
"""

from tfhet import extras

__getattr__, __dir__, __all__ = extras.attach(__name__, __file__)
