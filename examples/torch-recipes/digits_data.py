"""The data of the recipes: 1797 digits, 8 x 8. The data hosts import this module, and no training framework."""

import numpy as np
import torch
from sklearn.datasets import load_digits

VALIDATION = 360


class Digits(torch.utils.data.Dataset):
    """Training images with noise, or validation images, float32 [1, 8, 8], with labels."""

    def __init__(self, is_training: bool):
        images, labels = load_digits(return_X_y=True)
        order = np.random.default_rng(0).permutation(len(labels))
        self.ids = order[VALIDATION:] if is_training else order[:VALIDATION]
        self.images = torch.from_numpy(images.reshape(-1, 1, 8, 8)).float() / 16
        self.labels, self.is_training = labels, is_training

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        at = int(self.ids[index])
        image = self.images[at]
        if self.is_training:
            image = image + 0.1 * torch.randn(image.shape)
        return {"pixel_values": image, "labels": torch.tensor(int(self.labels[at]))}


def make_train(shard):
    """Called on the data hosts."""
    torch.set_num_threads(1)  # each process uses one CPU
    return Digits(is_training=True)


def make_validation(shard):
    return Digits(is_training=False)


def network() -> torch.nn.Module:
    return torch.nn.Sequential(
        *(torch.nn.Conv2d(1, 32, 3), torch.nn.ReLU(), torch.nn.Flatten()),
        *(torch.nn.Linear(1152, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10)),
    )
