"""timm: its models, optimizers, schedules and metrics with DistributedDataParallel, as in its train.py."""

import os

import timm
import timm.optim
import timm.scheduler
import timm.utils
import torch
import torch.distributed as dist
from digits_data import make_train, make_validation

import tfhet.torch


def main() -> None:
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    rank, size, epochs = dist.get_rank(), dist.get_world_size(), 2
    device = torch.device("cpu")
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    train = tfhet.torch.loader(make_train, batch_size=32, shuffle=True)
    validation = tfhet.torch.loader(make_validation, batch_size=32, training=False)
    torch.manual_seed(0)
    model = timm.create_model("test_resnet", in_chans=1, num_classes=10).to(device)
    optimizer = timm.optim.create_optimizer_v2(model, opt="adamw", lr=0.003)
    schedule, _ = timm.scheduler.create_scheduler_v2(optimizer, sched="cosine", num_epochs=epochs)
    ranks = torch.nn.parallel.DistributedDataParallel(model)
    trained = 0
    for epoch in range(epochs):
        ranks.train()
        for batch in train:
            images, labels = (batch[name].to(device, non_blocking=True) for name in ("pixel_values", "labels"))
            loss = torch.nn.functional.cross_entropy(ranks(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            trained += len(labels)
        schedule.step(epoch + 1)
        model.eval()
        counts = torch.zeros(2)
        for batch in validation:
            images, labels = (batch[name].to(device, non_blocking=True) for name in ("pixel_values", "labels"))
            with torch.no_grad():
                (percent,) = timm.utils.accuracy(model(images), labels)
            counts += torch.tensor([float(percent) * len(labels) / 100, float(len(labels))])
        counts = counts.to(device)
        dist.all_reduce(counts)  # examples of all ranks: their batches differ in number and size
        right, seen = counts.tolist()
    print(f"rank={rank} of {size} trained={trained} validated={right / seen:.4f} of {seen:.0f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
