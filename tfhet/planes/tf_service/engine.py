"""The engine of a data service process: TensorFlow's servers, and the compiled ops that graphs may hold.

The servers are C++ and run graphs in C++. TensorFlow's Python takes 2 s of CPU to import and is not needed for that, so
a process does without where it can: it serves after 0.2 s, for which an epoch waits when a worker is restarted.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Any

from tfhet import native
from tfhet.planes import private


@dataclass(frozen=True)
class Engine:
    """TensorFlow's servers, loaded in one of two ways."""

    library: Any
    """TensorFlow's extension module with the servers."""
    configs: Any
    """The messages that describe them."""
    kernels: tuple[str, ...]
    """The compiled ops that are loaded."""

    def worker(self, **config: object) -> Any:
        """A running worker. Fields: see DATA `WorkerConfig` in tensorflow/core/protobuf/service_config.proto."""
        server = self.library.TF_DATA_NewWorkerServer(self.configs.WorkerConfig(**config).SerializeToString())
        server.start()
        return server

    def dispatcher(self, **config: object) -> Any:
        """A running dispatcher, as `worker`."""
        server = self.library.TF_DATA_NewDispatchServer(self.configs.DispatcherConfig(**config).SerializeToString())
        server.start()
        return server


def whole_engine() -> Engine:
    """With all of TensorFlow, the stages' plug-ins, and ops that are built where they are missing."""
    from tfhet import stages

    stages.names()  # loads the plug-ins, and with them the ops of their own that graphs may hold
    kernels = native.load_all()
    return Engine(*private.servers(), kernels)


def lean_engine(env: Mapping[str, str]) -> Engine | None:
    """Without TensorFlow's Python; None where that will not do: ops are yet to be built, or there are plug-ins.

    Raises whatever goes wrong under names that are TensorFlow's own; this process must begin anew then.
    """
    found = native.built(env)
    if found is None or entry_points(group="tfhet.stages"):
        return None
    parts = private.servers_without_python()
    if parts is None:
        return None
    for path in found.values():
        ctypes.CDLL(str(path))  # its ops register themselves
    return Engine(*parts, tuple(found))
