"""The cases of `benchmarks.cluster`, their jobs, and the figures that follow from the runs."""

from __future__ import annotations

import argparse
import contextlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.cluster import suite as cluster
from benchmarks.cluster.case import PIPELINE, ClusterCase, Variant
from benchmarks.cluster.cases import CASES
from benchmarks.cluster.figures import Results, figures_of, saving_pct
from benchmarks.cluster_runs.measured_job import JobRun, Stopped
from benchmarks.job_scripts import SOURCE_DIR, cluster_train, inputs
from tfhet.errors import JobFailed, UsageError
from tfhet.launch.settings import LaunchSettings
from tfhet.record import Record
from tfhet.simulate.scale import limits_of
from tfhet.trainer.settings import Settings

AWS, GROWTH = CASES["aws-post"], CASES["growth"]
ALL = [(case, variant) for case in CASES.values() for variant in case.variants]
IDS = [f"{case.name}.{variant.key}" for case, variant in ALL]


@pytest.mark.parametrize(("case", "variant"), ALL, ids=IDS)
def test_each_host_has_one_cpu_and_room(case: ClusterCase, variant: Variant) -> None:
    groups = {"dnn": "dnn_group"} | {f"data-{index}": "data_group" for index in range(variant.data_hosts)}
    file = case.cluster(variant, Path("data"))
    assert {name: group.hosts for name, group in file.groups.items()} == {
        "dnn_group": 1,
        **({"data_group": variant.data_hosts} if variant.data_hosts else {}),
    }
    limits, notes = limits_of(file, groups, cpus=[0, 1], memory_bytes=2**40)
    assert not notes and all(len(limit.cpu_set or ()) == 1 for limit in limits.values())
    assert sum(limit.cpus or 0.0 for limit in limits.values()) <= 2.0


@pytest.mark.parametrize(("case", "variant"), ALL, ids=IDS)
def test_launcher_and_script_accept_the_arguments(case: ClusterCase, variant: Variant) -> None:
    settings, rest = LaunchSettings.parse(case.arguments(variant, 0.06, 48))
    if variant.input == PIPELINE:
        parsed: Any = Settings.parse(rest)
        assert parsed.model == "emulated" and not settings.train_script
    else:
        parsed = cluster_train.arguments(rest)
        assert (SOURCE_DIR / settings.train_script).is_file() and parsed.input in inputs._ALONE
    assert (parsed.step_ms, parsed.steps_per_epoch, parsed.batch_size) == (60.0, 48, case.batch_size)
    assert parsed.chain == case.chain
    service = settings.planes.get("tf_service")
    if service is not None and case.chain:
        assert service.dnn_host_workers == (1 if variant.data_hosts else 0)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_ratios_name_variants(case: ClusterCase) -> None:
    keys = [variant.key for variant in case.variants]
    named = {key for pair in (*case.ratios.values(), *case.savings.values()) for key in pair}
    assert named <= set(keys) and len(set(keys)) == len(keys)
    assert set(case.expected) <= set(case.ratios)
    longest = max(case.course(variant, 0.0, 60.0).steps for variant in case.variants)
    assert case.batches() >= longest
    if case.savings:
        assert set(case.prices()) == {case.dnn_type, case.data_type}


def test_ideal_is_accelerator_or_all_cpus() -> None:
    assert AWS.preparing_cpus(0) == pytest.approx(0.6) and AWS.preparing_cpus(2) == pytest.approx(1.5)
    assert AWS.ideal_s(0, 0.3, 0.1) == pytest.approx(0.5) and AWS.ideal_s(2, 0.3, 0.25) == 0.25
    article = CASES["ray-article"]
    assert article.host_cpus(article.dnn_type) == pytest.approx(0.55) and article.preparing_cpus(0) == 0.2


def run_of(step_ms: float) -> JobRun:
    return JobRun(step_ms, 50.0, 24, {"dnn_group": 1.0})


def results_of(case: ClusterCase, steps_ms: dict[str, float]) -> Results:
    """Three rounds: the first is faster by a tenth, the second slower by a tenth."""
    costs = {name: [0.06] * 3 for name in case.inputs}
    runs = {key: [run_of(factor * ms) for factor in (0.9, 1.1, 1.0)] for key, ms in steps_ms.items()}
    return Results(case, 0.1, costs, runs)


def test_figures_are_ratios_of_rounds_and_prices() -> None:
    keys = ("example_homogeneous", "example_heterogeneous", "tfhet_homogeneous", "tfhet_heterogeneous")
    steps = dict(zip(keys, (300.0, 120.0, 100.0, 100.0), strict=True))
    figures = {name[len("cluster.aws-post.") :]: each for name, each in figures_of(results_of(AWS, steps)).items()}
    assert figures["example_speedup"].value == pytest.approx(2.5) and figures["example_speedup"].n == 3
    assert figures["tfhet_homogeneous_vs_example_heterogeneous"].value == pytest.approx(1.2)
    assert figures["example_homogeneous.step_ms"].samples == pytest.approx((270.0, 330.0, 300.0))
    assert figures["example_homogeneous.over_ideal"].value == pytest.approx(3.0)
    assert figures["example_saving_pct"].value == pytest.approx(100 * (1 - 45.03 / 37.69 / 2.5))
    # A whole p4d.24xlarge has 160 times the CPUs: 512 examples in 300 / 160 ms, at 37.69 USD an hour.
    usd = 37.69 / 3600 * 0.3 / 160 * 1e6 / 512
    assert figures["example_homogeneous.usd_per_million_examples"].value == pytest.approx(usd)


def test_figures_leave_out_what_was_not_measured() -> None:
    some = GROWTH.only(["hosts_0", "hosts_2"])
    figures = figures_of(results_of(some, {"hosts_0": 400.0, "hosts_2": 200.0}))
    assert {name for name in figures if "speedup" in name} == {"cluster.growth.speedup_2"}
    with pytest.raises(UsageError):
        GROWTH.only(["hosts_3"])


def test_saving_interval_is_ordered() -> None:
    found = saving_pct([10.0, 10.0, 10.0], [5.0, 6.0, 7.0], "before")
    assert found.value == pytest.approx(40.0) and found.low < found.value < found.high
    assert found.samples == pytest.approx((50.0, 40.0, 30.0)) and found.unit == "%"


class Played:
    """Runs the suite with played measurements: a step takes the accelerator's time, or 300 ms without one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch):
        self.order: list[str] = []
        self.fails: JobFailed | None = None
        monkeypatch.setattr(cluster.CaseRuns, "_batch_cpu_s", lambda case_runs, name, index: 0.06)
        monkeypatch.setattr(cluster.CaseRuns, "_job", self._job)
        monkeypatch.setattr(cluster.job_data, "write_channel", lambda *_: None)
        monkeypatch.setattr(cluster, "require", lambda case: None)
        monkeypatch.setattr(cluster, "idle_loops", contextlib.nullcontext)

    def _job(self, variant: Variant, step_s: float, known_s: Any, index: int, name: str = "") -> JobRun:
        self.order.append(name or variant.key)
        if self.fails and variant.key == "hosts_0":
            raise self.fails
        return run_of(1e3 * step_s or 300.0)

    def __call__(self, *words: str) -> Record:
        parser = argparse.ArgumentParser()
        parser.add_argument("--repeats", type=int)
        parser.add_argument("--warmup", type=int)
        cluster.SUITE.options(parser)
        record = cluster.SUITE.run(parser.parse_args([*words]), lambda event: None, ())
        return Record.from_json(json.loads(json.dumps(record.to_json())))


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Played:
    return Played(monkeypatch)


def test_variants_take_turns_with_one_accelerator(play: Played) -> None:
    record = play("--case", "aws-post", "--repeats", "2", "--warmup", "1")
    keys = [variant.key for variant in AWS.variants]
    assert play.order[0] == "first" and play.order[1:5] == keys and sorted(play.order[5:9]) == sorted(keys)
    assert record.name == "cluster.aws-post" and record.figures["cluster.aws-post.example_speedup"].n == 2
    assert record.details["cases"]["aws-post"]["accelerator_ms"] == pytest.approx(0.38 * 300.0)
    assert not cluster.SUITE.is_kept(record) and len(cluster.breaches(record)) == 1, "a speedup of 1"


def test_unmeasured_cases_are_named(play: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    def require(case: object) -> None:
        if case is AWS:
            raise UsageError("no namespaces")

    play.fails = JobFailed("a host was lost")
    monkeypatch.setattr(cluster, "require", require)
    record = play("--case", "aws-post,growth,aws-pytorch", "--repeats", "1")
    assert set(record.details["missing"]) == {"aws-post"} and set(record.details["failed"]) == {"growth"}
    notes = "\n".join(cluster.SUITE.lines(record))
    assert "a host was lost" in notes and not cluster.SUITE.is_kept(record)
    with pytest.raises(JobFailed, match="a host was lost"):
        play("--case", "growth", "--repeats", "1")
    play.fails = Stopped("stopped")
    with pytest.raises(Stopped):
        play("--case", "growth,aws-pytorch", "--repeats", "1")


def test_missing_package_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match="no_such_package"):
        cluster.require(replace(AWS, packages=("json", "no_such_package")))


@pytest.mark.parametrize("words", [("--case", "mine"), ("--seconds", "0"), ("--variants", "mine")])
def test_wrong_options_are_refused(play: Played, words: tuple[str, ...]) -> None:
    with pytest.raises(UsageError):
        play("--repeats", "1", *words)
