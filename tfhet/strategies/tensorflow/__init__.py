"""The strategies of tf.distribute, for scripts that train by it: TensorFlow's own servers, found by TF_CONFIG."""

from tfhet.strategies.tensorflow.multi_worker import MULTI_WORKER
from tfhet.strategies.tensorflow.parameter_server import PARAMETER_SERVER
from tfhet.strategies.tensorflow.tf_config import VARIABLE, WORKER, Tasks
