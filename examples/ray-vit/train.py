"""A vision transformer on random images that Ray blurs ten times each on the data hosts.

The job of C. Rand's article on balancing load with Ray on SageMaker (September 2023), at a reduced size. The launcher
starts the PyTorch ranks, not Ray.
"""

import argparse
import hashlib
import os
import time

import numpy as np
import torch
import torch.distributed as dist
from scipy.ndimage import gaussian_filter
from torch.nn.parallel import DistributedDataParallel

import tfhet
import tfhet.ray
import tfhet.torch

SIZE, PATCH, WIDTH, CLASSES = 64, 8, 64, 10


def prepared(batch: dict[str, np.ndarray], blurs: int) -> dict[str, np.ndarray]:
    """Images of some ids, uint8 [rows, SIZE, SIZE, 3], with the labels 0 to CLASSES - 1."""
    drawn = np.random.default_rng(int(batch["id"][0]))  # so that a task that runs again makes the same images
    images = drawn.integers(0, 256, (len(batch["id"]), SIZE, SIZE, 3)).astype(np.float32)
    for sigma in drawn.uniform(0.1, 2.0, blurs):
        images = gaussian_filter(images, (0, sigma, sigma, 0), radius=(0, 5, 5, 0))
    return {"image": images.astype(np.uint8), "label": batch["id"] % CLASSES, "id": batch["id"]}


def make_images(shard, images, batch_size, blurs):
    """The images of an epoch as a Ray data set. A task makes a batch, which is a block."""
    import ray

    ids = ray.data.range(images, override_num_blocks=max(1, images // batch_size))
    given = {"fn_kwargs": {"blurs": blurs}, "batch_size": batch_size}
    return ids.map_batches(prepared, **given, **tfhet.ray.DATA_HOSTS_FIRST)


class ViT(torch.nn.Module):
    """Four layers over the patches of an image. It takes float32 [batch, 3, SIZE, SIZE]."""

    def __init__(self):
        super().__init__()
        self.patches = torch.nn.Conv2d(3, WIDTH, PATCH, PATCH)
        self.places = torch.nn.Parameter(torch.zeros(1, (SIZE // PATCH) ** 2, WIDTH))
        layer = torch.nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0.0, batch_first=True, norm_first=True)
        self.layers = torch.nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
        self.head = torch.nn.Linear(WIDTH, CLASSES)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        tokens = self.patches(images).flatten(2).transpose(1, 2) + self.places
        return self.head(self.layers(tokens).mean(1))


def trainer():
    """A function that takes a step of the network, and the network."""
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    device = torch.device("cpu")
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    torch.manual_seed(0)
    model = DistributedDataParallel(ViT().to(device))
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)

    def step(batch):
        images = batch["image"].to(device, non_blocking=True).permute(0, 3, 1, 2).float() / 255
        loss = torch.nn.functional.cross_entropy(model(images), batch["label"].to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return step, model


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--images", type=int, default=1280, help="of an epoch")
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--blurs", type=int, default=10, help="of each image")
    parser.add_argument("--accelerator_ms", type=float, default=0.0, help="sleep as long instead of a step of the ViT")
    args = parser.parse_args()
    arguments = {"images": args.images, "batch_size": args.batch_size, "blurs": args.blurs}
    if args.accelerator_ms:
        loader = tfhet.batches(make_images, arguments=arguments, batch_size=args.batch_size)
        step, model = (lambda batch: time.sleep(1e-3 * args.accelerator_ms) or 0.0), None
    else:
        loader = tfhet.torch.loader(make_images, arguments=arguments, batch_size=args.batch_size)
        step, model = trainer()
    steps, loss = 0, 0.0
    for epoch in range(args.epochs):
        for batch in loader:
            loss, steps = step(batch), steps + 1
        print(f"epoch {epoch}: {steps} steps, loss {loss:.3f}", flush=True)
    if model is not None:
        weights = b"".join(value.cpu().numpy().tobytes() for value in model.state_dict().values())
        digest = hashlib.sha256(weights).hexdigest()[:16]
        print(f"rank={dist.get_rank()} steps={steps} weights={digest} counts={loader.counts}", flush=True)
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
