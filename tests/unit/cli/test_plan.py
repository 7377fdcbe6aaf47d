"""plan/command.py, asked.py: `tfhet plan`."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tfhet import bench
from tfhet.__main__ import main
from tfhet.bench import Calibration
from tfhet.errors import UsageError
from tfhet.plan.asked import _range, _speeds
from tfhet.planes import CostFile
from tfhet.profile import Cost, Profile
from tfhet.record import Interval

SHIPPED = CostFile.shipped()

OWN = """
instances:
  ml.gpu.small: {vcpus: 4, memory_gib: 16, gpus: 1, gpu_kind: G, gpu_memory_gib: 16, network_gbit_per_s: 10}
  ml.cpu.large: {vcpus: 16, memory_gib: 16, network_gbit_per_s: 10}
"""


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    costs = (
        Cost("read", (10.0, 11.0), bytes_per_example=1000, dtype="uint8", examples=500, kind="Source"),
        Cost("blur()", (100.0, 102.0), bytes_per_example=1000, dtype="uint8", examples=500, kind="Stage"),
        Cost("rescale()", (104.0, 106.0), bytes_per_example=4000, dtype="float32", examples=500, kind="Stage"),
    )
    return Profile("pipeline", costs).record().write(tmp_path / "profile.json")


@pytest.fixture(autouse=True)
def no_files_of_the_user(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)


def words(profile: Path, *more: str) -> list[str]:
    return [
        *("plan", "--profile", str(profile), "--cluster", "ml.g5.xlarge", "--data", "ml.c5"),
        *("--accelerator_ms", "4..6", "--market", "ec2", "--max_hosts", "3", *more),
    ]


def test_the_command_prints_the_decision_and_writes_the_plan(profile, tmp_path, capsys):
    out = tmp_path / "plan.json"
    assert main(words(profile, "--json", str(out))) == 0
    said = capsys.readouterr().out
    written = json.loads(out.read_text())
    for line in (*written["decision"], *written["notes"]):
        assert line in said
    best = written["candidates"][written["chosen"]]
    assert best["cluster"]["text"] in said
    assert best["step_ms"]["low"] < best["step_ms"]["value"] < best["step_ms"]["high"]


def test_a_profile_without_a_batch_needs_its_size_and_one_that_is_given_counts(tmp_path, capsys):
    path = (
        Profile("dataset", (Cost("map", (5.0,), bytes_per_example=9, kind="Map"),)).record().write(tmp_path / "p.json")
    )
    assert main(words(path)) == 2
    assert "give --batch_size" in capsys.readouterr().err
    assert main(words(path, "--batch_size", "64")) == 0
    assert "a step of 64 examples" in capsys.readouterr().out


def test_a_cluster_of_ones_own_types_is_ranked_by_time(profile, tmp_path, capsys):
    own = tmp_path / "own.yaml"
    own.write_text(OWN)
    line = ["plan", "--profile", str(profile), "--cluster", "ml.gpu.small", "--data", "ml.cpu.large"]
    assert main([*line, "--accelerator_examples_per_s", "100000", "--instances", str(own)]) == 0
    said = capsys.readouterr().out
    assert "ranked by time" in said
    assert "5 ms" in said  # 500 examples at 100,000 a second


def test_limits_that_nothing_keeps_end_the_command_with_1(profile, capsys):
    assert main(words(profile, "--examples", "1e12", "--deadline_h", "1e-3")) == 1
    assert "No cluster keeps the limits" in capsys.readouterr().out


def test_what_is_not_measured_is_said_to_be_assumed(profile, capsys):
    main(words(profile))
    said = capsys.readouterr().out
    for what in ("--calibrate", "--vcpu_speed", "its parts alone", "--source_mb_per_s"):
        assert what in said


def test_calibrated_costs_are_used_from_then_on(profile, tmp_path, monkeypatch, capsys):
    costs = CostFile(SHIPPED.vcpu, {name: replace(one, date="2031-02-03") for name, one in SHIPPED.planes.items()})

    async def calibrate(step) -> Calibration:
        return Calibration(costs, Interval.exact(1.0), ("feed",), ())

    monkeypatch.setattr(bench, "calibrate", calibrate)
    elsewhere = tmp_path / "elsewhere.json"
    assert main(["plan", "--calibrate", str(elsewhere)]) == 0
    for options, is_used in (((), False), (("--costs", str(elsewhere)), True)):
        capsys.readouterr()
        assert main(words(profile, *options)) == 0
        assert ("2031-02-03" in capsys.readouterr().out) == is_used
    assert main(["plan", "--calibrate"]) == 0
    assert main(words(profile)) == 0
    assert "2031-02-03" in capsys.readouterr().out


def test_costs_of_another_schema_are_refused(profile, tmp_path, capsys):
    (tmp_path / "costs.json").write_text('{"schema": 0}')
    assert main(words(profile, "--costs", str(tmp_path / "costs.json"))) == 2
    assert "--calibrate" in capsys.readouterr().err


def test_that_more_ranks_cost_nothing_is_said_to_be_assumed_where_a_plan_looks_at_them(profile, capsys):
    assumed = "with more ranks a step takes as long as with 1"
    main(words(profile))
    assert assumed not in capsys.readouterr().out
    main(words(profile, "--examples", "1e6", "--deadline_h", "1e6"))
    assert assumed in capsys.readouterr().out


def test_a_range_is_a_number_or_two():
    assert (_range("x", "86").low, _range("x", "86").high) == (86, 86)
    assert (_range("x", "80..92").value, _range("x", "80..92").low) == (86, 80)
    for wrong in ("", "a", "0", "9..8", "1..2..3"):
        with pytest.raises(UsageError, match="--x"):
            _range("x", wrong)


def test_the_speed_of_a_type_is_that_of_the_longest_name_that_fits():
    speed = _speeds("ml.c5=1.1,ml.c5.xlarge=1.2")
    assert [speed(name).value for name in ("ml.c5.xlarge", "ml.c5.large", "ml.c5n.large")] == [1.2, 1.1, 1.0]
