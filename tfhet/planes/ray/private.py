"""All private API of Ray that the plane uses (Ray 2.60).

The public way to query a cluster, `ray.init`, makes the process a driver with its own job in the cluster.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import psutil

from tfhet.clock import SYSTEM
from tfhet.errors import UsageError

if TYPE_CHECKING:
    import numpy as np

STORED, SPILLED = "object_store_bytes", "spilled_bytes"
"""Names of the uses of a node's object store."""
_LASTING = ("gcs_server", "raylet")
"""Processes that a node needs to start."""


def load() -> None:
    """Imports Ray's modules for a node before it has several threads: Python raises an error if two threads import
    parts of Ray at the same time and wait for each other."""
    import ray._private.grpc_utils
    import ray._private.services
    import ray.core.generated.gcs_pb2
    import ray.core.generated.node_manager_pb2_grpc
    import ray.scripts.scripts  # noqa: F401


@functools.cache
def _client(head: str) -> Any:
    from ray._raylet import GcsClient

    return GcsClient(address=head)


def is_alive(head: str, ip: str, port: int) -> bool:
    """Whether the cluster at `head` lists the node of the raylet at `ip`:`port` as alive."""
    from ray.core.generated.gcs_pb2 import GcsNodeInfo

    try:
        found = _client(head).get_all_node_info(timeout=5.0).values()
    except Exception:  # noqa: BLE001  the head may not answer yet, in whichever way
        return False
    return any(
        (node.node_manager_address, node.node_manager_port) == (ip, port) and node.state == GcsNodeInfo.ALIVE
        for node in found
    )


@functools.cache
def _raylet(address: str) -> Any:
    from ray._private.grpc_utils import init_grpc_channel
    from ray.core.generated import node_manager_pb2_grpc

    return node_manager_pb2_grpc.NodeManagerServiceStub(init_grpc_channel(address))


def store_use(ip: str, port: int) -> dict[str, float] | None:
    """Returns the bytes in the object store of a raylet's node and the bytes spilled to disk; None without an answer.
    The public way (`ray memory`) queries all nodes and needs a driver."""
    from ray.core.generated import node_manager_pb2

    asked = node_manager_pb2.GetNodeStatsRequest(include_memory_info=False)
    try:
        found = _raylet(f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}").GetNodeStats(asked, timeout=5.0).store_stats
    except Exception:  # noqa: BLE001  it may be busy, or about to end
        return None
    return {STORED: float(found.object_store_bytes_used), SPILLED: float(found.spilled_bytes_total)}


def _ended() -> str | None:
    """Returns the name of a Ray process that this process started and that has ended."""
    for child in psutil.Process().children():
        with contextlib.suppress(psutil.Error):
            if child.status() == psutil.STATUS_ZOMBIE and (name := child.name()) in _LASTING:
                return name
    return None


def _patient(get_node: Callable[..., Any], limit_s: float) -> Callable[..., Any]:
    """Returns a `services.get_node` that waits for the node. It raises RuntimeError after `limit_s` seconds, and ends
    this process if a process of the node has ended."""

    def waiting(*arguments: Any) -> Any:
        end_s = SYSTEM.monotonic() + limit_s
        while True:
            try:
                return get_node(*arguments)
            except RuntimeError:
                if (name := _ended()) is not None:
                    sys.exit(f"Ray's {name} ended before the node had joined")
                if SYSTEM.monotonic() > end_s:
                    raise
            SYSTEM.sleep(0.2)

    return waiting


def _informed(start_raylet: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a `services.start_raylet` that writes the ports of the raylet's agents first, -1 for those that do not
    run. A raylet aborts if the agents take more than 15 s to write them (ray-project/ray#65983)."""

    def starting(*arguments: Any, **named: Any) -> Any:
        from ray import _raylet
        from ray._private.utils import get_dashboard_dependency_error

        values = inspect.signature(start_raylet).bind(*arguments, **named).arguments
        is_minimal = get_dashboard_dependency_error() is not None
        ports = {
            _raylet.METRICS_AGENT_PORT_NAME: -1 if is_minimal else values["metrics_agent_port"],
            _raylet.METRICS_EXPORT_PORT_NAME: -1,  # start.variables: no metrics
            _raylet.DASHBOARD_AGENT_LISTEN_PORT_NAME: -1 if is_minimal else values["dashboard_agent_listen_port"],
            _raylet.RUNTIME_ENV_AGENT_PORT_NAME: values["runtime_env_agent_port"],
        }
        for name, port in ports.items():
            _raylet.persist_port(values["session_dir"], values["node_id"], name, port)
        return start_raylet(*arguments, **named)

    return starting


def run(words: Sequence[str], limit_s: float) -> None:
    """Runs Ray's command, `ray WORDS`, without Ray Client's server, which no option can disable. A node may take
    `limit_s` seconds to start instead of 30, and its agents more than 15."""
    from ray._private import services
    from ray.scripts import scripts

    services.get_node = _patient(services.get_node, limit_s)
    services.start_raylet = _informed(services.start_raylet)
    scripts.get_ray_client_dependency_error = lambda: "not wanted"
    scripts.cli.main(args=list(words), prog_name="ray")


def blocks(dataset: Any) -> Iterator[tuple[Any, int, int]]:
    """Yields references to the blocks of a data set as they become ready, each with its first row and number of rows.
    The public API returns all of them at the end (`to_arrow_refs`), or copies them to this process (`iter_batches`)."""
    iterator = dataset.iter_internal_ref_bundles()
    try:
        for bundle in iterator:
            for entry, part in zip(bundle.blocks, bundle.slices, strict=True):
                rows = entry.metadata.num_rows
                first, end = (0, rows) if part is None else (part.start_offset, part.end_offset)
                if end > first:
                    yield entry.ref, first, end - first
    finally:
        close = getattr(iterator, "close", None)
        if close is not None:
            close()


def of_the_user(text: str) -> str:
    """Returns the part of a task's error text that is of the user's code; Ray's own part follows it."""
    return re.sub(r"\x1b\[\d+m", "", text.partition("The above exception was the direct cause")[0]).strip()


def is_dataset(value: Any) -> bool:
    return hasattr(value, "iter_internal_ref_bundles")


def columns(block: Any, first: int, end: int) -> dict[str, np.ndarray]:
    """Returns rows of a fetched block as arrays by the names of columns, views of its memory if possible."""
    from ray.data.block import BlockAccessor

    accessor = BlockAccessor.for_block(block)
    if (first, end) != (0, accessor.num_rows()):
        accessor = BlockAccessor.for_block(accessor.slice(first, end))
    return dict(accessor.to_numpy())


def prefixes(dataset: Any) -> list[tuple[str, Any]]:
    """Returns the operators of a data set in order, each with its name and the data set that ends with it. Raises
    UsageError for operators that need more than one CPU. The public API names operators only after they ran."""
    from ray.data._internal.compute import ActorPoolStrategy
    from ray.data._internal.logical.interfaces import LogicalPlan
    from ray.data.dataset import MaterializedDataset

    if isinstance(dataset, MaterializedDataset):
        raise UsageError("the operators of this data set have run: return it without materialize()")
    found: list[tuple[str, Any]] = []
    at = dataset._logical_plan.dag._apply_transform(_on_one_cpu)
    while True:
        if found and isinstance(getattr(at, "compute", None), ActorPoolStrategy):
            raise UsageError(f"{at.name} runs in actors, before {found[-1][0]}: a profile has one CPU for both")
        found.append((at.name, type(dataset)._from_parent(dataset, LogicalPlan(at, dataset.context))))
        if len(at.input_dependencies) != 1:
            return found[::-1]
        at = at.input_dependencies[0]


def _on_one_cpu(operator: Any) -> Any:
    asked = getattr(operator, "ray_remote_args", None) or {}
    for name in ("num_gpus", "resources", "accelerator_type"):
        if asked.get(name):
            raise UsageError(f"{operator.name} requires {name}={asked[name]!r}; a profile has one CPU and no GPU")
    if asked.get("num_cpus", 1) <= 1:
        return operator
    return replace(operator, ray_remote_args={**asked, "num_cpus": 1})


@contextlib.contextmanager
def first_inputs(most: int) -> Iterator[list[int]]:
    """A block in which data sets run on their first `most` inputs. Its value is a list that gets their numbers of
    inputs. The public `limit` drops rows after they were read."""
    from ray.data._internal.execution.operators.input_data_buffer import InputDataBuffer

    start, counts = InputDataBuffer.start, list[int]()

    def started(self: Any, *arguments: Any, **options: Any) -> None:
        if not self._is_input_initialized:  # as `start` does
            size = self.target_max_block_size_override or self.data_context.target_max_block_size
            self._input_data, self._is_input_initialized = self._input_data_factory(size), True
        counts.append(len(self._input_data))
        self._input_data = self._input_data[:most]
        self._initialize_metadata()
        start(self, *arguments, **options)

    InputDataBuffer.start = started
    try:
        yield counts
    finally:
        InputDataBuffer.start = start


def tasks_cpu_s(dataset: Any) -> float:
    """Returns the CPU seconds of the tasks of all operators of a data set that has run."""
    summaries, found = [dataset.get_stats_summary()], 0.0
    while summaries:
        one = summaries.pop()
        summaries += one.parents
        found += sum(each.cpu_time.sum for each in one.operators_stats if each.cpu_time is not None)
    return found
