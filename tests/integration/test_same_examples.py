"""The augmented examples of an epoch do not depend on the cluster that prepares them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytestmark = [pytest.mark.horovod, pytest.mark.timeout(240)]

EXAMPLES = 203


def united(paths: list[Path]) -> dict[str, np.ndarray]:
    """The columns of all ranks' files together, in the order of (epoch, id)."""
    files = [np.load(path) for path in paths]
    columns = {name: np.concatenate([file[name] for file in files]) for name in files[0].files}
    order = np.lexsort((columns["id"], columns["epoch"]))
    return {name: column[order] for name, column in columns.items()}


@pytest.fixture(scope="module")
def local(tmp_path_factory, script, repository) -> dict[str, np.ndarray]:
    """The examples as a plain process without a launcher makes them."""
    folder = tmp_path_factory.mktemp("local")
    env = {**os.environ, "SM_OUTPUT_DATA_DIR": str(folder), "PYTHONPATH": str(repository)}
    command = [sys.executable, str(script("epoch_to_file")), "--marker", str(folder / "marker")]
    subprocess.run(command, env=env, check=True, timeout=100)
    return united([folder / "examples-0.npz"])


def test_plain_process_sees_each_example_once(local):
    seen = list(zip(local["epoch"], local["id"], strict=True))
    assert seen == sorted(set(seen))
    assert np.bincount(local["epoch"]).tolist() == [EXAMPLES, EXAMPLES]
    drawn = {name: column for name, column in local.items() if "/" in name and column.dtype == np.float32}
    first, second = (next(c for n, c in drawn.items() if n.startswith(f"random_rotation:{at}/")) for at in (4, 5))
    assert not np.any(first == second) and abs(np.corrcoef(first, second)[0, 1]) < 0.2
    for column in drawn.values():  # no two epochs share their draws
        assert not np.any(column[:EXAMPLES] == column[EXAMPLES:])


def test_unequal_ranks_get_the_examples_of_a_plain_process(simulated, script, local, tmp_path):
    """Two ranks with three workers on two hosts."""
    extra = ["--train_script", script("epoch_to_file"), "--marker", tmp_path / "marker"]
    run = simulated("--data_host_workers", 2, "--dnn_host_workers", 1, *extra, channels={})
    assert run.summary.exit_code == 0, run.summary.cause
    files = run.output("examples-*.npz")
    first, second = (len(np.load(path)["id"]) for path in files)
    assert first < second
    served = united(files)
    assert served.keys() == local.keys()
    for name in sorted(served.keys() - {"image"}):  # ids, labels, epochs, and what was drawn, bit for bit
        np.testing.assert_array_equal(served[name], local[name], err_msg=name)
    grey_levels = np.abs(served["image"].astype(np.float64) - local["image"]) * 255
    assert grey_levels.max() <= 1.001
