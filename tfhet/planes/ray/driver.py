"""A Ray of one CPU on this host alone, of which this process is the driver: for what is measured without a job.

    environment = {**environment(), **alone_variables(folder)}    # of the process that is to be the driver
    with alone():                                                 # in that process
        ...
    end_marked(folder)                                            # in the one that started it, whatever became of it

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
from collections.abc import Iterator, Mapping
from pathlib import Path

from tfhet.clock import SYSTEM
from tfhet.cluster import DATA, environment, without_secrets
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

READY_S = 120.0
"""Seconds within which the node has to be ready, on a machine that does other things."""
GRACE_S = 5.0
SETTINGS = RaySettings(data_host_cpus=1)
LABELS = {"tfhet-group": "data_group", "tfhet-role": DATA.name}
"""Labels of the node, so that tasks which ask for a data host run there."""


def alone_variables(folder: Path) -> Mapping[str, str]:
    """The variables with which a process has to be started that calls `alone`. folder: of the node, which that makes;
    all that is started with these variables has its mark."""
    return {**token_variables(secrets.token_bytes(32)), **mark(folder), **SCRIPT}


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """A block in which this process has a Ray: that which it has already, or one of its own, ended afterwards with all
    its processes. Raises UsageError in a process that was not started for it, and NotReady."""
    import ray

    if ray.is_initialized():
        yield
        return
    env = environment()
    if not env.get(MARK) or not env.get(AUTH_TOKEN):
        raise UsageError("a Ray data set is profiled in a process of its own: by the command tfhet profile")
    folder = Path(env[MARK])
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    head, *ports = _free_ports(1 + WORKERS + WORKER_PORTS)
    capacity = Capacity.of(SETTINGS, DATA, has_data_hosts=True, gpus=0)
    start = NodeStart(LOOPBACK, f"{LOOPBACK}:{head}", ports, capacity, LABELS, is_head=True)
    with _node(start, folder, env):
        logging.getLogger("ray.data").setLevel(logging.CRITICAL)  # what a task raises is raised here, too
        ray.init(start.head_at, _node_ip_address=LOOPBACK, log_to_driver=False, logging_level="ERROR")
        try:
            yield
        finally:
            ray.shutdown()


def _free_ports(count: int) -> list[int]:
    """Ports at which nothing listens now."""
    with contextlib.ExitStack() as stack:
        found = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in found:
            one.bind((LOOPBACK, 0))
        return [int(one.getsockname()[1]) for one in found]


@contextlib.contextmanager
def _node(start: NodeStart, folder: Path, env: Mapping[str, str]) -> Iterator[None]:
    """A block in which the node runs, ready. A thread of its own hears it."""
    loop, last = asyncio.new_event_loop(), collections.deque[str](maxlen=1)
    thread = threading.Thread(target=loop.run_forever, name="ray-node", daemon=True)
    thread.start()
    command = [sys.executable, "-m", NODE, "--head_at", start.head_at, "--ip", start.ip, "--port", str(start.ports[0])]
    command += ["--wait_s", str(READY_S), "--folder", str(folder), "--", *start.words()]
    token = {name: value for name, value in env.items() if name in token_variables(b"")}
    own = {**variables(without_secrets(env), token), **_listening(start, env)}
    given = Child.start("ray", command, env=own, on_line=last.append, before_exec=give_up_capabilities)
    try:
        child = asyncio.run_coroutine_threadsafe(given, loop).result()
        try:
            end_s = SYSTEM.monotonic() + READY_S
            while not _answers(start):
                if child.code is not None or SYSTEM.monotonic() > end_s:
                    why = "ended" if child.code is not None else f"is not ready after {READY_S:g} s"
                    raise NotReady(f"the node of Ray {why}: {''.join(last) or 'it said nothing'}")
                SYSTEM.sleep(0.2)
            yield
        finally:
            asyncio.run_coroutine_threadsafe(child.stop(GRACE_S), loop).result()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def _listening(start: NodeStart, env: Mapping[str, str]) -> Mapping[str, str]:
    """Variables by which its processes listen at the loopback only; none where that cannot be had: they still ask for
    the token."""
    head = int(start.head_at.rpartition(":")[2])
    local = (start.ports[AGENT],)
    with contextlib.suppress(UsageError):
        return listening_at(start.ip, (head, *(port for port in start.ports if port not in local)), local, env)
    return {}


def _answers(start: NodeStart) -> bool:
    """Whether the node has joined. Its port is tried first, since Ray complains of one that is not open yet."""
    host, _, port = start.head_at.rpartition(":")
    with contextlib.suppress(OSError), socket.create_connection((host, int(port)), timeout=2.0):
        return private.is_alive(start.head_at, start.ip, start.ports[0])
    return False
