"""A Ray cluster of one CPU on this host, to measure a data set without a job.

    env = alone_variables(environment(), folder)    # for the process that becomes the driver
    with alone():                                   # in that process
        executed(dataset, inputs=8).tasks_cpu_s
    end_marked(folder)                              # in its parent, in any case

Its processes require a token, as in a job.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import functools
import logging
import secrets
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import psutil

from tfhet.clock import SYSTEM
from tfhet.cluster import DATA, environment, free_ports, without_secrets
from tfhet.errors import NotReady, UsageError
from tfhet.planes.feed import SourceError
from tfhet.planes.process import give_up_capabilities
from tfhet.planes.ray import private
from tfhet.planes.ray.settings import WORKER_PORTS, WORKERS, Capacity, RaySettings
from tfhet.planes.ray.start import (
    AUTH_TOKEN,
    LOOPBACK,
    MARK,
    SCRIPT,
    NodeStart,
    listening_at,
    mark,
    token_variables,
    variables,
)
from tfhet.process import Child

T = TypeVar("T")

READY_S, ATTEMPTS = 60.0, 3
"""Limit in seconds for the start of the node, and number of attempts: its processes may end early on a busy machine."""
GRACE_S = 5.0
SETTINGS = RaySettings(data_host_cpus=1)
LABELS = {"tfhet-group": "data_group", "tfhet-role": DATA.name}
"""Labels of the node, for tasks that require a data host."""


def alone_variables(env: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Returns `env` for a process that calls `alone`, without the address of another Ray. folder: of the node; the
    variables mark all processes that are started with them."""
    others = {name: value for name, value in env.items() if name != "RAY_ADDRESS"}
    return {**others, **token_variables(secrets.token_bytes(32)), **mark(folder), **SCRIPT}


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """A block with a Ray cluster: the one of this process if it has any, or a new one, which ends with the block.
    Raises NotReady, and UsageError in a process without `alone_variables`."""
    import ray
    import ray.data  # sets the level of its log

    logging.getLogger("ray.data").setLevel(logging.CRITICAL)  # errors of tasks are raised here too
    if ray.is_initialized():
        yield
        return
    env = environment()
    if not env.get(MARK) or not env.get(AUTH_TOKEN):
        raise UsageError("only the command tfhet profile can profile a Ray data set, in a process of its own")
    folder = Path(env[MARK])
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _node(folder, env) as start:
        ray.init(start.head_at, _node_ip_address=LOOPBACK, log_to_driver=False, logging_level="ERROR")
        try:
            yield
        finally:
            ray.shutdown()


@contextlib.contextmanager
def _node(folder: Path, env: Mapping[str, str]) -> Iterator[NodeStart]:
    """A block in which the node runs. A thread reads its output."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="ray-node", daemon=True)
    thread.start()

    def result_of(what: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(what, loop).result()

    last_line = collections.deque[str](maxlen=1)
    try:
        for _ in range(ATTEMPTS):
            head, *ports = free_ports(1 + WORKERS + WORKER_PORTS)
            capacity = Capacity.of(SETTINGS, DATA, has_data_hosts=True, gpus=0)
            start = NodeStart(LOOPBACK, f"{LOOPBACK}:{head}", ports, capacity, LABELS, is_head=True)
            child = result_of(_child(start, folder, env, last_line.append))
            try:
                if _is_ready(start, child):
                    yield start
                    return
            finally:
                result_of(child.stop(GRACE_S))
        raise NotReady(f"no node of Ray came up in {ATTEMPTS} attempts of {READY_S:g} s: {' '.join(last_line)}")
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _child(start: NodeStart, folder: Path, env: Mapping[str, str], on_line: Callable[[str], None]) -> Child:
    head = int(start.head_at.rpartition(":")[2])
    token = {name: env[name] for name in token_variables(b"")}
    warn = functools.partial(print, "[tfhet]", file=sys.stderr, flush=True)
    listening = listening_at(start.ip, (head,), start.ports, env, warn)
    own = {**variables(without_secrets(env), token), **listening}
    command = start.command(folder, READY_S)
    return await Child.start("ray", command, env=own, on_line=on_line, before_exec=give_up_capabilities)


def _is_ready(start: NodeStart, child: Child) -> bool:
    end_s = SYSTEM.monotonic() + READY_S
    while child.code is None and SYSTEM.monotonic() < end_s:
        if _answers(start):
            return True
        SYSTEM.sleep(0.2)
    return False


def _answers(start: NodeStart) -> bool:
    """Whether the node has joined. Ray logs an error for a closed port, so the port is tried first."""
    host, _, port = start.head_at.rpartition(":")
    with contextlib.suppress(OSError), socket.create_connection((host, int(port)), timeout=2.0):
        return private.is_alive(start.head_at, start.ip, start.ports[0])
    return False


@dataclass(frozen=True)
class Execution:
    inputs: int
    """Number of inputs of the data set; a run may use fewer."""
    rows: int
    blocks: int
    bytes: int
    """Bytes of the arrays of all rows."""
    dtype: str
    """Dtype of most of these bytes."""
    tasks_cpu_s: float
    """CPU seconds of the tasks, as Ray counts them."""
    driver_cpu_s: float
    """CPU seconds of this process, which schedules the tasks and reads the results."""
    node_cpu_s: float
    """CPU seconds of all processes that this one has started, including the tasks."""


def executed(dataset: Any, inputs: int) -> Execution:
    """Runs a data set on at most `inputs` of its inputs, by blocks. Raises SourceError with the user's error."""
    try:
        return _executed(dataset, inputs)
    except Exception as error:
        text = private.of_the_user("".join(traceback.format_exception_only(type(error), error)))
        raise SourceError(f"a task failed: {text}") from error


def _executed(dataset: Any, inputs: int) -> Execution:
    import ray

    dataset.context.enable_progress_bars = False
    rows, blocks, sizes = 0, 0, dict[str, int]()
    driver_s, node_s = SYSTEM.cpu(), _node_s()
    with private.first_inputs(inputs) as counts:
        for block, first, count in private.blocks(dataset):
            columns = private.columns(ray.get(block), first, first + count)
            rows, blocks = rows + count, blocks + 1
            for array in columns.values():
                dtype, size = _size(array)
                sizes[dtype] = sizes.get(dtype, 0) + size
            del block, columns
    used = SYSTEM.cpu() - driver_s, _node_s() - node_s
    most = max(sizes, key=lambda name: sizes[name], default="")
    return Execution(max(counts), rows, blocks, sum(sizes.values()), most, private.tasks_cpu_s(dataset), *used)


def _size(array: Any) -> tuple[str, int]:
    """Returns the dtype and bytes of a column; texts and encoded images count as strings."""
    if not array.dtype.hasobject:
        return str(array.dtype.name), int(array.nbytes)
    texts = [each for each in array if isinstance(each, (str, bytes))]
    if texts:
        return "string", sum(map(len, texts))
    return str(getattr(array[0], "dtype", "")), sum(int(getattr(each, "nbytes", 0)) for each in array)


def _node_s() -> float:
    found = 0.0
    for child in psutil.Process().children(recursive=True):
        try:
            used = child.cpu_times()
        except psutil.Error:  # it has just ended
            continue
        found += used.user + used.system + getattr(used, "children_user", 0.0) + getattr(used, "children_system", 0.0)
    return found
