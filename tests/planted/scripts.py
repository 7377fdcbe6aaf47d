"""The scripts, in the form of public ones. `{name}` is a parameter that `cases` draws. The model is a pause."""

from __future__ import annotations

COMMON = """
import argparse, os, random, time
import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset

class Net(nn.Module):
    def __init__(self, size=16):
        super().__init__()
        self.head = nn.Linear(size, 2)
    def forward(self, x):
        time.sleep({compute_ms} / 1e3)
        return self.head(x.float().flatten(1)[:, :16])

def train_one_epoch(model, loader, optimizer, criterion):
    model.train()
    for images, target in loader:
        loss = criterion(model(images), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

@torch.no_grad()
def validate(model, loader):
    model.eval()
    return sum((model(images).argmax(1) == target).sum().item() for images, target in loader)

def fit(loader, epochs, val_loader=None):
    model, criterion = Net(), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for epoch in range(epochs):
        train_one_epoch(model, loader, optimizer, criterion)
        if val_loader is not None:
            validate(model, val_loader)
"""
SLOW_DISK = """
from torchvision import datasets, transforms

def main():
    transform = transforms.Compose([transforms.RandomHorizontalFlip(), transforms.ToTensor()])
    train = datasets.ImageFolder("photos", transform)
    train.samples = train.samples * 3
    loader = DataLoader(train, {batch}, shuffle=True, num_workers=2, persistent_workers=True)
    fit(loader, 4)
"""
SLOW_DISK_OWN = """
class Photos(Dataset):
    def __init__(self, root):
        self.paths = sorted(os.path.join(at, name) for at, _, names in os.walk(root) for name in names) * 3
    def __len__(self):
        return len(self.paths)
    def load_image(self, path):
        with open(path, "rb") as file:
            return np.array(Image.open(file).convert("RGB"))
    def __getitem__(self, index):
        return torch.from_numpy(self.load_image(self.paths[index])).permute(2, 0, 1) / 255, index % 2

def main():
    loader = DataLoader(Photos("photos"), {batch}, shuffle=True, num_workers=2, persistent_workers=True)
    fit(loader, 4)
"""
SLOW_RANK = """
import torch.distributed as dist
from torch.utils.data.distributed import DistributedSampler

class Shards(Dataset):
    def __init__(self, rank):
        self.rank = rank
    def __len__(self):
        return 480
    def read(self, index):
        {work}
    def __getitem__(self, index):
        if self.rank == {slow}:
            self.read(index)
        return torch.full((16,), index / 480), index % 2

def main():
    dist.init_process_group("gloo")
    data = Shards(dist.get_rank())
    loader = DataLoader(data, 4, sampler=DistributedSampler(data), num_workers=1, persistent_workers=True)
    model, criterion = nn.parallel.DistributedDataParallel(Net()), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for epoch in range(2):
        loader.sampler.set_epoch(epoch)
        train_one_epoch(model, loader, optimizer, criterion)
    dist.destroy_process_group()
"""
TRANSFORM = """
class SaltAndPepper:
    def __init__(self, amount):
        self.amount = amount
    def __call__(self, image):
        pixels = image.flatten().tolist()
        for index in range({pixels}):
            if random.random() < self.amount:
                pixels[index % len(pixels)] = random.choice((0.0, 1.0))
        return torch.tensor(pixels).view(image.shape)

class Images(Dataset):
    def __init__(self, transform):
        self.data, self.transform = torch.rand({count}, 3, 24, 24), transform
    def __len__(self):
        return len(self.data)
    def __getitem__(self, index):
        return self.transform(self.data[index]), index % 2

def main():
    loader = DataLoader(Images(SaltAndPepper(0.05)), 4, shuffle=True, num_workers=2, persistent_workers=True)
    fit(loader, 3)
"""
FEW_WORKERS = """
class Images(Dataset):
    def __len__(self):
        return {count}
    def __getitem__(self, index):
        image = Image.new("RGB", ({side}, {side}), (index % 255, 0, 0)).resize((256, 256), Image.BICUBIC)
        return torch.from_numpy(np.array(image)).permute(2, 0, 1) / 255, index % 2

def main():
    loader = DataLoader(Images(), 4, shuffle=True, num_workers={workers}, persistent_workers={workers} > 0)
    fit(loader, 3)
"""
OPENCV = """
import cv2
cv2.setNumThreads({threads})

class Images(Dataset):
    def __len__(self):
        return 120
    def __getitem__(self, index):
        image = np.full(({side}, {side}, 3), index, np.uint8)
        image = cv2.GaussianBlur(image, (0, 0), 3)
        image = cv2.resize(image, (224, 224), interpolation=cv2.INTER_AREA)
        return torch.from_numpy(image).permute(2, 0, 1), index % 2

def main():
    loader = DataLoader(Images(), 4, shuffle=True, num_workers=2, persistent_workers=True)
    fit(loader, 3)
"""
COLLATE = """
class Sentences(Dataset):
    def __len__(self):
        return 120
    def __getitem__(self, index):
        return list(range({length} - index % 50)), index % 2

def pad_and_mask(samples):
    longest = max(len(tokens) for tokens, _ in samples)
    batch = []
    for tokens, _ in samples:
        row = []
        for position in range(longest):
            row.append(tokens[position] % 97 / 97 if position < len(tokens) and random.random() > 0.15 else 0.0)
        batch.append(row)
    return torch.tensor(batch), torch.tensor([label for _, label in samples])

def main():
    loader = DataLoader(Sentences(), 4, shuffle=True, num_workers=2, persistent_workers=True, collate_fn=pad_and_mask)
    fit(loader, 3)
"""
COLD_CACHE = """
class Cached(Dataset):
    def __init__(self):
        self.cache = {{}}
    def __len__(self):
        return {count}
    def decode(self, index):
        time.sleep({decode_ms} / 1e3)
        return torch.full((3, 32, 32), index / 255)
    def __getitem__(self, index):
        if index not in self.cache:
            self.cache[index] = self.decode(index)
        return self.cache[index], index % 2

def main():
    fit(DataLoader(Cached(), 4, shuffle=True), {epochs})
"""
COLD_CACHE_DISK = """
class Cached(Dataset):
    def __len__(self):
        return {count}
    def decode(self, index):
        time.sleep(2 * {decode_ms} / 1e3)
        return np.full((3, 32, 32), index / 255, np.float32)
    def __getitem__(self, index):
        path = f"cache/{{index}}.npy"
        if not os.path.exists(path):
            np.save(path, self.decode(index))
        return torch.from_numpy(np.load(path)), index % 2

def main():
    os.makedirs("cache", exist_ok=True)
    loader = DataLoader(Cached(), 4, shuffle=True, num_workers=2, persistent_workers=True)
    fit(loader, {epochs})
"""
VALIDATION = """
class Images(Dataset):
    def __init__(self, count, wait_ms):
        self.count, self.wait_ms = count, wait_ms
    def __len__(self):
        return self.count
    def __getitem__(self, index):
        if self.wait_ms:
            time.sleep(self.wait_ms / 1e3)
        return torch.full((3, 16, 16), index / 255), index % 2

def main():
    train = DataLoader(Images(160, 0), 4, shuffle=True)  # in memory
    fit(train, 3, DataLoader(Images({count}, {wait_ms}), {val_batch}))
"""
RESTARTS = """
class Images(Dataset):
    def __len__(self):
        return {count}
    def __getitem__(self, index):
        return torch.full((3, 16, 16), index / 255), index % 2

def open_index(worker):
    time.sleep({init_ms} / 1e3)

def main():
    loader = DataLoader(Images(), 4, shuffle=True, num_workers=2, worker_init_fn=open_index)
    fit(loader, 8)
"""
STALLS = """
class Scans(Dataset):
    def __len__(self):
        return 400
    def open_scan(self, index):
        time.sleep({slow_ms} / 1e3 if index % {every} == 7 else 0.0)
        return torch.full((3, 16, 16), index / 400)
    def __getitem__(self, index):
        return self.open_scan(index), index % 2

def main():
    loader = DataLoader(Scans(), 4, shuffle=True, num_workers=2, persistent_workers=True)
    fit(loader, 2)
"""
MAIN = """
if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
"""
SLOW_OPEN = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static void wait_for(const char *path) {
  size_t length = strlen(path);
  if (length > 4 && !strcmp(path + length - 4, ".jpg")) usleep(1000 * atoi(getenv("SLOW_OPEN_MS")));
}
#define SLOW(name)                                                      \\
  int name(const char *path, int flags, ...) {                          \\
    va_list rest;                                                       \\
    va_start(rest, flags);                                              \\
    mode_t mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0;           \\
    va_end(rest);                                                       \\
    wait_for(path);                                                     \\
    return ((int (*)(const char *, int, ...))dlsym(RTLD_NEXT, #name))(path, flags, mode); \\
  }
SLOW(open)
SLOW(open64)
"""
"""A library for LD_PRELOAD whose files `*.jpg` wait when they are opened, like a disk behind a network."""
