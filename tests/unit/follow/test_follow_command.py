"""follow/command.py and follow/examination.py: `tfhet follow` and `tfhet diagnose`."""

from __future__ import annotations

import argparse
import datetime
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

boto3 = pytest.importorskip("boto3")

from fake_clock import FakeClock  # noqa: E402

from tfhet import aws, catalogue  # noqa: E402
from tfhet.cli.follow import add  # noqa: E402
from tfhet.cli.parser import Parser  # noqa: E402
from tfhet.errors import UsageError  # noqa: E402
from tfhet.follow.examination import examine  # noqa: E402
from tfhet.messages import MetricLine  # noqa: E402
from tfhet.record import RunFolder  # noqa: E402

T0 = 1_700_000_000.0


class Cloud:
    """All services, of one finished job of one host."""

    def __init__(self, minutes: int = 10, status: str = "Completed"):
        self.meta = SimpleNamespace(region_name="us-east-1")
        self.asked: dict[str, Any] = {}
        self._status = status
        self._lines = [
            (T0 + 300 + 60 * n, str(MetricLine(10 * (n + 1), 0, 100.0, 640.0, 42.0))) for n in range(minutes)
        ]

    def describe_training_job(self, TrainingJobName: str) -> dict[str, Any]:
        begun = (
            {}
            if self._status == "InProgress"
            else {"TrainingStartTime": moment(T0), "TrainingEndTime": moment(T0 + 1200)}
        )
        return {
            "TrainingJobName": TrainingJobName,
            "TrainingJobStatus": self._status,
            "SecondaryStatus": "Downloading" if self._status == "InProgress" else self._status,
            "ResourceConfig": {"InstanceType": "ml.g5.xlarge", "InstanceCount": 1},
            **begun,
        }

    def describe_log_streams(self, **request: Any) -> dict[str, Any]:
        return {"logStreams": [{"logStreamName": "demo/algo-1-1700"}] if self._lines else []}

    def get_log_events(self, startFromHead: bool, nextToken: str = "", **request: Any) -> dict[str, Any]:
        events = [{"timestamp": round(1000 * at_s), "message": text} for at_s, text in self._lines]
        return {"events": [] if nextToken else events, "nextForwardToken": "f", "nextBackwardToken": "b"}

    def get_metric_data(self, **request: Any) -> dict[str, Any]:
        self.asked = request
        used = {"CPUUtilization": [380.0, 400.0], "GPUUtilization": [30.0]}
        results = [
            {"Id": query["Id"], "Values": used.get(query["MetricStat"]["Metric"]["MetricName"], [])}
            for query in request["MetricDataQueries"]
        ]
        return {"MetricDataResults": results}


def moment(at_s: float) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(at_s, datetime.UTC)


def parsed(*words: str) -> argparse.Namespace:
    parser = Parser()
    add(parser.add_subparsers())
    return parser.parse_args(words)


def run(monkeypatch: pytest.MonkeyPatch, cloud: Cloud, *words: str) -> int:
    monkeypatch.setattr(aws, "client", lambda service, region: cloud)
    args = parsed(*words)
    return int(args.run(args))


def test_diagnose_prints_the_hosts_the_verdict_and_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "found.json"
    assert run(monkeypatch, Cloud(), "diagnose", "demo", "--wide", "--json", str(file)) == 0
    out = capsys.readouterr().out
    assert "waiting for data, without which it would be 1.72 times faster; the CPUs are used up." in out
    assert "97.5 (96 to 100)" in out and "ml.g5.xlarge" in out
    assert "1. Cheaper stages first" in out and "To know more next time:" in out
    found = json.loads(file.read_text())
    assert (found["job"], found["kind"], found["schema"]) == ("demo", "input-bound", 1)
    assert found["hosts"][0]["cpu_pct"]["samples"] == [95.0, 100.0] and found["hosts"][0]["disk_pct"] is None
    assert len(found["levers"]) == 3 and found["evidence"]


def test_diagnose_tells_epoch_starts_from_the_steady_state(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cloud = Cloud()
    times = [(600.0, 83.3) if n in (4, 8) else (100.0, 1.0) for n in range(13)]
    lines = [MetricLine(10 * (n + 1), n // 4, step_ms, 640.0, pct) for n, (step_ms, pct) in enumerate(times)]
    cloud._lines = [(T0 + 300 + 60 * n, str(line)) for n, line in enumerate(lines)]
    assert run(monkeypatch, cloud, "diagnose", "demo") == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "Not input-bound in the steady state: waiting for data is 1.0 % of the step (median 1.0 %)" in out
    assert "epoch starts cost 45.3 % of the time (2 waits, 9.98 s), without which the run would be 1.83" in out
    assert "1. For the epoch starts read on over the end of the epoch" in out


def test_diagnose_of_a_job_that_has_not_begun_says_to_ask_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cloud = Cloud(minutes=0, status="InProgress")
    assert run(monkeypatch, cloud, "diagnose", "demo") == 0
    out = capsys.readouterr().out
    assert "There is nothing of demo yet" in out and "algo-1" not in out
    assert cloud.asked == {}, "there is nothing to ask for"


def test_only_the_time_of_training_is_looked_at() -> None:
    for minutes, begin_s, end_s in ((10, T0 + 300, T0 + 840), (2, T0, T0 + 1200)):
        cloud = Cloud(minutes)
        found = examine("demo", cloud, cloud, cloud, known=catalogue.shipped(), clock=FakeClock(T0 + 5000))
        assert found.state.name == "demo"
        assert 0 <= begin_s - cloud.asked["StartTime"].timestamp() < 60
        assert 0 <= cloud.asked["EndTime"].timestamp() - end_s < 60


def test_follow_writes_the_record_and_ends_with_the_jobs_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    folder, file = tmp_path / "run", tmp_path / "summary.json"
    words = ("follow", "demo", "--run_dir", str(folder), "--json", str(file))
    assert run(monkeypatch, Cloud(), *words) == 0
    assert "algo-1 | [tfhet] step=100" in capsys.readouterr().out
    assert RunFolder(folder).read_summary().steps == json.loads(file.read_text())["steps"] == 100
    assert run(monkeypatch, Cloud(status="Failed"), *words) == 1


@pytest.mark.parametrize("option", ["--every_s", "--deadline_s"])
@pytest.mark.parametrize("value", ["0", "-1", "nan", "inf"])
def test_times_that_are_none_are_refused(monkeypatch: pytest.MonkeyPatch, option: str, value: str) -> None:
    with pytest.raises(UsageError, match="give a number above 0"):
        run(monkeypatch, Cloud(), "follow", "demo", f"{option}={value}")
