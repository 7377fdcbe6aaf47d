"""A tf.data service process of the example's flow: `example_data.py dispatcher|worker --port N ...`.

As in the example: a process with all of TensorFlow and its default settings, and a dispatcher without a journal.
"""

from __future__ import annotations

import argparse
import signal
from collections.abc import Sequence

from tfhet.process import end_with_parent


def main(argv: Sequence[str] | None = None) -> None:
    """Serves until the process is killed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=("dispatcher", "worker"))
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--address", default="", help="worker: its address for the trainers")
    parser.add_argument("--dispatcher", default="", help="worker: host:port of the dispatcher")
    given = parser.parse_args(argv)
    end_with_parent(signal.SIGKILL)

    from tensorflow.data.experimental import service

    if given.kind == "dispatcher":
        server = service.DispatchServer(service.DispatcherConfig(port=given.port))
    else:
        config = service.WorkerConfig(
            dispatcher_address=given.dispatcher, worker_address=f"{given.address}:{given.port}", port=given.port
        )
        server = service.WorkerServer(config)
    server.join()


if __name__ == "__main__":
    main()
