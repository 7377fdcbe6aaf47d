"""TensorFlow's servers in this process, with all of TensorFlow or with as little of it as graphs need."""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Any

from tfhet import kernels, native
from tfhet.planes import private
from tfhet.planes.tf_service.wire import Wire

HEARTBEAT_MS = 1_000
"""Time between two reports of a worker (TensorFlow: 30 s); a new data set reaches it at the latest by then."""
WORKER_TIMEOUT_MS = 30_000
DISPATCHER_TIMEOUT_MS = 60_000
"""Time that a worker looks for its dispatcher (TensorFlow: 1 h)."""
JOB_GC_CHECK_MS = 10_000
"""Time between two searches of the dispatcher for lost clients and finished jobs (TensorFlow: 10 min)."""
BUILD_LINE_S = 20.0
"""Seconds between two lines of a process that compiles. The launcher kills a starting process that prints nothing for
`RestartPolicy.start_s`, and a build on a busy host takes longer."""


@dataclass(frozen=True)
class Engine:
    """TensorFlow's servers, and the compiled ops that graphs may hold."""

    library: Any
    """TensorFlow's extension module with the servers."""
    configs: Any
    """The messages that configure them: tensorflow/core/protobuf/service_config.proto."""
    kernels: tuple[str, ...]
    """Names of the compiled ops that are loaded."""

    def dispatcher(self, wire: Wire, port: int, work_dir: str = "") -> Any:
        """A running dispatcher on `port`, where who is of the job reaches it. work_dir: a local folder for its journal,
        with which a dispatcher at the same port continues; "": no journal."""
        config = self.configs.DispatcherConfig(
            port=port,
            protocol=wire.protocol,
            work_dir=work_dir,
            fault_tolerant_mode=bool(work_dir),
            job_gc_check_interval_ms=JOB_GC_CHECK_MS,
            worker_timeout_ms=WORKER_TIMEOUT_MS,
        )
        server = self.library.TF_DATA_NewDispatchServer(config.SerializeToString())
        server.start()
        return server

    def worker(self, wire: Wire, port: int, address: str, dispatcher: str) -> Any:
        """A running worker on `port`, which others reach at `address`:`port` (TensorFlow's default is localhost)."""
        config = self.configs.WorkerConfig(
            dispatcher_address=dispatcher,
            worker_address=f"{address}:{port}",
            data_transfer_address=f"{address}:{port}",
            data_transfer_protocol=wire.protocol,
            port=port,
            protocol=wire.protocol,
            heartbeat_interval_ms=HEARTBEAT_MS,
            dispatcher_timeout_ms=DISPATCHER_TIMEOUT_MS,
        )
        server = self.library.TF_DATA_NewWorkerServer(config.SerializeToString())
        server.start()
        return server


def whole_engine() -> Engine:
    """With all of TensorFlow, the stages' plug-ins, and ops that are built where they are missing."""
    from tfhet import stages

    stages.names()  # loads the plug-ins, and with them the ops of their own that graphs may hold
    with _announced():
        native.wire_library()
        return Engine(*private.servers(), native.load_all())


@contextlib.contextmanager
def _announced() -> Iterator[None]:
    """Prints a line every `BUILD_LINE_S` seconds, for as long as one build may take."""
    done = threading.Event()

    def announce() -> None:
        for line in range(1, int(kernels.BUILD_LIMIT_S / BUILD_LINE_S) + 1):
            if done.wait(BUILD_LINE_S):
                return
            print(f"after {line * BUILD_LINE_S:g} s: still compiling operations for this CPU", flush=True)

    threading.Thread(target=announce, name="tfhet-build", daemon=True).start()
    try:
        yield
    finally:
        done.set()


def lean_engine(env: Mapping[str, str]) -> Engine | None:
    """Without TensorFlow's Python; None where that is not enough: ops are yet to be built, or there are plug-ins.
    Raises any error where another TensorFlow has other names; this process must begin anew then."""
    found = native.built(env)
    if found is None or native.ready(native.WIRE, env) is None or entry_points(group="tfhet.stages"):
        return None
    if not kernels.is_ready():
        return None
    parts = private.servers_without_python()
    if parts is None:
        return None
    kernels.library()  # the op of the core finds its functions by name
    for path in found.values():
        ctypes.CDLL(str(path))  # its ops register themselves
    return Engine(*parts, tuple(found))
