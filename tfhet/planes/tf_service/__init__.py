"""The data plane `tf_service`: tf.data service workers on data hosts, and on dnn hosts where that is asked for.

TF_SERVICE.launcher_side(settings, place, outlets)   # dispatcher and workers of one host, kept alive
TF_SERVICE.rank_side().reader(pipeline, job)         # one rank's batches
"""

from typing import TYPE_CHECKING

from tfhet import lazy
from tfhet.planes.tf_service.costs import CLIENT, DEFAULT, DTYPES, PLAIN, PREFIX, RATE, RATIO, WORKER, Moved
from tfhet.planes.tf_service.fleet import Fleet
from tfhet.planes.tf_service.order import Order
from tfhet.planes.tf_service.plane import TF_SERVICE
from tfhet.planes.tf_service.settings import ServiceSettings
from tfhet.planes.tf_service.wire import Wire

if TYPE_CHECKING:
    from tfhet.planes.tf_service.transport import Transport

lazy.names_on_demand(__name__)  # Transport needs TensorFlow
