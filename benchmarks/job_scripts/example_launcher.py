"""The launcher of AWS's heterogeneous cluster example (TensorFlow), written again: the same flow, other code.

A data host starts the dispatcher (the first data host) and the workers as child processes, waits for one connection to
port 16000, and ends. MPI starts a launcher on the dnn hosts once per rank. The first rank of a host starts the host's
workers, all ranks run the training script, and when it has ended, rank 0 connects to port 16000 of each data host in
turn. No launcher watches its children meanwhile, and a data host ends for any connection. Source:
aws/amazon-sagemaker-examples, `launcher.py` of the TensorFlow heterogeneous-clusters example (last at the parent of
commit 60142f1a6, 2023-07-17).

One change: the workers of a dnn host end with the training. The example leaves them running until the container ends.
"""

from __future__ import annotations

import argparse
import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.job_scripts.stamp import stamp
from tfhet.clock import SYSTEM
from tfhet.cluster import DATA, Identity, PortRange, Ports, Rank, Roles, environment, identify, resolve, roles
from tfhet.strategies import rank_of

HERE = Path(__file__).parent
TRIES, PAUSE_S = 12, 10.0
"""Attempts to reach a data host, and the seconds between two."""


@dataclass(frozen=True)
class Place:
    """The host, roles and ports of this launcher."""

    identity: Identity
    roles: Roles
    ports: Ports

    @classmethod
    def of(cls, workers: int) -> Place:
        env, identity = environment(), identify(environment())
        ports = {"dispatcher": PortRange(6000, is_shared=True), "workers": PortRange(6001, workers)}
        return cls(identity, roles(identity), Ports.from_env(env, plane=ports))

    @property
    def dispatcher(self) -> str:
        return f"{self.address(self.roles.data_hosts[0])}:{self.ports.plane['dispatcher'][0]}"

    def address(self, host: str) -> str:
        return resolve(host, environment(), self.identity.current_host)


def main(argv: Sequence[str]) -> int:
    """Serves or trains, and returns the exit code."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--num_of_data_workers", type=int, default=1)
    given, rest = parser.parse_known_args(argv)
    place = Place.of(given.num_of_data_workers)
    if place.roles.current == DATA:
        return _serve(place)
    return _train(place, rest)


def _serve(place: Place) -> int:
    children = []
    if place.identity.current_host == place.roles.data_hosts[0]:
        children.append(_start("example_data.py", "dispatcher", "--port", str(place.ports.plane["dispatcher"][0])))
    children += _workers(place)
    with socket.create_server((place.address(place.identity.current_host), place.ports.control)) as server:
        connection, _ = server.accept()
        connection.close()
    for child in children:
        child.kill()
        child.wait()
    return 0


def _train(place: Place, arguments: Sequence[str]) -> int:
    rank = rank_of(environment()) or Rank(0, 1, 0, 1, "one dnn host without mpirun")
    workers = _workers(place) if rank.local_rank == 0 else []
    code = _start("example_train.py", "--dispatcher", place.dispatcher, *arguments).wait()
    for child in workers:
        child.kill()
        child.wait()
    if rank.rank == 0:
        for host in place.roles.data_hosts:
            _signal(place.address(host), place.ports.control)
    return code


def _workers(place: Place) -> list[subprocess.Popen[bytes]]:
    own = ["--address", place.address(place.identity.current_host), "--dispatcher", place.dispatcher]
    return [_start("example_data.py", "worker", "--port", str(port), *own) for port in place.ports.plane["workers"]]


def _start(script: str, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, str(HERE / script), *arguments])


def _signal(address: str, port: int) -> None:
    for _ in range(TRIES):
        try:
            socket.create_connection((address, port), timeout=PAUSE_S).close()
            return
        except OSError as error:
            print(f"[example] {address}:{port} cannot be reached: {error}", flush=True)
            SYSTEM.sleep(PAUSE_S)


if __name__ == "__main__":
    stamp("launcher_begins")
    code = main(sys.argv[1:])
    stamp("launcher_ends")
    sys.exit(code)
