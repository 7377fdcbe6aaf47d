"""A script for torchrun, in the shape of PyTorch's tutorial of DDP: a trainer that keeps snapshots. Knows no tfhet."""

from __future__ import annotations

import argparse
import os

import torch
from torch.distributed import destroy_process_group, get_rank, init_process_group
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Trainer:
    def __init__(self, model: torch.nn.Module, data: DataLoader, save_every: int, snapshot: str):
        self.local_rank, self.rank = int(os.environ["LOCAL_RANK"]), int(os.environ["RANK"])
        self.data, self.save_every, self.snapshot, self.first = data, save_every, snapshot, 0
        if os.path.exists(snapshot):
            found = torch.load(snapshot, weights_only=True)
            model.load_state_dict(found["model"])
            self.first = found["epochs"]
        self.model = DistributedDataParallel(model)
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def train(self, epochs: int) -> None:
        for epoch in range(self.first, epochs):
            self.data.sampler.set_epoch(epoch)
            for inputs, targets in self.data:
                self.optimizer.zero_grad()
                loss = mse_loss(self.model(inputs), targets)
                loss.backward()
                self.optimizer.step()
            if self.local_rank == 0 and self.rank == 0 and epoch % self.save_every == 0:
                torch.save({"model": self.model.module.state_dict(), "epochs": epoch + 1}, self.snapshot)
        weights = sum(float(weight.detach().double().sum()) for weight in self.model.parameters())
        restarts = os.environ["TORCHELASTIC_RESTART_COUNT"], os.environ["TORCHELASTIC_MAX_RESTARTS"]
        print(
            f"rank={get_rank()} weights={weights!r} launched={torch.distributed.is_torchelastic_launched()}", flush=True
        )
        assert restarts == ("0", "0")


@record
def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("epochs", type=int)
    parser.add_argument("save_every", type=int)
    parser.add_argument("--batch_size", type=int, default=32)
    arguments = parser.parse_args()
    init_process_group("gloo")
    torch.manual_seed(0)
    data = TensorDataset(torch.rand(512, 20), torch.rand(512, 1))
    loader = DataLoader(data, arguments.batch_size, shuffle=False, sampler=DistributedSampler(data))
    snapshot = os.path.join(os.environ.get("SM_MODEL_DIR", "."), "snapshot.pt")
    Trainer(torch.nn.Linear(20, 1), loader, arguments.save_every, snapshot).train(arguments.epochs)
    torch.distributed.barrier()  # Gloo aborts a rank whose peer has gone while it still communicates
    destroy_process_group()


if __name__ == "__main__":
    main()
