"""A script that reads the digits by `tfhet.batches` from a declared pipeline, with a witness for `benchmarks.judge`.

It trains nothing: TensorFlow only prepares its batches. The logs are those of `job_scripts/witness_train.py`, with the
number of the script's pass in place of the epoch.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import time
from pathlib import Path

import tfhet
from tfhet.cluster import environment
from tfhet.strategies import JobContext


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch_size", type=int, required=True)
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--step_ms", type=float, required=True)
    args = parser.parse_args()
    env = environment()
    folder = Path(env.get("TFHET_WITNESS") or Path(env["SM_OUTPUT_DATA_DIR"]) / "witness")
    folder.mkdir(parents=True, exist_ok=True)
    log = os.open(folder / f"{JobContext.from_env(env).rank}.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    source = tfhet.TFRecordSource.from_directory(env["SM_CHANNEL_TRAINING"])
    loader = tfhet.batches(tfhet.Pipeline(source, batch_size=args.batch_size))
    for number in range(args.epochs):
        for images, labels in loader:
            pairs = zip(images, labels, strict=True)
            content = [hashlib.sha256(one.tobytes() + label.tobytes()).hexdigest()[:16] for one, label in pairs]
            time.sleep(1e-3 * args.step_ms)
            os.write(log, (json.dumps({"epoch": number, "content": content}) + "\n").encode())


if __name__ == "__main__":
    main()
