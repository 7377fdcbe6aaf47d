"""Training scripts of the shapes that guides and examples have see, when they are distributed, what they see alone.

Compared are the examples of each pass, the batches of each rank and pass, the exit code, and the step time that the
run reports with the script's own stopwatch.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from faults.job import ROOT, FinishedJob, run_job
from keras_version import IS_KERAS_3

from differential.judge import Shape, problems
from differential.reading import Reading
from differential.row import ROLES, Row
from tfhet.simulate import ClusterFile, GroupFile

FOLDER = Path(__file__).parent / "scripts"
LIMIT_S = 120.0
STEP_SLACK, STEP_SLACK_MS = 0.3, 10.0
"""By how much the reported step time may differ from the stopwatch: the larger one."""
FEED, TORCH = ("--data_plane", "feed"), ("--strategy", "torch", "--data_plane", "feed")
MULTI_WORKER = ("--strategy", "multi_worker")


@dataclass(frozen=True)
class Script:
    """A script, and what it may differ in; see `Row`."""

    name: str
    arguments: tuple[str, ...] = ()
    holds: int = 0
    own_batches: bool = False
    ranks: tuple[int, ...] = (1, 2)
    sees_all: bool = False
    """Whether each rank counts the examples of all ranks, as Keras does in a strategy of TensorFlow."""
    advice: str = ""
    """Words of the refusal under Keras 3, which name what another script of the table does; empty: it runs."""

    @property
    def row(self) -> Row:
        return Row(lambda files: None, holds=self.holds, own_batches=self.own_batches)


SCRIPTS = [
    Script("keras_arrays", holds=64),
    Script("keras_images", holds=16),
    Script("keras_records", holds=8, own_batches=True),
    Script("keras_csv", holds=8, own_batches=True),
    Script("keras_text", holds=16),
    Script("keras_peek"),
    Script("keras_two_phases", holds=16),
    Script("keras_endless"),
    Script("keras_evaluate"),
    Script("keras_callbacks", holds=16),
    Script("keras_weights", holds=16),
    Script("keras_step_callback"),
    Script(
        "keras_multi_worker",
        ("--strategy", "multi_worker"),
        holds=16,
        ranks=(2,),
        sees_all=True,
        advice="in a custom loop",
    ),
    Script("loop_multi_worker", MULTI_WORKER, holds=16, ranks=(2,), sees_all=True),
    Script("loop_tape", holds=16),
    Script("loop_iterator", holds=8),
    Script("loop_graph"),
    Script("loop_steps"),
    Script("loop_pipeline", own_batches=True),
    Script("loop_function", FEED, own_batches=True),
    Script("torch_loop", (*TORCH, "--check_weights", "off")),  # each rank trains alone: the script is for one
    Script("torch_ddp", TORCH),
    Script("torch_collated", TORCH, own_batches=True),
    Script("torch_iterable", TORCH, own_batches=True, holds=16),
]
TORCH_QUICK = "data2_ranks2"
"""The cluster on which PyTorch's lane runs its scripts; all others are slow and take turns."""


def cases() -> list[Any]:
    """Each script on each cluster; the tests of PyTorch need its environment."""
    found = []
    for script in SCRIPTS:
        for shape in (Shape(hosts, ranks) for hosts in (1, 2) for ranks in script.ranks):
            is_torch = script.name.startswith("torch")
            marks = [pytest.mark.torch if is_torch else pytest.mark.horovod]
            marks += [] if is_torch and str(shape) == TORCH_QUICK else [pytest.mark.slow]
            found.append(pytest.param(script, shape, id=f"{script.name}-{shape}", marks=marks))
    return found


@pytest.fixture(scope="session")
def seen_alone(files: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[Script], dict[str, Reading]]:
    """Runs a script without a launcher, once."""
    done: dict[str, dict[str, Reading]] = {}

    def run(script: Script) -> dict[str, Reading]:
        if script.name not in done:
            notes = tmp_path_factory.mktemp("alone")
            place = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
            env = {**os.environ, **variables(files, notes), **(place if script.arguments == TORCH else {})}
            command = [sys.executable, str(FOLDER / f"{script.name}.py")]
            subprocess.run(command, env=env, check=True, timeout=LIMIT_S, cwd=ROOT)
            done[script.name] = readings(notes, 0)
        return done[script.name]

    return run


@pytest.mark.timeout(400)
@pytest.mark.parametrize(("script", "shape"), cases())
def test_script(script: Script, shape: Shape, files: Path, seen_alone, tmp_path_factory) -> None:
    alone, place = seen_alone(script), tmp_path_factory.mktemp("s")
    notes = place / "notes"
    notes.mkdir(parents=True)
    groups = {"data_group": GroupFile(hosts=shape.hosts), "dnn_group": GroupFile(hosts=1, ranks=shape.ranks)}
    path = f"tests/differential/scripts/{script.name}.py"
    job = run_job(
        ClusterFile("script", groups, {}),
        [*script.arguments, "--train_script", path],
        place,
        variables=variables(files, notes),
        max_run_s=LIMIT_S,
    )
    assert job.left == []
    if script.advice and IS_KERAS_3:
        assert job.summary.exit_code == 2 and script.advice in job.summary.cause, job.summary.cause
        return
    assert job.summary.exit_code == 0, job.summary.cause
    ranks = [readings(notes, rank) for rank in range(shape.ranks)]
    found = []
    if script.sees_all:
        ranks, shape = ranks[:1], Shape(shape.hosts, 1)
    for role in ROLES:
        found += [f"{role}: {one}" for one in problems(script.row, shape, role, alone[role], [r[role] for r in ranks])]
    found += step_times(job, [stopwatch(notes, rank) for rank in range(len(ranks))])
    assert not found, "\n".join(found)


def variables(files: Path, notes: Path) -> dict[str, str]:
    return {"FILES": str(files), "NOTES": str(notes), "PYTHONPATH": f"{ROOT}:{FOLDER}"}


def readings(notes: Path, rank: int) -> dict[str, Reading]:
    found = json.loads((notes / f"{rank}.json").read_text())
    return {role: Reading(cardinality=found[role]["batches"][0], **found[role]) for role in ROLES}


def stopwatch(notes: Path, rank: int) -> float:
    """Median milliseconds of a step."""
    return float(json.loads((notes / f"{rank}.json").read_text())["step_ms"])


def step_times(job: FinishedJob, measured_ms: list[float]) -> list[str]:
    """The difference between the reported step time and the mean of the stopwatches, if it is too large."""
    reported, mean_ms = job.summary.step_ms, sum(measured_ms) / len(measured_ms)
    if reported is None:
        return [f"no step time is reported; the stopwatch says {mean_ms:.1f} ms"]
    if abs(reported.median - mean_ms) <= max(STEP_SLACK * mean_ms, STEP_SLACK_MS):
        return []
    return [f"the run reports {reported.median:.1f} ms a step; the stopwatch says {mean_ms:.1f} ms"]
