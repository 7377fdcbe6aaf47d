"""`tfhet watch` of scripts that are written like public ones, against a stopwatch that is written into each script."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tfhet.record import RunFolder, measured_steps, wait_pct

pytestmark = [pytest.mark.torch, pytest.mark.timeout(300)]
pytest.importorskip("torch")

COMMON = """
import json, os, time
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
torch.set_num_threads(1)

class Photos(Dataset):
    def __init__(self, count, ms, as_dict=False):
        self.count, self.ms, self.as_dict = count, ms, as_dict
    def __len__(self):
        return self.count
    def __getitem__(self, index):
        image = self.augment(torch.full((8,), index / 100))
        return {"x": image, "labels": index % 2} if self.as_dict else (image, index % 2)
    def augment(self, image):
        time.sleep(self.ms / 1e3)
        return image

class Stopwatch:
    def __init__(self):
        self.waits, self.steps = [], []
    def over(self, batches):
        began = time.monotonic()
        for batch in batches:
            wait = time.monotonic() - began
            yield batch
            now = time.monotonic()
            self.waits.append(wait); self.steps.append(now - began)
            began = now
    def write(self):
        with open(f"stopwatch-{os.environ.get('RANK', 0)}.json", "w") as file:
            json.dump([self.waits, self.steps], file)

stopwatch = Stopwatch()
WORKERS = dict(json.loads(os.environ.get("WORKERS", "{}")))
"""
SETUP = """
model, criterion = nn.Linear(8, 2), nn.CrossEntropyLoss()
optimizer = torch.optim.AdamW(model.parameters())
train, val = DataLoader(Photos(96, 2.0), 4, shuffle=True, **WORKERS), DataLoader(Photos(16, 2.0), 4)
"""
PLAIN = """
for epoch in range(3):
    for images, labels in stopwatch.over(train):
        optimizer.zero_grad()
        criterion(model(images), labels).backward()
        optimizer.step()
        time.sleep(0.01)
    for images, labels in val:  # without no_grad, as many scripts forget
        model(images)
"""
AMP = """
scaler = torch.amp.GradScaler("cpu")
for epoch in range(3):
    model.train()
    for images, labels in stopwatch.over(train):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = criterion(model(images), labels)
        scaler.scale(loss).backward(); scaler.step(optimizer); scaler.update(); optimizer.zero_grad()
        time.sleep(0.01)
    model.eval()
    with torch.no_grad():
        for images, labels in val:
            model(images)
"""
ACCUMULATION = """
for epoch in range(3):
    for index, (images, labels) in enumerate(stopwatch.over(train)):
        (criterion(model(images), labels) / 4).backward()
        time.sleep(0.01)
        if index % 4 == 3:
            optimizer.step(); optimizer.zero_grad()
    with torch.inference_mode():
        for images, labels in val:
            model(images)
"""
NUMPY = """
weights = 0.0
with torch.set_grad_enabled(True):
    for epoch in range(3):
        for images, labels in stopwatch.over(train):
            weights -= 0.01 * images.numpy().sum()
            time.sleep(0.01)
"""
RANKS = """
import torch.distributed as dist
from torch.utils.data import DistributedSampler
dist.init_process_group("gloo")
photos = Photos(192, 1.0 + dist.get_rank())
train = DataLoader(photos, 4, sampler=DistributedSampler(photos))
model = nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
for epoch in range(3):
    for images, labels in stopwatch.over(train):
        optimizer.zero_grad(); criterion(model(images), labels).backward(); optimizer.step(); time.sleep(0.01)
dist.destroy_process_group()
"""
LIGHTNING = """
import lightning
class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 2)
    def training_step(self, batch, index):
        time.sleep(0.01)
        return nn.functional.cross_entropy(self.layer(batch[0]), batch[1])
    def validation_step(self, batch, index):
        self.layer(batch[0])
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.01)
off = dict(logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
lightning.Trainer(max_epochs=3, accelerator="cpu", **off).fit(Module(), train, val)
"""
HUGGING_FACE = """
import transformers
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 2)
    def forward(self, x, labels):
        time.sleep(0.01)
        return {"loss": nn.functional.cross_entropy(self.layer(x), labels), "logits": self.layer(x)}
arguments = transformers.TrainingArguments(
    "out-hf", num_train_epochs=3, per_device_train_batch_size=4, per_device_eval_batch_size=4, use_cpu=True,
    eval_strategy="epoch", save_strategy="no", report_to=[], disable_tqdm=True, logging_strategy="no")
transformers.Trainer(Net(), arguments, train_dataset=Photos(96, 2.0, True), eval_dataset=Photos(16, 2.0, True)).train()
"""


def watch(folder: Path, code: str, *program: str, setup: str = SETUP, **workers: object):
    """Watches a script; returns its summary. The stopwatch of each rank is in `folder`."""
    body = "\n".join(f"    {line}" for line in f"{setup}{code}\nstopwatch.write()".splitlines())
    (folder / "train.py").write_text(f"{COMMON}\nif __name__ == '__main__':\n{body}\n")
    root = Path(__file__).parents[2]
    env = {**os.environ, "PYTHONPATH": str(root), "WORKERS": json.dumps(workers), "OMP_NUM_THREADS": "1"}
    words = [sys.executable, "-m", "tfhet", "watch", "--out", "out", "--", *(program or (sys.executable,)), "train.py"]
    found = subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, timeout=240)
    assert found.returncode == 0, found.stderr[-2000:]
    assert not (folder / "out" / "logs" / "watch.log").exists(), (folder / "out" / "logs" / "watch.log").read_text()
    return RunFolder(folder / "out").read_summary()


def check(folder: Path, found, rank: int = 0) -> None:
    """The waiting is within 2 points of the stopwatch, the step within 3 %.

    Both read the same clock in the same steps, some 30 microseconds apart. A busy machine may interrupt the script
    between the two readings: the tenth of the steps in which they differ most is not compared.
    """
    timed = list(zip(*json.loads((folder / f"stopwatch-{rank}.json").read_text()), strict=True))[3:]
    steps = measured_steps([step for step in RunFolder(folder / "out").timeline().steps if step.rank == rank])
    assert found.by_rank[rank]["steps"] == len(timed) + 3
    pairs = sorted(zip(steps, timed, strict=True), key=lambda pair: abs(pair[0].wait_s - pair[1][0]))
    kept = pairs[: len(pairs) - len(pairs) // 10]
    waits_s, durs_s = (sum(each[1][at] for each in kept) for at in range(2))
    assert abs(wait_pct([step for step, _ in kept]) - 100 * waits_s / durs_s) < 2
    median_ms = 1e3 * sorted(dur_s for _, dur_s in timed)[len(timed) // 2]
    assert abs(found.by_rank[rank]["step_ms"] / median_ms - 1) < 0.03


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(PLAIN, id="plain"),
        pytest.param(AMP, id="amp", marks=pytest.mark.slow),
        pytest.param(ACCUMULATION, id="accumulation"),
        pytest.param(NUMPY, id="numpy", marks=pytest.mark.slow),
    ],
)
def test_waiting_is_equal_to_a_stopwatch(tmp_path, code):
    found = watch(tmp_path, code)
    check(tmp_path, found)
    assert found.watched["settings"]["num_workers"] == 0 and found.batch_size == 4
    assert found.watched["other_batches"] == (0 if code == NUMPY else 12)


@pytest.mark.parametrize(
    "workers",
    [
        pytest.param({"num_workers": 2}, id="fork"),
        pytest.param({"num_workers": 1, "persistent_workers": True}, id="persistent", marks=pytest.mark.slow),
        pytest.param(
            {"num_workers": 1, "multiprocessing_context": "spawn", "persistent_workers": True},
            id="spawn",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_workers_are_no_ranks_and_name_their_functions(tmp_path, workers):
    found = watch(tmp_path, PLAIN, **workers)
    check(tmp_path, found)
    assert found.ranks == 1 and found.watched["where_role"] == "worker"
    assert found.watched["where"][0]["what"] == "Photos.augment in train.py"


def test_two_ranks_of_torchrun(tmp_path):
    found = watch(tmp_path, RANKS, sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2")
    assert found.ranks == 2
    for rank in range(2):
        check(tmp_path, found, rank)


@pytest.mark.slow
@pytest.mark.skipif(find_spec("lightning") is None, reason="needs Lightning")
def test_lightning(tmp_path):
    found = watch(tmp_path, LIGHTNING)
    assert found.steps == 72 and found.watched["other_batches"] == 12 + 2  # two batches check the validation first
    assert 30 < found.wait_pct < 60


@pytest.mark.slow
@pytest.mark.skipif(find_spec("transformers") is None or find_spec("accelerate") is None, reason="needs Transformers")
def test_hugging_face_trainer(tmp_path):
    found = watch(tmp_path, HUGGING_FACE)
    assert found.steps == 72 and found.watched["other_batches"] == 12
    assert found.watched["reader"] == "DataLoader of accelerate"
    assert 30 < found.wait_pct < 60
