"""`tfhet try` of scripts that are written like public ones: the fastest loader is found, and its patch runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytestmark = [pytest.mark.torch, pytest.mark.timeout(400)]
pytest.importorskip("torch")
pytest.importorskip("torchvision")
Image = pytest.importorskip("PIL.Image")

LIMIT_S = 300
SCRIPT = '''"""Trains on photos."""
from __future__ import annotations

import argparse

import torch
from torch import nn
from torchvision import datasets, transforms

parser = argparse.ArgumentParser()
parser.add_argument("--workers", type=int, default=0)


def main():
    args = parser.parse_args()
    torch.set_num_threads(1)
    normalize = transforms.Normalize(mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225])
    train_dataset = datasets.ImageFolder(
        "photos",
        transforms.Compose([
            transforms.RandomResizedCrop(64),
            transforms.RandomHorizontalFlip(),
            transforms.ToTensor(),
            normalize,
        ]))
    train_loader = torch.utils.data.DataLoader(
        train_dataset, batch_size=8, shuffle=True,
        num_workers=args.workers, pin_memory=False)
    model, criterion = nn.Linear(3 * 64 * 64, 2), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), 1e-4)
    for epoch in range(EPOCHS):
        for images, target in train_loader:
            loss = criterion(model(images.flatten(1)), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print("epoch", epoch, len(train_loader), images.dtype, tuple(images.shape[1:]), flush=True)


if __name__ == "__main__":
    main()
'''


@pytest.fixture(scope="module")
def photos(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("data") / "photos"
    random = np.random.default_rng(0)
    for index in range(160):
        path = folder / ("cats", "dogs")[index % 2] / f"{index}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        coarse = Image.fromarray(random.integers(0, 256, (12, 16, 3), np.uint8))
        coarse.resize((500, 375)).save(path, quality=90)
    return folder


def run(folder: Path, *words: str) -> subprocess.CompletedProcess:
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    return subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, timeout=LIMIT_S)


def tried(folder: Path, seconds: float = 8.0) -> subprocess.CompletedProcess:
    words = (sys.executable, "-m", "tfhet", "try", "--seconds", str(seconds), "--json", "try.json", "--")
    return run(folder, *words, sys.executable, "train.py")


@pytest.fixture
def script(tmp_path, photos):
    """Returns a function that writes the script with changes."""
    (tmp_path / "photos").symlink_to(photos)

    def write(epochs: int = 1000, **changes: str) -> Path:
        content = SCRIPT.replace("EPOCHS", str(epochs))
        for old, new in changes.items():
            content = content.replace(old, new)
        (tmp_path / "train.py").write_text(content)
        return tmp_path

    return write


def test_patch_of_the_fastest_loader_runs(script):
    folder = script()
    ended = tried(folder)
    assert ended.returncode == 0, ended.stderr
    loaders = {each["name"]: each for each in json.loads((folder / "try.json").read_text())["loaders"]}
    assert [each["why_not"] for each in loaders.values()] == [""] * len(loaders)
    assert len(loaders) >= 3, ended.stdout
    assert "translated transform" in loaders
    patch = (folder / "tfhet-try.patch").read_text()
    assert "+import tfhet.torch\n" in patch
    (folder / "train.py").write_text((folder / "train.py").read_text().replace("range(1000)", "range(2)"))
    applied = run(folder, "patch", "-p1", "-i", "tfhet-try.patch")
    assert applied.returncode == 0, applied.stdout
    trained = run(folder, sys.executable, "train.py")
    assert trained.returncode == 0, trained.stderr
    assert trained.stdout.splitlines() == [f"epoch {epoch} 20 torch.float32 (3, 64, 64)" for epoch in range(2)]
