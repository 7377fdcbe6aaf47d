"""The hosts of a job: groups, roles, ranks, addresses. The only subpackage that reads the environment."""

from tfhet.cluster.address import (
    LISTEN_VARIABLE,
    busy,
    check_free,
    claim,
    free_ports,
    is_loopback,
    keep_free,
    listening,
    resolve,
)
from tfhet.cluster.environment import environment, job_name, json_variable, without_secrets
from tfhet.cluster.identity import HOMOGENEOUS_GROUP, Cluster, Group, Identity, identify
from tfhet.cluster.paths import HostPaths, cache_dir, code_dir, config_dir, host_paths, own_folder
from tfhet.cluster.place import RANK_VARIABLES, Place, Rank
from tfhet.cluster.ports import CONTROL_PORT, PortRange, Ports
from tfhet.cluster.role import DATA, DATA_GROUP, DNN, DNN_GROUP, ROLES, Role, Roles, roles
