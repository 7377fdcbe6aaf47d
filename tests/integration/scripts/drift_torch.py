"""A loop of PyTorch whose ranks begin with different weights, reduced or not, as HOW says.

ddp       DistributedDataParallel
fsdp      fully_shard
zero      DistributedDataParallel, and each rank has the state of a part of the parameters
uneven    DistributedDataParallel; rank 1 has fewer batches in each epoch (join)
pipeline  each rank has another layer of the same shape
averaged  each rank takes its own step, and all average their weights after it
wrapped   the script calls the module within DistributedDataParallel
alone     neither a group nor a wrapper; a seed for each rank
early     as alone; rank 1 ends its epochs early
"""

from __future__ import annotations

import argparse
import contextlib
import os

import numpy as np
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import tfhet.torch

EPOCHS, BATCH_SIZE = 4, 8
rng = np.random.default_rng(0)
DATA = rng.normal(size=(20 * 2 * BATCH_SIZE, 16)).astype(np.float32)


class Examples:
    def __len__(self):
        return len(DATA)

    def __getitem__(self, index):
        return DATA[index], DATA[index].sum(keepdims=True)


def make(shard):
    return Examples()


def train(how: str, rank: int) -> None:
    torch.manual_seed(rank)
    if how not in ("alone", "early"):
        dist.init_process_group("gloo")
    inner = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    model, optimizer = inner, None
    if how in ("ddp", "zero", "uneven", "wrapped"):
        model = DistributedDataParallel(inner)
    if how == "fsdp":
        from torch.distributed.fsdp import fully_shard

        model = fully_shard(inner)
    if how == "zero":
        from torch.distributed.optim import ZeroRedundancyOptimizer

        optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=0.01)
    optimizer = optimizer or torch.optim.SGD(model.parameters(), 0.01)
    loader = tfhet.torch.loader(make, batch_size=BATCH_SIZE, shuffle=True)
    for epoch in range(EPOCHS):
        context = model.join() if how == "uneven" else contextlib.nullcontext()
        with context:
            for number, (x, y) in enumerate(loader):
                if how in ("uneven", "early") and rank and number == 15 - 2 * epoch:
                    break
                optimizer.zero_grad()
                called = inner if how == "wrapped" else model
                torch.nn.functional.mse_loss(called(x), y).backward()
                optimizer.step()
                if how == "averaged":
                    for each in inner.parameters():
                        dist.all_reduce(each.data)
                        each.data /= dist.get_world_size()
    print(f"rank={rank} trained", flush=True)
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--how", required=True)
    train(parser.parse_args().how, int(os.environ["RANK"]))
