"""A Ray of one CPU on this host alone, of which this process is the driver: for what is measured without a job.

    env = alone_variables(environment(), folder)    # of the process that is to be the driver
    with alone():                                   # in that process
        ...
    end_marked(folder)                              # in the one that started it, whatever became of it

It is closed as that of a job: nothing answers without the token.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import logging
import secrets
import socket
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from tfhet.clock import SYSTEM
from tfhet.cluster import DATA, environment, free_ports, without_secrets
from tfhet.errors import NotReady, UsageError
from tfhet.planes.privileges import give_up_capabilities
from tfhet.planes.ray import private
from tfhet.planes.ray.capacity import Capacity
from tfhet.planes.ray.leftovers import MARK, mark
from tfhet.planes.ray.listen import listening_at
from tfhet.planes.ray.settings import RaySettings
from tfhet.planes.ray.start import AGENT, LOOPBACK, NODE, SCRIPT, WORKER_PORTS, WORKERS, NodeStart, variables
from tfhet.planes.ray.token import AUTH_TOKEN, token_variables
from tfhet.process import Child

T = TypeVar("T")

READY_S, ATTEMPTS = 60.0, 3
"""Seconds within which the node has to be ready, and how often that is tried: on a busy machine its processes may end
before all of them are up."""
GRACE_S = 5.0
SETTINGS = RaySettings(data_host_cpus=1)
LABELS = {"tfhet-group": "data_group", "tfhet-role": DATA.name}
"""Labels of the node, so that tasks which ask for a data host run there."""


def alone_variables(env: Mapping[str, str], folder: Path) -> dict[str, str]:
    """`env` for a process that calls `alone`, without the address of another Ray. folder: of the node, which that
    makes; all that is started with these variables has its mark."""
    others = {name: value for name, value in env.items() if name != "RAY_ADDRESS"}
    return {**others, **token_variables(secrets.token_bytes(32)), **mark(folder), **SCRIPT}


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """A block in which this process has a Ray: that which it has already, or one of its own, ended afterwards with all
    its processes. Raises UsageError in a process that was not started for it, and NotReady."""
    import ray
    import ray.data  # which sets the level of its log

    logging.getLogger("ray.data").setLevel(logging.CRITICAL)  # what a task raises is raised here, too
    if ray.is_initialized():
        yield
        return
    env = environment()
    if not env.get(MARK) or not env.get(AUTH_TOKEN):
        raise UsageError("a Ray data set is profiled in a process of its own: by the command tfhet profile")
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
    """A block in which the node runs, ready. A thread of its own hears it."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="ray-node", daemon=True)
    thread.start()

    def done(what: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(what, loop).result()

    said = collections.deque[str](maxlen=1)
    try:
        for _ in range(ATTEMPTS):
            start = _new_start()
            child = done(_child(start, folder, env, said.append))
            try:
                if _is_ready(start, child):
                    yield start
                    return
            finally:
                done(child.stop(GRACE_S))
        raise NotReady(f"no node of Ray came up in {ATTEMPTS} attempts of {READY_S:g} s: {' '.join(said)}")
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def _new_start() -> NodeStart:
    head, *ports = free_ports(1 + WORKERS + WORKER_PORTS)
    capacity = Capacity.of(SETTINGS, DATA, has_data_hosts=True, gpus=0)
    return NodeStart(LOOPBACK, f"{LOOPBACK}:{head}", ports, capacity, LABELS, is_head=True)


async def _child(start: NodeStart, folder: Path, env: Mapping[str, str], on_line: Callable[[str], None]) -> Child:
    command = [sys.executable, "-m", NODE, "--head_at", start.head_at, "--ip", start.ip, "--port", str(start.ports[0])]
    command += ["--wait_s", str(READY_S), "--folder", str(folder), "--", *start.words()]
    token = {name: env[name] for name in token_variables(b"")}
    own = {**variables(without_secrets(env), token), **_listening(start, env)}
    return await Child.start("ray", command, env=own, on_line=on_line, before_exec=give_up_capabilities)


def _is_ready(start: NodeStart, child: Child) -> bool:
    end_s = SYSTEM.monotonic() + READY_S
    while child.code is None and SYSTEM.monotonic() < end_s:
        if _answers(start):
            return True
        SYSTEM.sleep(0.2)
    return False


def _listening(start: NodeStart, env: Mapping[str, str]) -> Mapping[str, str]:
    """Variables by which its processes listen at the loopback only; none, and a word, where that cannot be had."""
    head = int(start.head_at.rpartition(":")[2])
    local = (start.ports[AGENT],)
    try:
        return listening_at(start.ip, (head, *(port for port in start.ports if port not in local)), local, env)
    except UsageError as error:
        print(f"[tfhet] {error}; each still asks for a token that this run alone has", file=sys.stderr, flush=True)
        return {}


def _answers(start: NodeStart) -> bool:
    """Whether the node has joined. Its port is tried first, since Ray complains of one that is not open yet."""
    host, _, port = start.head_at.rpartition(":")
    with contextlib.suppress(OSError), socket.create_connection((host, int(port)), timeout=2.0):
        return private.is_alive(start.head_at, start.ip, start.ports[0])
    return False
