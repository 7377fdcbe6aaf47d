"""A script for a Ray cluster: says what it finds there, and what a map of Ray Data ran on. It imports nothing of tfhet.

With --until_stopped it then waits for SIGTERM, writes a file, and ends with code 143; with --raises it raises.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import signal
import socket
import sys
import time
from pathlib import Path

import ray


def where(batch: dict) -> dict:
    print("mapped", len(batch["id"]))
    time.sleep(0.05)
    return {"id": batch["id"], "at": [ray.util.get_node_ip_address()] * len(batch["id"])}


def answers_in_clear() -> bool:
    """Whether the head answers the opening of HTTP/2 without encryption."""
    host, _, port = os.environ["RAY_ADDRESS"].rpartition(":")
    with socket.create_connection((host, int(port)), timeout=10) as end:
        end.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
        try:
            answer = end.recv(9, socket.MSG_WAITALL)
        except ConnectionError:
            return False
    return len(answer) == 9 and answer[3] == 4  # settings


@ray.remote
def variables() -> dict[str, str]:
    return dict(os.environ)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--blocks", type=int, default=8)
    parser.add_argument("--options", type=json.loads, default={}, help="further arguments of map_batches, JSON")
    parser.add_argument("--until_stopped", type=int, default=0)
    parser.add_argument("--raises", type=int, default=0)
    args = parser.parse_args()
    output = Path(os.environ["SM_OUTPUT_DATA_DIR"])
    ray.init()
    print("begun", flush=True)
    if args.raises:
        raise ValueError("the model is upside down")
    if args.until_stopped:

        def stop(*_: object) -> None:
            (output / "stopped").write_text("saved")
            sys.exit(128 + signal.SIGTERM)

        signal.signal(signal.SIGTERM, stop)
        while True:
            time.sleep(0.1)
    held = ray.put(bytes(40_000_000))
    time.sleep(3.0)  # until the nodes have said what they hold
    numbers = ray.data.range(10 * args.blocks, override_num_blocks=args.blocks)
    rows = numbers.map_batches(where, **args.options).take_all()
    del held
    found = {
        "ids": sorted(int(row["id"]) for row in rows),
        "at": collections.Counter(row["at"] for row in rows),
        "nodes": [{"ip": one["NodeManagerAddress"], "labels": one["Labels"]} for one in ray.nodes() if one["Alive"]],
        "resources": ray.cluster_resources(),
        "answers_in_clear": answers_in_clear(),
        "variables": ray.get(variables.remote()),
    }
    (output / "found.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
