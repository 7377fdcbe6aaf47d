"""The process of a dispatcher or worker: `python -m tfhet.planes.tf_service.server dispatcher|worker ...`.

It reports to its launcher over the channel between them (tfhet/messages/server.py); what it prints is for people.
"""

from __future__ import annotations

import argparse
import itertools
import os
import signal
import sys
import threading
from collections.abc import Sequence
from typing import Any, NoReturn

from tfhet.cluster import environment
from tfhet.messages import inherited
from tfhet.messages import server as messages
from tfhet.planes.cpus import confine, give_way, in_batches
from tfhet.planes.tf_service.engine import Engine, lean_engine, whole_engine

HEARTBEAT_MS = 1_000
"""A worker reports this often (TensorFlow: 30 s); a new data set reaches it at the latest by then."""
WORKER_TIMEOUT_MS = 30_000
DISPATCHER_TIMEOUT_MS = 60_000
"""How long a worker looks for its dispatcher (TensorFlow: 1 h)."""
JOB_GC_CHECK_MS = 10_000
"""How often the dispatcher looks after lost clients and finished jobs (TensorFlow: 10 min)."""
ALIVE_S = 1.0
"""Seconds between two reports that the process lives; the launcher takes a long silence for a hang."""
LOOK_S = 0.1
"""Seconds between two looks at the number of workers that the dispatcher knows."""


def dispatcher(engine: Engine, port: int, work_dir: str = "") -> Any:
    """A running dispatcher on `port`, on all interfaces (tf.data service knows no other way).

    work_dir: a local folder for its journal, from which a dispatcher at the same port goes on; "": it keeps none.
    """
    return engine.dispatcher(
        port=port,
        protocol="grpc",
        work_dir=work_dir,
        fault_tolerant_mode=bool(work_dir),
        job_gc_check_interval_ms=JOB_GC_CHECK_MS,
        worker_timeout_ms=WORKER_TIMEOUT_MS,
    )


def worker(engine: Engine, port: int, address: str, dispatcher_address: str) -> Any:
    """A running worker on `port`, known to others as `address`:`port` (TensorFlow's default is localhost)."""
    return engine.worker(
        dispatcher_address=dispatcher_address,
        worker_address=f"{address}:{port}",
        data_transfer_address=f"{address}:{port}",
        port=port,
        protocol="grpc",
        heartbeat_interval_ms=HEARTBEAT_MS,
        dispatcher_timeout_ms=DISPATCHER_TIMEOUT_MS,
    )


def main(argv: Sequence[str] | None = None) -> NoReturn:
    parser = argparse.ArgumentParser(prog="tfhet.planes.tf_service.server", description=__doc__)
    parser.add_argument("kind", choices=("dispatcher", "worker"))
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--work_dir", default="", help="dispatcher: the folder of its journal")
    parser.add_argument("--address", default="", help="worker: the name or address at which other hosts reach it")
    parser.add_argument("--dispatcher", default="", help="worker: host:port of the dispatcher")
    parser.add_argument("--cpus", default="", help="worker: numbers of the CPUs it may use, with commas")
    parser.add_argument("--gives_way", action="store_true", help="worker: runs when nobody else wants the CPU")
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
    engine = _engine(args.whole)
    # Not before: a process that begins anew with all of TensorFlow could not open it again.
    channel = inherited(environment())
    ready = messages.to_json(messages.Ready(args.port, {"native": list(engine.kernels)}))
    alive = messages.to_json(messages.Alive())
    if args.kind == "dispatcher":
        server = dispatcher(engine, args.port, args.work_dir)
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
        server = worker(engine, args.port, args.address, args.dispatcher)
        if args.gives_way:
            give_way()
        channel.send(ready)
        while not stop.wait(ALIVE_S):
            channel.send(alive)
    # Nothing here needs saving, and the orderly way takes TensorFlow up to a second, which every host would wait for.
    os._exit(0)


def _engine(whole: bool) -> Engine:
    if not whole:
        try:
            lean = lean_engine(environment())
        except Exception as error:  # noqa: BLE001  another TensorFlow may have other names
            print(f"starts with all of TensorFlow: {error}", file=sys.stderr, flush=True)
            os.execv(sys.executable, [sys.executable, "-m", "tfhet.planes.tf_service.server", *sys.argv[1:], "--whole"])
        if lean is not None:
            return lean
    return whole_engine()


if __name__ == "__main__":
    main()
