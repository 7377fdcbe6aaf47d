"""Which host this process runs on, and who else is in the job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfhet.cluster.environment import host_paths
from tfhet.cluster.group import HOMOGENEOUS_GROUP, Cluster, Group
from tfhet.cluster.host import Host
from tfhet.cluster.resource_config import DEFAULT_INTERFACE, Description, describe, parse
from tfhet.errors import ClusterError


@dataclass(frozen=True)
class Identity:
    """This host and its cluster. Every reader returns the same value for the same job."""

    current_host: str
    """Name of the host that this process runs on."""
    current_group: str
    """Name of its group; one of the cluster's."""
    cluster: Cluster

    @property
    def host(self) -> Host:
        return self.cluster.host(self.current_host)

    @property
    def group(self) -> Group:
        """The current host's group."""
        return self.cluster.group(self.current_group)

    @property
    def is_heterogeneous(self) -> bool:
        """Whether the job has more than one group."""
        return self.cluster.is_heterogeneous

    @classmethod
    def from_resource_config(cls, path: str | Path) -> Identity:
        """Reads the file that SageMaker writes on every host. Raises ClusterError naming the file."""
        try:
            text = Path(path).read_bytes()
        except (OSError, ValueError) as error:
            raise ClusterError(f"{path}: cannot be read ({error})") from error
        return cls._of(describe(parse(text, str(path)), str(path)))

    @classmethod
    def from_sm_env(cls, env: Mapping[str, str]) -> Identity:
        """Reads the `SM_*` variables that SageMaker sets for an entry point. Raises ClusterError.

        Launchers that hand their environment on (`-x SM_CURRENT_HOST`) give every host those of the first one, so
        `identify` prefers the file.
        """
        where = "the SM_* variables"
        whole = parse(env["SM_RESOURCE_CONFIG"], "SM_RESOURCE_CONFIG") if env.get("SM_RESOURCE_CONFIG") else {}
        if not isinstance(whole, dict):
            raise ClusterError("SM_RESOURCE_CONFIG: expected a JSON object")
        if not whole and not env.get("SM_CURRENT_HOST"):
            raise ClusterError(f"{where} name no host: neither SM_CURRENT_HOST nor SM_RESOURCE_CONFIG is set")
        by_name = _json_variable(env, "SM_INSTANCE_GROUPS_DICT", dict)
        order = _json_variable(env, "SM_INSTANCE_GROUPS", list)
        groups = [by_name[n] for n in order or by_name if isinstance(n, str) and n in by_name] if by_name else None
        return cls._from_parts(
            current_host=env.get("SM_CURRENT_HOST") or whole.get("current_host"),
            current_group=env.get("SM_CURRENT_INSTANCE_GROUP")
            or whole.get("current_group_name", whole.get("current_instance_group")),
            current_type=env.get("SM_CURRENT_INSTANCE_TYPE") or whole.get("current_instance_type"),
            hosts=_json_variable(env, "SM_HOSTS", list) or whole.get("hosts"),
            groups=groups or whole.get("instance_groups"),
            interface=env.get("SM_NETWORK_INTERFACE_NAME") or whole.get("network_interface_name"),
            where=where,
        )

    @classmethod
    def from_toolkit(cls) -> Identity:
        """Asks the SageMaker training toolkit, which reads this process's base directory.

        The toolkit changes the process: it sets variables and creates the code directory. Its own
        `get_current_instance_group()` raises KeyError on the platform's files (it wants the key
        `current_instance_group`, the files say `current_group_name`), so that is never called.
        """
        try:
            from sagemaker_training.environment import Environment
        except ImportError as error:
            raise ClusterError("sagemaker_training is not installed; install tfhet[sagemaker]") from error
        try:
            toolkit = Environment()
            groups = [toolkit.instance_groups_dict[name] for name in toolkit.instance_groups]
        except (KeyError, TypeError, AttributeError, ValueError, OSError) as error:
            raise ClusterError(f"the SageMaker toolkit cannot read this job: {error!r}") from error
        return cls._from_parts(
            current_host=toolkit.current_host,
            current_group=toolkit.current_instance_group,
            current_type=toolkit.current_instance_type,
            hosts=toolkit.hosts,
            groups=groups,
            interface=toolkit.network_interface_name,
            where="the SageMaker toolkit",
        )

    @classmethod
    def local(cls, host: str = "localhost") -> Identity:
        """A job of this one machine."""
        cluster = Cluster((Group(HOMOGENEOUS_GROUP, (host,), None),), "lo")
        return cls(host, HOMOGENEOUS_GROUP, cluster)

    @classmethod
    def _from_parts(
        cls,
        *,
        current_host: object,
        current_group: object,
        current_type: object,
        hosts: object,
        groups: object,
        interface: object,
        where: str,
    ) -> Identity:
        named = {g.get("instance_group_name") for g in groups if _named(g)} if isinstance(groups, list) else set()
        if current_group == HOMOGENEOUS_GROUP and HOMOGENEOUS_GROUP not in named:
            current_group = None  # the toolkit's default where the document does not say it
        document = {
            "current_host": current_host,
            "current_group_name": current_group,
            "current_instance_type": current_type,
            "hosts": hosts,
            "instance_groups": groups,
            "network_interface_name": interface or DEFAULT_INTERFACE,
        }
        return cls._of(describe(document, where))

    @classmethod
    def _of(cls, description: Description) -> Identity:
        return cls(description.current_host, description.current_group, description.cluster)


def identify(env: Mapping[str, str]) -> Identity:
    """Who this host is, from the best source there is: resourceconfig.json, else the `SM_*` variables.

    A file that is there and wrong is an error, not a reason to look elsewhere. Raises ClusterError when there is
    neither; `Identity.local()` makes the one-host job of a plain local run.
    """
    path = host_paths(env).resource_config
    try:
        is_there = path.exists()
    except OSError as error:
        raise ClusterError(f"{path}: cannot be read ({error.strerror})") from error
    if is_there:
        return Identity.from_resource_config(path)
    if env.get("SM_CURRENT_HOST") or env.get("SM_RESOURCE_CONFIG"):
        return Identity.from_sm_env(env)
    raise ClusterError(
        f"nothing says which hosts belong to this job: {path} does not exist and SM_CURRENT_HOST is not set; "
        "set SAGEMAKER_BASE_DIR to the directory that holds input/config, or run under `tfhet simulate`"
    )


def _json_variable(env: Mapping[str, str], name: str, kind: type) -> Any:
    text = env.get(name)
    if not text:
        return None
    value = parse(text, name)
    if not isinstance(value, kind):
        raise ClusterError(f"{name}: expected a JSON {'object' if kind is dict else 'list'}")
    return value


def _named(group: object) -> bool:
    return isinstance(group, dict) and isinstance(group.get("instance_group_name"), str)
