"""advice/input_bound.py: the commands that come after a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tfhet.__main__ import _parser
from tfhet.advice import next_commands, of_run
from tfhet.events import Event
from tfhet.record import RunFolder, RunSummary, Spread

SUBMIT = "tfhet submit --dry_run job.yaml"
PLAN = "tfhet plan --run runs/a --json runs/a/plan.json"
WRITE = f"{PLAN} --write job.yaml"
PROFILE = "tfhet profile --script train.py --json runs/a/profile.json"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    """The folder of a run of `train.py`."""
    monkeypatch.chdir(tmp_path)
    made = RunFolder(Path("runs/a")).create()
    made.write_event(Event("training.started", 1.0, {"command": ["/bin/python", "/opt/ml/code/train.py"]}))
    return made


def after(folder: RunFolder, wait_ms: float | None, **fields: object) -> list[str]:
    spreads = {} if wait_ms is None else {"step_ms": Spread.of([100.0] * 9), "wait_ms": Spread.of([wait_ms] * 9)}
    run = RunSummary(**{"mode": "homogeneous", "wait_pct": wait_ms, **spreads, **fields})  # type: ignore[arg-type]
    folder.write_summary(run)
    return next_commands(of_run(run), run, folder)


@pytest.mark.parametrize(
    ("wait_ms", "fields", "wanted"),
    [
        (40.0, {}, [PROFILE, WRITE, SUBMIT]),
        (5.0, {}, [PROFILE, WRITE, SUBMIT]),
        (0.0, {}, [SUBMIT]),
        (0.0, {"mode": "heterogeneous"}, [PROFILE, WRITE, SUBMIT]),
        (None, {}, ["tfhet doctor --brief --script train.py"]),
        (40.0, {"exit_code": 1}, ["tfhet doctor --brief --script train.py"]),
    ],
)
def test_commands_follow_from_the_verdict(folder, wait_ms, fields, wanted):
    Path("job.yaml").touch()
    found = after(folder, wait_ms, **fields)
    assert found == wanted
    for command in found:
        _parser().parse_args(command.split()[1:])


def test_finished_steps_are_omitted(folder):
    folder.profile_path.touch()
    assert after(folder, 40.0) == [PLAN], "there is no job file to submit"
    Path("job.yaml").touch()
    assert after(folder, 40.0) == [WRITE, SUBMIT]
    folder.plan_path.touch()
    assert after(folder, 40.0) == [SUBMIT]


def test_script_is_named_with_its_arguments(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my train.py").touch()
    folder = RunFolder(Path("a")).create()
    folder.write_event(
        Event("training.started", 1.0, {"command": ["python", str(tmp_path / "my train.py"), "--n", "3"]})
    )
    assert after(folder, 40.0)[0] == f"tfhet profile --script '{tmp_path}/my train.py' --json a/profile.json -- --n 3"


def test_built_in_trainer_is_profiled_by_stages(folder):
    (folder.path / "hosts" / "algo-1" / "input" / "data" / "training").mkdir(parents=True)
    stages = {"dilate(3)": "trainer", "rescale()": "trainer", "dilate(3) at 2": "trainer"}
    command = after(folder, 40.0, stages_where=stages, batch_size=64)[0]
    wanted = "runs/a/hosts/algo-1/input/data/training --stages 'dilate(3); rescale(); dilate(3)' --batch_size 64"
    assert command == f"tfhet profile {wanted} --json runs/a/profile.json"


def test_script_with_a_pipeline_is_profiled_itself(folder):
    ranks = [{"rank": 0, "wait_pct": 40.0}]
    assert after(folder, 40.0, stages_where={"rescale()": "trainer"}, batch_size=64, by_rank=ranks)[0] == PROFILE


def test_unknown_script_has_a_placeholder(tmp_path):
    folder = RunFolder(tmp_path / "followed").create()
    assert after(folder, 40.0)[0].startswith("tfhet profile --script SCRIPT.py --json ")
    assert after(folder, None) == []


def test_channels_of_a_simulated_run_are_set(folder):
    Path("train.py").write_text('directory = os.environ["SM_CHANNEL_TRAIN"]')
    for host, name in (("algo-1", "train"), ("algo-2", "train")):
        (folder.path / "hosts" / host / "input" / "data" / name).mkdir(parents=True)
    found = after(folder, 40.0)[0]
    assert found == f"SM_CHANNEL_TRAIN=runs/a/hosts/algo-1/input/data/train {PROFILE}"
