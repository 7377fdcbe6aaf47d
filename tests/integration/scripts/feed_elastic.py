"""A script that reads a part of an epoch of a declared pipeline, and writes the labels and the state of each step."""

from __future__ import annotations

import argparse
import json
import os
import signal
import time
from pathlib import Path

import tfhet


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--image", required=True)
    parser.add_argument("--examples", type=int, required=True)
    parser.add_argument("--batch_size", type=int, required=True)
    parser.add_argument("--folder", type=Path, required=True, help="where the steps of each rank are written")
    parser.add_argument("--state", type=json.loads)
    args = parser.parse_known_args()[0]
    stopped = list[int]()
    signal.signal(signal.SIGTERM, lambda number, frame: stopped.append(number))
    source = tfhet.FileList([(args.image, index) for index in range(args.examples)])
    loader = tfhet.batches(tfhet.Pipeline(source, "decode(); resize(8, 8)", args.batch_size, shuffle=True, seed=1))
    if args.state is not None:
        loader.load_state_dict(args.state)
    args.folder.mkdir(exist_ok=True)
    with (args.folder / f"{tfhet.JobContext.from_env(os.environ).rank}.jsonl").open("w") as steps:
        for _, labels in loader:
            step = {"labels": labels.tolist(), "state": loader.state_dict()}
            print(json.dumps(step), file=steps, flush=True)
            time.sleep(0.05)
            if stopped:
                break


if __name__ == "__main__":
    main()
