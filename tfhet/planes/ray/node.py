"""The process of a Ray node: `python -m tfhet.planes.ray.node --head_at HOST:PORT --ip IP --port PORT -- start ...`.

Its main thread runs Ray's own command, `ray start --block`, which ends when a process of the node ends. Another thread
reports to the launcher when the node has joined the cluster, and then its use of memory.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import socket
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import psutil

from tfhet.clock import SYSTEM
from tfhet.cluster import DATA, environment
from tfhet.messages import inherited, server as messages

REPORT_S = 1.0
_CHECK_S = 0.2
TRAIN_WORKER = "ray::RayTrainWorker"
"""The beginning of the process title of a worker of Ray Train."""
TRAINS_HERE = (
    "a worker of Ray Train runs on this data host, with the CPUs that prepare data; ScalingConfig keeps it on the dnn "
    'hosts by resources_per_worker={"GPU": 1, "CPU": 0}, or without GPUs by label_selector={"tfhet-role": "dnn"} '
    "together with --dnn_host_cpus"
)
LONGEST_FOLDER = 43
"""Maximum length of the path of a folder: it contains sockets with paths of 64 characters, and the limit is 107."""


def _await_head(head_at: str, limit_s: float) -> None:
    """Returns when the head's port is open. Ends the process, with a message, after `limit_s` seconds."""
    host, _, port = head_at.rpartition(":")
    channel, end_s = inherited(environment()), SYSTEM.monotonic() + limit_s
    reported_s = 0.0
    while SYSTEM.monotonic() < end_s:
        with contextlib.suppress(OSError), socket.create_connection((host.strip("[]"), int(port)), timeout=2.0):
            return
        if SYSTEM.monotonic() - reported_s > REPORT_S:
            channel.send(messages.Alive())
            reported_s = SYSTEM.monotonic()
        SYSTEM.sleep(_CHECK_S)
    sys.exit(f"Ray's head at {head_at} did not open its port within {limit_s:g} s")


def _trains() -> bool:
    """Whether a worker of Ray Train runs on this node."""
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if next(iter(process.cmdline()), "").startswith(TRAIN_WORKER):
                return True
    return False


def _report(head: str, ip: str, port: int, is_for_data: bool, stop: threading.Event) -> None:
    from tfhet.planes.ray import private

    channel, has_joined = inherited(environment()), False
    while not stop.wait(REPORT_S if has_joined else _CHECK_S):
        if is_for_data and has_joined and _trains():
            print(f"[tfhet] {TRAINS_HERE}", flush=True)
            is_for_data = False
        if not has_joined:
            has_joined = private.is_alive(head, ip, port)
            # The launchers limit the time until the node has joined.
            channel.send(messages.Ready(port) if has_joined else messages.Alive(), limit_s=5.0)
        else:
            used = private.store_use(ip, port)
            channel.send(messages.Alive() if used is None else messages.Used(used))


def _short(folder: Path) -> Path:
    """Returns a path of the folder that is short enough for sockets, valid as long as this process lives."""
    if len(str(folder)) <= LONGEST_FOLDER:
        return folder
    return Path(f"/proc/{os.getpid()}/fd/{os.open(folder, os.O_RDONLY | os.O_DIRECTORY)}")


def session_folder(folder: Path) -> Path:
    """Returns the folder of Ray's sessions in `folder`. All users may write to it by Ray's will, so `folder` is closed
    to other users. Raises OSError if it belongs to another user."""
    folder.chmod(0o700)
    inner = folder / "ray"
    inner.mkdir(exist_ok=True)
    return inner


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--head_at", required=True, help="IP:PORT of the head")
    parser.add_argument("--ip", required=True, help="address of this node in the cluster")
    parser.add_argument("--port", type=int, required=True, help="port of its raylet")
    parser.add_argument("--wait_s", type=float, required=True, help="seconds that it waits for the head's port")
    parser.add_argument("--folder", type=Path, required=True, help="of its sockets, logs and spilled objects")
    parser.add_argument("words", nargs="+", help="arguments of Ray's command")
    args = parser.parse_args(argv)
    if "--head" not in args.words:
        _await_head(args.head_at, args.wait_s)
    from tfhet.planes.ray import private

    private.load()
    stop = threading.Event()
    is_for_data = any(word.startswith("--labels=") and word.endswith(f"={DATA.name}") for word in args.words)
    arguments = (args.head_at, args.ip, args.port, is_for_data, stop)
    threading.Thread(target=_report, args=arguments, name="ray-report", daemon=True).start()
    private.run([*args.words, f"--temp-dir={_short(session_folder(args.folder))}"], args.wait_s)


if __name__ == "__main__":
    main()
