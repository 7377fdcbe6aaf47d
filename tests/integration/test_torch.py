"""Whole jobs of PyTorch's ranks: scripts for torchrun run unchanged, and however a job ends, its cause is named."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest

from tfhet.cluster import free_ports

pytestmark = [pytest.mark.torch, pytest.mark.timeout(240)]

TORCH = ("--strategy", "torch", "--lease_s", 4)
TWO_BY_TWO = {"data": 0, "dnn": 2, "ranks": 2, "channels": {}}
TRAINER = ("4", "2", "--batch_size", "16")
"""The arguments of torch_trainer.py."""


def test_example_trains_with_equal_weights(simulated, repository):
    script = repository / "examples" / "torch-ddp" / "train.py"
    run = simulated(*TORCH, "--train_script", script, **TWO_BY_TWO)
    assert run.summary.exit_code == 0, run.summary.cause
    assert set(run.summary.exit_codes.values()) == {0}
    found = run.found(r"rank=(\d) of 4 accuracy=(\S+) weights=(\w+)")
    assert sorted(rank for rank, _, _ in found) == ["0", "1", "2", "3"]
    assert len({weights for _, _, weights in found}) == 1
    assert all(float(accuracy) > 0.9 for _, accuracy, _ in found)


def test_torchrun_script_gets_the_same_weights(simulated, script, tmp_path):
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "4", "--master_port"]
    command = [*torchrun, str(free_ports(1)[0]), str(script("torch_trainer")), *TRAINER]
    alone = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)
    assert alone.returncode == 0, alone.stderr[-2000:]
    weights = {line.split()[1] for line in alone.stdout.splitlines() if line.startswith("rank=")}
    assert len(weights) == 1
    run = simulated(*TORCH, "--train_script", script("torch_trainer"), *TRAINER, **TWO_BY_TWO)
    assert run.summary.exit_code == 0, run.summary.cause
    found = run.found(r"rank=(\d) (weights=\S+) launched=(\w+)")
    assert len(found) == 4
    assert {each for _, each, _ in found} == weights
    assert {launched for _, _, launched in found} == {"True"}
    assert [path.name for path in run.hosts.glob("*/model/*")] == ["snapshot.pt"], "rank 0's"


def test_feed_example_trains_alike_on_all_ranks(simulated, repository):
    script = repository / "examples" / "torch-feed" / "train.py"
    words = ("--data_plane", "feed", "--data_host_processes", 2, "--train_script", script, "--epochs", 2)
    run = simulated(*TORCH, *words, data=1, ranks=2, channels={})
    assert run.summary.exit_code == 0, run.summary.cause
    found = run.found(r"rank=(\d) steps=(\d+) weights=(\w+)")
    assert sorted(rank for rank, _, _ in found) == ["0", "1"]
    assert {steps for _, steps, _ in found} == {str(2 * (-(-1437 // 32) // 2))}
    assert len({weights for _, _, weights in found}) == 1
    assert [(epoch["repeated"], epoch["expected"]) for epoch in run.summary.epochs] == [(0, 1437)] * 2
    assert not any("tensorflow" in line.lower() for line in run.lines), "none of its processes loads it"


def test_loaders_of_usual_scripts_deliver_their_examples(simulated, script):
    words = ("--data_plane", "feed", "--data_host_processes", 1, "--train_script", script("torch_scenarios"))
    run = simulated(*TORCH, *words, data=2, ranks=2, channels={})
    assert run.summary.exit_code == 0, run.summary.cause
    found = {name: json.loads(values) for name, values in run.found(r"(\w[\w-]*)=(\[.*\])$")}
    for name in ("validation-0", "validation-1"):
        assert found.pop(name) == [*range(1000, 1037)]
    assert sorted(found.pop("part-0") + found.pop("part-1")) == found.pop("stream") == [*range(101)]
    weighted = found.pop("weighted")
    assert len(weighted) == 96 and {*weighted} <= {*range(10)}
    second = [value - 500 for value in found.pop("second")]
    assert sorted(found) == ["first", "resumed", "texts", "training-0", "training-1"]
    for values in (second, *found.values()):  # two ranks get six of 13 batches each
        assert len({*values}) == len(values) == 96 and {*values} <= {*range(101)}


DDP = """
import torch, torch.distributed as dist
import tfhet.torch

class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 256
    def __getitem__(self, index):
        return torch.tensor([float(index)])

def make(shard):
    return Numbers()

if __name__ == "__main__":
    dist.init_process_group("gloo")
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1))
    for batch in tfhet.torch.loader(make, batch_size=32, shuffle=True):
        model(batch)
"""


def test_script_of_torchrun_is_profiled(tmp_path, repository):
    (tmp_path / "train.py").write_text(DDP)
    command = [sys.executable, "-m", "tfhet", "profile", "--script", "train.py", "--budget_s", "0.1", "--repeats", "2"]
    env = {**os.environ, "PYTHONPATH": str(repository)}
    found = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=200, check=False)
    assert found.returncode == 0, found.stderr[-2000:]
    assert "the whole" in found.stdout


def test_tensors_share_memory_with_arrays():
    import torch

    import tfhet.torch

    array = np.arange(6, dtype=np.float32)
    made = tfhet.torch.tensors({"x": (array, ["a"]), "n": 3, "text": np.array(["b"])})
    array[0] = 7
    assert isinstance(made["x"][0], torch.Tensor) and made["x"][0][0] == 7
    assert made["x"][1] == ["a"] and made["n"] == 3 and made["text"].tolist() == ["b"]


def test_tensors_share_the_received_memory():
    """PyTorch gives pinned memory out again while a copy from it is under way, unless it knows that the tensor which
    is copied is a part of that memory."""
    import torch

    import tfhet.torch
    from tfhet.planes.feed.frame import BatchLayout, joined, packed
    from tfhet.planes.feed.message import Alive

    batch = {
        "index": np.arange(5, dtype=np.int64),
        "image": np.arange(60, dtype=np.float32).reshape(3, 4, 5),
        "is_last": np.array([True, False]),
        "step": np.float16(3),
    }
    tree, buffers = packed(batch)
    received = b"".join(joined([(Alive(), buffers)])[1][0])
    whole = torch.empty(len(received) + 8, dtype=torch.uint8)
    memory = whole.numpy()[: len(received)]
    memory[:] = np.frombuffer(received, np.uint8)
    made = tfhet.torch.tensors(BatchLayout(tree).batch(memory))
    for name, array in batch.items():
        assert np.array_equal(made[name].numpy(), array) and made[name].numpy().dtype == array.dtype
        assert made[name].untyped_storage().data_ptr() == whole.data_ptr()


def numbers(shard):
    return range(8)


def test_loader_has_the_attributes_of_a_dataloader():
    import torch

    import tfhet.torch

    loader = tfhet.torch.loader(numbers, batch_size=2, shuffle=True)
    expected = [name for name in vars(torch.utils.data.DataLoader([1])) if name[0] != "_"]
    assert len(expected) > 10 and [name for name in expected if not hasattr(loader, name)] == []


def test_odd_strides_become_tensors():
    import tfhet.torch

    array = np.arange(12).reshape(3, 4)
    for odd in (array[::-1], array.T, array[:, 1:3]):
        assert np.array_equal(tfhet.torch.tensors(odd).numpy(), odd)


@pytest.mark.slow
@pytest.mark.matrix
@pytest.mark.parametrize(
    ("how", "faults", "code", "cause"),
    [
        ("exit", (), 3, r", rank 1: exit code 3"),
        ("raise", (), 1, r", rank 1: exit code 1: .*the loss is not a number"),
        ("kill", (), 137, r", rank 1: SIGKILL"),
        ("hang", (), 1, r", rank [023]: .*Timed out waiting 8000ms .*; it may have waited for rank 1$"),
        ("absent", (), 1, r", rank [023]: .*DistStoreError.*; it may have waited for rank 1$"),
        ("wait", ("kill:host@dnn-2:from=scripts:after=8",), 1, r"rank-[23] was lost|the launcher of rank"),
        ("wait", ("hang:host@dnn-2:from=scripts:after=8",), 1, r"rank-[23] was lost"),
        ("wait", ("sigterm:launcher@dnn-2:from=scripts:after=8",), 143, r"was asked to stop \(SIGTERM\)"),
    ],
    ids=["exit", "raise", "kill", "hang", "absent", "host lost", "host frozen", "SIGTERM"],
)
def test_every_end_names_the_first_cause(simulated, script, how, faults, code, cause):
    arguments = ("--train_script", script("torch_ends"), "--how", how, "--timeout_s", 8 if how != "wait" else 1800)
    run = simulated(*TORCH, *arguments, faults=faults, **TWO_BY_TWO)
    assert run.summary.exit_code == code
    assert re.search(cause, run.summary.cause), run.summary.cause
    lost = run.summary.cluster["homogeneous"]["hosts"][1] if "host" in "".join(faults) else ""
    assert {own for member, own in run.summary.exit_codes.items() if member != lost} == {code}
    assert not run.summary.failures, "what others printed is a consequence"


@pytest.mark.slow
@pytest.mark.parametrize("starter", ["torchrun", "mpirun"])
def test_ranks_of_torchrun_and_mpirun_meet(tmp_path, repository, script, starter):
    if shutil.which("mpirun") is None and starter == "mpirun":
        pytest.skip("mpirun is not installed")
    groups = [{"instance_group_name": "dnn_group", "instance_type": "ml.m5.large", "hosts": ["algo-1"]}]
    env = {
        **os.environ,
        "PYTHONPATH": str(repository),
        "SAGEMAKER_BASE_DIR": str(tmp_path),
        "SM_RESOURCE_CONFIG": json.dumps({"current_host": "algo-1", "instance_groups": groups}),
        "TFHET_PORTS": json.dumps({"control": free_ports(1)[0]}),
    }
    (tmp_path / "output").mkdir()
    launcher = [str(repository / "scripts" / "launcher.py"), "--train_script", str(script("torch_ends"))]
    if starter == "torchrun":
        port = str(free_ports(1)[0])
        command = ["-m", "torch.distributed.run", "--nproc_per_node", "2", "--master_port", port, *launcher]
    else:
        command = [*launcher, "--strategy", "torch"]
    with_mpi = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "2"] * (starter == "mpirun")
    for how, code, cause in (("done", 0, ""), ("exit", 3, "rank 1: exit code 3")):
        words = [*with_mpi, sys.executable, *command, "--how", how]
        done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=100, check=False)
        print(done.stdout, done.stderr)
        assert f"rank 1 of 2 (started by {starter})" in done.stdout + done.stderr
        failure = tmp_path / "output" / "failure"
        assert bool(done.returncode) == failure.exists() == bool(code)
        assert not code or cause in failure.read_text()
