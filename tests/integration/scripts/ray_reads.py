"""A script of PyTorch's ranks that read what a Ray data set gives: every example with an id, in batches."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

import numpy as np
import torch

import tfhet
import tfhet.torch

BATCH_SIZE = 8


def pictures(batch: dict, raises_at: int) -> dict:
    if raises_at in batch["id"]:
        raise ValueError(f"the picture {raises_at} is upside down")
    time.sleep(0.01)
    images = np.repeat(batch["id"].astype(np.float32), 300).reshape(-1, 10, 10, 3)
    return {"image": images, "id": batch["id"]}


def make_pictures(shard, examples=400, raises_at=-1):
    import ray

    numbers = ray.data.range(examples, override_num_blocks=5)
    return numbers.map_batches(pictures, fn_kwargs={"raises_at": raises_at}, batch_size=2 * BATCH_SIZE)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--examples", type=int, default=400)
    parser.add_argument("--raises_at", type=int, default=-1)
    args = parser.parse_args()
    arguments = {"examples": args.examples, "raises_at": args.raises_at}
    loader = tfhet.torch.loader(make_pictures, arguments=arguments, batch_size=BATCH_SIZE)
    epochs = []
    for _ in range(args.epochs):
        ids: list[int] = []
        for number, batch in enumerate(loader):
            if not epochs and not number:
                print("first batch", flush=True)
            assert batch["image"].shape[1:] == (10, 10, 3) and batch["image"].dtype == torch.float32
            assert torch.equal(batch["image"][:, 0, 0, 0], batch["id"].float())
            batch["image"] += 1  # in place, which the memory must stand
            ids += batch["id"].tolist()
            time.sleep(0.01)
        epochs.append(ids)
    held_out = tfhet.batches(make_pictures, arguments=arguments, batch_size=BATCH_SIZE, training=False)
    seen = [int(one) for batch in held_out for one in batch["id"]]
    rank = os.environ["RANK"]
    wrote = {"epochs": epochs, "held_out": seen, "tensorflow": "tensorflow" in sys.modules, **loader.counts}
    Path(os.environ["SM_OUTPUT_DATA_DIR"], f"ray-{rank}.json").write_text(json.dumps(wrote))


if __name__ == "__main__":
    main()
