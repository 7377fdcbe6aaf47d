"""Who is there: groups, hosts, roles, ranks, addresses. The only room that reads the environment."""

from __future__ import annotations

from tfhet.cluster.address import CONTROL_PORT, PortRange, Ports, check_free, free_ports, resolve
from tfhet.cluster.environment import base_dir, cache_dir, config_dir, environment, host_paths, job_name
from tfhet.cluster.group import Cluster, Group
from tfhet.cluster.host import Host
from tfhet.cluster.identity import Identity, identify
from tfhet.cluster.paths import HostPaths
from tfhet.cluster.place import Place
from tfhet.cluster.rank import Rank
from tfhet.cluster.role import DATA, DNN, ROLES, Role, Roles, roles

__all__ = [
    "CONTROL_PORT",
    "DATA",
    "DNN",
    "ROLES",
    "Cluster",
    "Group",
    "Host",
    "HostPaths",
    "Identity",
    "Place",
    "PortRange",
    "Ports",
    "Rank",
    "Role",
    "Roles",
    "base_dir",
    "cache_dir",
    "check_free",
    "config_dir",
    "environment",
    "free_ports",
    "host_paths",
    "identify",
    "job_name",
    "resolve",
    "roles",
]
