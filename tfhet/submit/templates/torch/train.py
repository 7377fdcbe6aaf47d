"""A training script. For tfhet, a function makes the data set, and `tfhet.torch.loader` reads it. The data, a grey
level for each class, stand for yours."""

import os

import torch

import tfhet.torch


class Images(torch.utils.data.Dataset):  # stands for a data set of yours: noisy images of ten classes
    def __len__(self):
        return 2560

    def __getitem__(self, index):
        label = index % 10
        return label / 5 - 1 + torch.randn(3, 32, 32), label


def make_dataset(shard):  # the data hosts call it
    return Images()


if __name__ == "__main__":
    loader = tfhet.torch.loader(make_dataset, batch_size=32, shuffle=True)
    model = torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(3, 10))
    optimizer = torch.optim.Adam(model.parameters(), 0.1)
    for epoch in range(3):
        loader.set_epoch(epoch)
        for images, labels in loader:
            loss = torch.nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: loss {loss.item():.3f}", flush=True)
    torch.save(model.state_dict(), os.path.join(os.environ.get("SM_MODEL_DIR", "."), "model.pt"))
