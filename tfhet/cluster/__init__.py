"""Who is there: groups, hosts, roles, ranks, addresses. The only room that reads the environment."""

from __future__ import annotations

from tfhet.cluster.address import Ports, check_free, free_ports, resolve
from tfhet.cluster.environment import NATIVE, base_dir, cache_dir, config_dir, environment, host_paths, job_name
from tfhet.cluster.group import Cluster, Group
from tfhet.cluster.host import Host
from tfhet.cluster.identity import Identity, identify
from tfhet.strategies.job import JobContext
from tfhet.cluster.paths import HostPaths
from tfhet.cluster.rank import Rank
from tfhet.cluster.role import Role, Roles, roles
from tfhet.planes.tf_service.serving import Serving

__all__ = [
    "NATIVE",
    "Cluster",
    "Group",
    "Host",
    "HostPaths",
    "Identity",
    "JobContext",
    "Ports",
    "Rank",
    "Role",
    "Roles",
    "Serving",
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
