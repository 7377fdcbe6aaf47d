"""`tfhet try` of scripts that are written like public ones: loaders are compared, and the patch of each runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tfhet.watching.patch import Patch

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


OWN_DATASET = """
class Photos(torch.utils.data.Dataset):
    def __init__(self, transform=None):
        self.transform = transform
        self.files = [path for path, _ in datasets.ImageFolder("photos").samples]
    def __len__(self):
        return len(self.files)
    def __getitem__(self, index):
        with Image.open(self.files[index]) as image:
            return self.transform(image.convert("RGB")), index % 2


def main():
"""


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


def run(folder: Path, *words: str, **more: str) -> subprocess.CompletedProcess:
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), **more}
    return subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, timeout=LIMIT_S)


def tried(folder: Path, seconds: float = 8.0, **more: str) -> subprocess.CompletedProcess:
    words = (sys.executable, "-m", "tfhet", "try", "--seconds", str(seconds), "--json", "try.json", "--")
    return run(folder, *words, sys.executable, "train.py", **more)


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


def test_patch_of_each_loader_runs(script):
    folder = script()
    ended = tried(folder)
    assert ended.returncode == 0, ended.stderr
    found = json.loads((folder / "try.json").read_text())
    changes = {each["name"]: each["changes"] for each in found["loaders"]}
    both = "translated transform, num_workers="
    assert {"as it is", "translated transform", "tfhet.torch.loader(pipeline)"} <= changes.keys()
    assert "mean" in found["comparison"]
    content = (folder / "train.py").read_text().replace("range(1000)", "range(2)")
    for name in [each for each in changes if each.startswith((both, "tfhet"))]:
        (folder / "train.py").write_text(content)
        patch = Patch.of(changes[name], found["facts"]["places"])
        (folder / "patch").write_text(patch.text(folder).replace("range(1000)", "range(2)"))
        assert run(folder, "patch", "-p1", "-i", "patch").returncode == 0
        assert "tfhet.torch" in (folder / "train.py").read_text()
        trained = run(folder, sys.executable, "train.py")
        assert trained.returncode == 0, trained.stderr
        assert trained.stdout.splitlines() == [f"epoch {epoch} 20 torch.float32 (3, 64, 64)" for epoch in range(2)]


def test_dataset_and_arguments_of_another_form(script):
    """Arguments of the loader are packed, the loader is made again for each pass, and its dataset is in a Subset."""
    folder = script()
    content = (folder / "train.py").read_text().replace("\ndef main():\n", OWN_DATASET)
    for old, new in (
        ('datasets.ImageFolder(\n        "photos",', "Photos("),
        ("import torch\n", "import torch\nfrom PIL import Image\n"),
        ("train_dataset, batch_size=8, shuffle=True,", "torch.utils.data.Subset(train_dataset, range(96)),"),
        ("num_workers=args.workers, pin_memory=False)", "**options)"),
        (
            "train_loader =",
            'options = {"batch_size": 8, "num_workers": 1, "shuffle": True}\n    train_loader = lambda:',
        ),
        ("in train_loader:", "in train_loader():"),
        ("len(train_loader)", "12"),
    ):
        assert old in content
        content = content.replace(old, new)
    (folder / "train.py").write_text(content)
    ended = tried(folder)
    assert ended.returncode == 0, ended.stderr
    found = json.loads((folder / "try.json").read_text())
    loaders = {each["name"]: each["why_not"] for each in found["loaders"]}
    assert {"as it is", "translated transform"} <= loaders.keys()
    assert [each for each in loaders.values() if each and "steps were measured" not in each] == []
    assert found["comparison"]["images"] == 64


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("transforms.ToTensor()", "transforms.ToTensor(), transforms.Lambda(lambda x: x)", "it is a Python function"),
        ("range(1000)", "range(1)", "the script ended before the comparison did"),
        ("main()\n", "raise SystemExit(3)\n", "exit code 3"),
        (
            "for images, target in train_loader:",
            "for images, target in [next(iter(train_loader))] * 9:",
            "no DataLoader",
        ),
    ],
    ids=["untranslatable", "short", "failed", "unread"],
)
def test_what_cannot_be_compared_is_named(script, old, new, said):
    folder = script()
    content = (folder / "train.py").read_text().replace(old, new) if said != "exit code 3" else "raise SystemExit(3)\n"
    (folder / "train.py").write_text(content.replace("range(1000)", "range(3)") if "no Data" in said else content)
    ended = tried(folder, 3.0)
    assert said in ended.stdout + ended.stderr, ended.stdout + ended.stderr


def test_ranks_are_refused(script):
    ended = tried(script(), RANK="0", WORLD_SIZE="2", LOCAL_RANK="0")
    assert ended.returncode == 2
    assert "the script runs as 2 ranks" in ended.stderr
