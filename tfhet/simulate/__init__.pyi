from .cluster_file import (
    DIGITS as DIGITS,
    ClusterFile as ClusterFile,
    GroupFile as GroupFile,
    load as load,
    presets as presets,
)
from .fault import Fault as Fault
from .scale import BASE_BYTES as BASE_BYTES, PROCESS_BYTES as PROCESS_BYTES
from .simulation import Simulation as Simulation, run_dir as run_dir, simulate as simulate
from .submission import hyperparameters as hyperparameters, of_job as of_job
from .training_job import STOPPED_ON_REQUEST as STOPPED_ON_REQUEST
