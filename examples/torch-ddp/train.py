"""Trains a small network on the digits with DistributedDataParallel. A script for torchrun, without tfhet."""

import hashlib
import os

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

EPOCHS, BATCH_SIZE, VALIDATION = 10, 32, 360

dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
rank, size, local_rank = dist.get_rank(), dist.get_world_size(), int(os.environ["LOCAL_RANK"])
device = torch.device("cpu")
if torch.cuda.is_available():
    device = torch.device("cuda", local_rank)
    torch.cuda.set_device(device)

images, labels = load_digits(return_X_y=True)
order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
x = torch.tensor(images, dtype=torch.float32).reshape(-1, 1, 8, 8)[order] / 16
y = torch.tensor(labels)[order]
train = TensorDataset(x[VALIDATION:], y[VALIDATION:])
sampler = DistributedSampler(train, seed=0)  # this rank's share; as many batches on every rank
loader = DataLoader(train, BATCH_SIZE, sampler=sampler)

torch.manual_seed(rank)  # DDP gives all ranks the weights of rank 0
network = torch.nn.Sequential(
    torch.nn.Conv2d(1, 16, 3, padding=1),
    torch.nn.ReLU(),
    torch.nn.MaxPool2d(2),
    torch.nn.Flatten(),
    torch.nn.Linear(16 * 4 * 4, 10),
).to(device)
model = DistributedDataParallel(network)
optimizer = torch.optim.Adam(model.parameters(), 0.002 * size)
for epoch in range(EPOCHS):
    sampler.set_epoch(epoch)
    for inputs, targets in loader:
        loss = torch.nn.functional.cross_entropy(model(inputs.to(device)), targets.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if rank == 0:
        print(f"epoch {epoch}: loss {loss.item():.3f}", flush=True)

weights = b"".join(tensor.cpu().numpy().tobytes() for tensor in network.state_dict().values())
with torch.no_grad():
    right = (network(x[:VALIDATION].to(device)).argmax(1).cpu() == y[:VALIDATION]).float().mean().item()
print(f"rank={rank} of {size} accuracy={right:.3f} weights={hashlib.sha256(weights).hexdigest()[:16]}", flush=True)
if rank == 0:
    directory = os.environ.get("SM_MODEL_DIR", "model")
    os.makedirs(directory, exist_ok=True)
    torch.save(network.state_dict(), os.path.join(directory, "model.pt"))
dist.destroy_process_group()
