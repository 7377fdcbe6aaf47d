"""The process of a dispatcher or worker: `python -m tfhet.planes.tf_service.server dispatcher|worker ...`.

It reports to its launcher over the channel between them (tfhet/messages/server.py); what it prints is for people.

TensorFlow's servers are C++ and run graphs in C++. TensorFlow's Python takes 2 s of CPU to import and is not needed for
that, so a process does without where it can: it serves after 0.2 s, for which an epoch waits when a worker restarts.
"""

from __future__ import annotations

import argparse
import ctypes
import itertools
import os
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Any, NoReturn

from tfhet import native
from tfhet.cluster import environment
from tfhet.messages import inherited
from tfhet.messages import server as messages
from tfhet.planes import private
from tfhet.planes.cpus import confine, give_way, in_batches
from tfhet.planes.tf_service.fleet import SERVER

HEARTBEAT_MS = 1_000
"""Time between two reports of a worker (TensorFlow: 30 s); a new data set reaches it at the latest by then."""
WORKER_TIMEOUT_MS = 30_000
DISPATCHER_TIMEOUT_MS = 60_000
"""Time that a worker looks for its dispatcher (TensorFlow: 1 h)."""
JOB_GC_CHECK_MS = 10_000
"""Time between two searches of the dispatcher for lost clients and finished jobs (TensorFlow: 10 min)."""
ALIVE_S = 1.0
"""Seconds between two reports that the process lives; the launcher takes a long silence for a hang."""
LOOK_S = 0.1
"""Seconds between two looks at the number of workers that the dispatcher knows."""


@dataclass(frozen=True)
class Engine:
    """TensorFlow's servers, and the compiled ops that graphs may hold."""

    library: Any
    """TensorFlow's extension module with the servers."""
    configs: Any
    """The messages that configure them: tensorflow/core/protobuf/service_config.proto."""
    kernels: tuple[str, ...]
    """Names of the compiled ops that are loaded."""

    def dispatcher(self, port: int, work_dir: str = "") -> Any:
        """A running dispatcher on `port`, on all interfaces (tf.data service knows no other way).

        work_dir: a local folder for its journal, with which a dispatcher at the same port continues; "": no journal.
        """
        config = self.configs.DispatcherConfig(
            port=port,
            protocol="grpc",
            work_dir=work_dir,
            fault_tolerant_mode=bool(work_dir),
            job_gc_check_interval_ms=JOB_GC_CHECK_MS,
            worker_timeout_ms=WORKER_TIMEOUT_MS,
        )
        server = self.library.TF_DATA_NewDispatchServer(config.SerializeToString())
        server.start()
        return server

    def worker(self, port: int, address: str, dispatcher: str) -> Any:
        """A running worker on `port`, which others reach at `address`:`port` (TensorFlow's default is localhost)."""
        config = self.configs.WorkerConfig(
            dispatcher_address=dispatcher,
            worker_address=f"{address}:{port}",
            data_transfer_address=f"{address}:{port}",
            port=port,
            protocol="grpc",
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
    kernels = native.load_all()
    return Engine(*private.servers(), kernels)


def lean_engine(env: Mapping[str, str]) -> Engine | None:
    """Without TensorFlow's Python; None where that is not enough: ops are yet to be built, or there are plug-ins.

    Raises any error where another TensorFlow has other names; this process must begin anew then.
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


def main(argv: Sequence[str] | None = None) -> NoReturn:
    parser = argparse.ArgumentParser(prog=SERVER, description=__doc__)
    parser.add_argument("kind", choices=("dispatcher", "worker"))
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--work_dir", default="", help="dispatcher: the folder of its journal")
    parser.add_argument("--address", default="", help="worker: the name or address at which other hosts reach it")
    parser.add_argument("--dispatcher", default="", help="worker: host:port of the dispatcher")
    parser.add_argument("--cpus", default="", help="worker: numbers of the CPUs it may use, with commas")
    parser.add_argument("--gives_way", action="store_true", help="worker: runs when no other process wants the CPU")
    parser.add_argument("--whole", action="store_true", help="with all of TensorFlow, which takes longer to start")
    args = parser.parse_args(argv)
    if args.kind == "worker" and not (args.address and args.dispatcher):
        parser.error("a worker needs --address and --dispatcher")
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    if args.cpus:
        confine(os.getpid(), map(int, args.cpus.split(",")))
    if args.kind == "worker":
        in_batches()
    engine = whole_engine() if args.whole else _lean_or_whole()
    # Not before: a process that begins anew with all of TensorFlow could not open it again.
    channel = inherited(environment())
    ready = messages.to_json(messages.Ready(args.port, {"native": list(engine.kernels)}))
    alive = messages.to_json(messages.Alive())
    if args.kind == "dispatcher":
        server = engine.dispatcher(args.port, args.work_dir)
        channel.send(ready)
        known = -1
        for turn in itertools.count(1):
            if stop.wait(LOOK_S):
                break
            if (now := server.num_workers()) != known:
                if channel.send(messages.to_json(messages.Registered(now))):  # or else at the next look
                    known = now
            elif turn % round(ALIVE_S / LOOK_S) == 0:
                channel.send(alive)
    else:
        server = engine.worker(args.port, args.address, args.dispatcher)
        if args.gives_way:
            give_way()
        channel.send(ready)
        while not stop.wait(ALIVE_S):
            channel.send(alive)
    # Nothing here needs saving, and the orderly way takes TensorFlow up to a second, which every host would wait for.
    os._exit(0)


def _lean_or_whole() -> Engine:
    try:
        lean = lean_engine(environment())
    except Exception as error:  # noqa: BLE001  another TensorFlow may have other names
        print(f"starts with all of TensorFlow: {error}", file=sys.stderr, flush=True)
        os.execv(sys.executable, [sys.executable, "-m", SERVER, *sys.argv[1:], "--whole"])
    return lean or whole_engine()


if __name__ == "__main__":
    main()
