from .bridge import SUBNET as SUBNET, Bridge as Bridge, Partitions as Partitions
from .cgroup import LEAST_CPUS as LEAST_CPUS, Cgroup as Cgroup, Limits as Limits
from .container import (
    OVERLAY as OVERLAY,
    READ_ONLY as READ_ONLY,
    SHARED as SHARED,
    Container as Container,
    Mount as Mount,
)
from .kernel import (
    PURPOSES as PURPOSES,
    KernelFeature as KernelFeature,
    missing as missing,
    probe as probe,
    require as require,
)
from .sweeper import Owner as Owner, claim as claim, sweep as sweep
