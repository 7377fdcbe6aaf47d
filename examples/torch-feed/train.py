"""A PyTorch script whose images are prepared on the data hosts: digits in MNIST's shape, normalised and blurred.

Transforms and network are the ones of AWS's heterogeneous cluster example with PyTorch: ToTensor, Normalize,
GaussianBlur(11). Two lines belong to tfhet: the data set is made by the function `make_dataset`, and
`tfhet.torch.loader` replaces DataLoader and DistributedSampler.
"""

import argparse
import hashlib
import os

import numpy as np
import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch.nn.parallel import DistributedDataParallel

import tfhet.torch

VALIDATION = 360
AT = torch.arange(11, dtype=torch.float32) - 5


class Digits(torch.utils.data.Dataset):
    """Digits as float images [1, 28, 28]. copies: repetitions of the 1437 digits; blurs: blurs of each image."""

    def __init__(self, copies: int = 1, blurs: int = 1):
        images, labels = load_digits(return_X_y=True)
        order = np.random.default_rng(0).permutation(len(labels))[VALIDATION:]
        small = images[order].reshape(-1, 8, 8).astype(np.uint8) * 15
        self.images = np.kron(small, np.ones((1, 3, 3), np.uint8))
        self.images = np.pad(self.images, ((0, 0), (2, 2), (2, 2)))
        self.labels, self.copies, self.blurs = labels[order], copies, blurs

    def __len__(self) -> int:
        return len(self.labels) * self.copies

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        at = index % len(self.labels)
        image = torch.from_numpy(self.images[at]).float().unsqueeze(0) / 255  # ToTensor
        image = (image - 0.1307) / 0.3081  # Normalize
        for _ in range(self.blurs):
            image = blurred(image, 0.1 + 1.9 * float(torch.rand(())))  # GaussianBlur(11)
        return image, int(self.labels[at])


def blurred(image: torch.Tensor, sigma: float) -> torch.Tensor:
    """Blurs an image, float32 [1, height, width], with an 11 x 11 kernel."""
    weights = torch.exp(-0.5 * (AT / sigma) ** 2)
    weights = weights / weights.sum()
    padded = torch.nn.functional.pad(image[None], (5, 5, 5, 5), mode="reflect")
    return torch.nn.functional.conv2d(padded, (weights[:, None] * weights)[None, None])[0]


def make_dataset(shard, copies=1, blurs=1):
    """Runs on the data hosts."""
    torch.set_num_threads(1)  # each process uses one CPU
    return Digits(copies, blurs)


def network() -> torch.nn.Module:
    """The network of PyTorch's MNIST example."""
    return torch.nn.Sequential(
        *(torch.nn.Conv2d(1, 32, 3), torch.nn.ReLU(), torch.nn.Conv2d(32, 64, 3), torch.nn.ReLU()),
        *(torch.nn.MaxPool2d(2), torch.nn.Flatten(), torch.nn.Linear(9216, 128), torch.nn.ReLU()),
        torch.nn.Linear(128, 10),
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--copies", type=int, default=1)
    parser.add_argument("--blurs", type=int, default=1)
    args = parser.parse_args()
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    device = torch.device("cpu")
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    arguments = {"copies": args.copies, "blurs": args.blurs}
    loader = tfhet.torch.loader(make_dataset, arguments=arguments, batch_size=args.batch_size, shuffle=True)
    torch.manual_seed(0)
    model = DistributedDataParallel(network().to(device))
    optimizer = torch.optim.SGD(model.parameters(), 0.02 * dist.get_world_size(), momentum=0.5)
    steps = 0
    for epoch in range(args.epochs):
        for images, labels in loader:
            images, labels = images.to(device, non_blocking=True), labels.to(device, non_blocking=True)
            loss = torch.nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            steps += 1
        if dist.get_rank() == 0:
            print(f"epoch {epoch}: loss {loss.item():.3f}", flush=True)
    weights = b"".join(value.cpu().numpy().tobytes() for value in model.state_dict().values())
    digest = hashlib.sha256(weights).hexdigest()[:16]
    print(f"rank={dist.get_rank()} steps={steps} weights={digest} counts={loader.counts}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
