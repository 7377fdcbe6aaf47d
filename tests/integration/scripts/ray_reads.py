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
    return {"image": images, "id": batch["id"], **of_the_task(len(images))}


def of_the_task(rows: int) -> dict[str, np.ndarray]:
    """Whether the rows are of a task on a data host, and of one that read them, too."""
    import ray

    context = ray.get_runtime_context()
    at_data, read = context.get_node_labels().get("tfhet-role") == "data", "Read" in context.get_task_name()
    return {"at_data": np.full(rows, at_data), "read": np.full(rows, read)}


def make_pictures(shard, examples=400, raises_at=-1, by_block=False):
    import ray

    numbers = ray.data.range(examples, override_num_blocks=5)
    batch_size = None if by_block else 2 * BATCH_SIZE
    return numbers.map_batches(pictures, fn_kwargs={"raises_at": raises_at}, batch_size=batch_size)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--examples", type=int, default=400)
    parser.add_argument("--raises_at", type=int, default=-1)
    parser.add_argument("--by_block", action="store_true")
    args = parser.parse_args()
    arguments = {"examples": args.examples, "raises_at": args.raises_at, "by_block": args.by_block}
    loader = tfhet.torch.loader(make_pictures, arguments=arguments, batch_size=BATCH_SIZE)
    epochs, at_data, read = [], 0, 0
    for _ in range(args.epochs):
        ids: list[int] = []
        for number, batch in enumerate(loader):
            if not epochs and not number:
                print("first batch", flush=True)
            assert batch["image"].shape[1:] == (10, 10, 3) and batch["image"].dtype == torch.float32
            assert torch.equal(batch["image"][:, 0, 0, 0], batch["id"].float())
            batch["image"] += 1  # in place, which the memory must stand
            ids += batch["id"].tolist()
            at_data, read = at_data + int(batch["at_data"].sum()), read + int(batch["read"].sum())
            time.sleep(0.01)
        epochs.append(ids)
    held_out = tfhet.batches(make_pictures, arguments=arguments, batch_size=BATCH_SIZE, training=False)
    seen = [int(one) for batch in held_out for one in batch["id"]]
    rank = os.environ["RANK"]
    wrote = {"epochs": epochs, "at_data": at_data, "read": read, "held_out": seen}
    wrote = {**wrote, "tensorflow": "tensorflow" in sys.modules, **loader.counts}
    Path(os.environ["SM_OUTPUT_DATA_DIR"], f"ray-{rank}.json").write_text(json.dumps(wrote))


if __name__ == "__main__":
    main()
