"""Private API of Ray that the plane uses, all of it, as seen in Ray 2.60.

The public way to ask a cluster, `ray.init`, makes the process a driver, with a job of its own in the cluster.
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
"""Names of what the object store of a node uses."""
_LASTING = ("gcs_server", "raylet")
"""Processes without which a node does not come up."""


def load() -> None:
    """Imports what a node's threads need, before there are several: two that import Ray at once, each a part of it,
    wait for each other, which Python ends by an error in one of them."""
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
    """Whether the cluster at `head` counts the node of the raylet at `ip`:`port` among the living."""
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
    """Bytes in the object store of the node whose raylet listens there, and bytes that it has spilled to disk so far;
    None where it does not answer. The public way (`ray memory`) asks all nodes, and needs a driver."""
    from ray.core.generated import node_manager_pb2

    asked = node_manager_pb2.GetNodeStatsRequest(include_memory_info=False)
    try:
        found = _raylet(f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}").GetNodeStats(asked, timeout=5.0).store_stats
    except Exception:  # noqa: BLE001  it may be busy, or about to end
        return None
    return {STORED: float(found.object_store_bytes_used), SPILLED: float(found.spilled_bytes_total)}


def _ended() -> str | None:
    """Name of a process of Ray's that this one started, and that has ended."""
    for child in psutil.Process().children():
        with contextlib.suppress(psutil.Error):
            if child.status() == psutil.STATUS_ZOMBIE and (name := child.name()) in _LASTING:
                return name
    return None


def _patient(get_node: Callable[..., Any], limit_s: float) -> Callable[..., Any]:
    """`services.get_node`, which waits until the node is known. Raises RuntimeError after `limit_s` seconds, and ends
    the process when one has ended without which the node never will be."""

    def waiting(*given: Any) -> Any:
        end_s = SYSTEM.monotonic() + limit_s
        while True:
            try:
                return get_node(*given)
            except RuntimeError:
                if (name := _ended()) is not None:
                    sys.exit(f"Ray's {name} ended before the node had joined")
                if SYSTEM.monotonic() > end_s:
                    raise
            SYSTEM.sleep(0.2)

    return waiting


def _informed(start_raylet: Callable[..., Any]) -> Callable[..., Any]:
    """`services.start_raylet`, for a raylet that finds the ports of its agents written down. It would abort where these
    take more than 15 s to write them, as on a host of one busy CPU (ray-project/ray#65983). The agents write them
    again: the fixed ones, or -1 for what does not run."""

    def starting(*given: Any, **named: Any) -> Any:
        from ray import _raylet
        from ray._private.utils import get_dashboard_dependency_error

        values = inspect.signature(start_raylet).bind(*given, **named).arguments
        is_minimal = get_dashboard_dependency_error() is not None
        ports = {
            _raylet.METRICS_AGENT_PORT_NAME: -1 if is_minimal else values["metrics_agent_port"],
            _raylet.METRICS_EXPORT_PORT_NAME: -1,  # start.variables: no metrics
            _raylet.DASHBOARD_AGENT_LISTEN_PORT_NAME: -1 if is_minimal else values["dashboard_agent_listen_port"],
            _raylet.RUNTIME_ENV_AGENT_PORT_NAME: values["runtime_env_agent_port"],
        }
        for name, port in ports.items():
            _raylet.persist_port(values["session_dir"], values["node_id"], name, port)
        return start_raylet(*given, **named)

    return starting


def run(words: Sequence[str], limit_s: float) -> None:
    """Runs Ray's own command, `ray WORDS`, without the server for drivers on other machines (Ray Client), which it has
    no option to omit. A node may take `limit_s` seconds to come up, rather than 30, and its agents more than 15."""
    from ray._private import services
    from ray.scripts import scripts

    services.get_node = _patient(services.get_node, limit_s)
    services.start_raylet = _informed(services.start_raylet)
    scripts.get_ray_client_dependency_error = lambda: "not wanted"
    scripts.cli.main(args=list(words), prog_name="ray")


def blocks(dataset: Any) -> Iterator[tuple[Any, int, int]]:
    """References to the blocks of a data set as they become ready, each with its first row and number of rows. What is
    public gives all of them at the end (`to_arrow_refs`), or their content to this process (`iter_batches`)."""
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
    """The text of an error that a task raised, as far as it is of the user's code; what Ray made of it comes after."""
    return re.sub(r"\x1b\[\d+m", "", text.partition("The above exception was the direct cause")[0]).strip()


def is_dataset(value: Any) -> bool:
    return hasattr(value, "iter_internal_ref_bundles")


def columns(block: Any, first: int, end: int) -> dict[str, np.ndarray]:
    """Rows of a block that was fetched, as arrays by the names of columns: views of its memory where they can be."""
    from ray.data.block import BlockAccessor

    accessor = BlockAccessor.for_block(block)
    if (first, end) != (0, accessor.num_rows()):
        accessor = BlockAccessor.for_block(accessor.slice(first, end))
    return dict(accessor.to_numpy())


def prefixes(dataset: Any) -> list[tuple[str, Any]]:
    """The operators of a data set in order, each by its name and as the data set that ends with it. What several data
    sets were joined of counts as one. A task takes one CPU at most. Raises UsageError for operators that ask for
    anything else. What is public names operators only after they ran, and several by one name where they run in one
    task."""
    from ray.data._internal.compute import ActorPoolStrategy
    from ray.data._internal.logical.interfaces import LogicalPlan
    from ray.data.dataset import MaterializedDataset

    if isinstance(dataset, MaterializedDataset):
        raise UsageError("a data set whose operators have run: hand it over without its materialize()")
    found: list[tuple[str, Any]] = []
    at = dataset._logical_plan.dag._apply_transform(_on_one_cpu)
    while True:
        if found and isinstance(getattr(at, "compute", None), ActorPoolStrategy):
            raise UsageError(f"{at.name} runs in actors, and {found[-1][0]} after it: a profile has one CPU for both")
        found.append((at.name, type(dataset)._from_parent(dataset, LogicalPlan(at, dataset.context))))
        if len(at.input_dependencies) != 1:
            return found[::-1]
        at = at.input_dependencies[0]


def _on_one_cpu(operator: Any) -> Any:
    asked = getattr(operator, "ray_remote_args", None) or {}
    for name in ("num_gpus", "resources", "accelerator_type"):
        if asked.get(name):
            raise UsageError(f"{operator.name} asks for {name}={asked[name]!r}; a profile has one CPU and no GPU")
    if asked.get("num_cpus", 1) <= 1:
        return operator
    return replace(operator, ray_remote_args={**asked, "num_cpus": 1})


@contextlib.contextmanager
def first_inputs(most: int) -> Iterator[list[int]]:
    """A block in which data sets run on their first `most` inputs only: files or ranges to read, or blocks. Its value
    gets the number of inputs that there were. What is public cuts rows off (`limit`), after they were read."""
    from ray.data._internal.execution.operators.input_data_buffer import InputDataBuffer

    start, counts = InputDataBuffer.start, list[int]()

    def started(self: Any, *given: Any, **options: Any) -> None:
        if not self._is_input_initialized:  # as `start` does
            size = self.target_max_block_size_override or self.data_context.target_max_block_size
            self._input_data, self._is_input_initialized = self._input_data_factory(size), True
        counts.append(len(self._input_data))
        self._input_data = self._input_data[:most]
        self._initialize_metadata()
        start(self, *given, **options)

    InputDataBuffer.start = started
    try:
        yield counts
    finally:
        InputDataBuffer.start = start


def tasks_cpu_s(dataset: Any) -> float:
    """CPU seconds of the tasks of a data set that has run, of all operators."""
    summaries, found = [dataset.get_stats_summary()], 0.0
    while summaries:
        one = summaries.pop()
        summaries += one.parents
        found += sum(each.cpu_time.sum for each in one.operators_stats if each.cpu_time is not None)
    return found
