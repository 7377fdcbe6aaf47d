"""The process of a dispatcher or worker: `python -m tfhet.planes.tf_service.server dispatcher|worker ...`.

It reports to its launcher over the channel between them (tfhet/messages/server.py); what it prints is for people.

TensorFlow's servers are C++ and run graphs in C++. TensorFlow's Python takes 2 s of CPU to import and is not needed for
that, so a process does without where it can: it serves after 0.2 s, for which an epoch waits when a worker restarts.
"""

from __future__ import annotations

import argparse
import itertools
import os
import signal
import sys
import threading
from collections.abc import Sequence
from typing import NoReturn

from tfhet.cluster import environment
from tfhet.messages import inherited, server as messages
from tfhet.planes.cpus import confine, give_way, in_batches
from tfhet.planes.tf_service.engine import Engine, lean_engine, whole_engine
from tfhet.planes.tf_service.settings import SERVER
from tfhet.planes.tf_service.wire import Wire, key_from

ALIVE_S = 1.0
"""Seconds between two reports that the process lives; the launcher takes a long silence for a hang."""
LOOK_S = 0.1
"""Seconds between two looks at the number of workers that the dispatcher knows."""


def main(argv: Sequence[str] | None = None) -> NoReturn:
    parser = argparse.ArgumentParser(prog=SERVER, description=__doc__)
    parser.add_argument("kind", choices=("dispatcher", "worker"))
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--work_dir", default="", help="dispatcher: the folder of its journal")
    parser.add_argument("--address", default="", help="the name or address at which other hosts reach it")
    parser.add_argument("--listen", default="", help="the IP address at which it listens, if another")
    parser.add_argument("--folder", default="", help="the folder of its socket files, which only this user may enter")
    parser.add_argument("--encrypted", action="store_true", help="batches are encrypted")
    parser.add_argument("--dispatcher", default="", help="worker: host:port of the dispatcher")
    parser.add_argument("--cpus", default="", help="worker: numbers of the CPUs it may use, with commas")
    parser.add_argument("--gives_way", action="store_true", help="worker: runs when no other process wants the CPU")
    parser.add_argument("--whole", action="store_true", help="with all of TensorFlow, which takes longer to start")
    args = parser.parse_args(argv)
    if not (args.address and args.folder):
        parser.error("a server needs --address and --folder")
    if args.kind == "worker" and not args.dispatcher:
        parser.error("a worker needs --dispatcher")
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
    where = {"listen": args.listen, "folder": args.folder}
    wire = Wire.join(key_from(environment()), args.address, **where, encrypted=args.encrypted)
    ready = messages.Ready(args.port, {"native": list(engine.kernels)})
    alive = messages.Alive()
    if args.kind == "dispatcher":
        server = engine.dispatcher(wire, args.port, args.work_dir)
        channel.send(ready)
        known = -1
        for turn in itertools.count(1):
            if stop.wait(LOOK_S):
                break
            if (now := server.num_workers()) != known:
                if channel.send(messages.Registered(now)):  # or else at the next look
                    known = now
            elif turn % round(ALIVE_S / LOOK_S) == 0:
                channel.send(alive)
    else:
        server = engine.worker(wire, args.port, args.address, args.dispatcher)
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
