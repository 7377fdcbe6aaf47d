"""bench/cluster.py and its parts: cases, turns, what they come to in time and money, and going on after a stop."""

from __future__ import annotations

import argparse
import contextlib
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given, settings, strategies as st

from benchmarks.cluster import suite as cluster, table as cluster_table
from benchmarks.cluster.case import CASES, ClusterCase, Variant
from benchmarks.cluster.chart import draw
from benchmarks.cluster.run import point_from_json
from benchmarks.cluster.table import saving_pct
from benchmarks.cluster.unfinished import Unfinished
from benchmarks.cluster_runs.load import Course
from benchmarks.cluster_runs.point import Point
from benchmarks.cluster_runs.stopped import Stopped
from benchmarks.job_scripts import SOURCE_DIR
from tfhet.errors import DataError, JobFailed, UsageError
from tfhet.launch.settings import LaunchSettings
from tfhet.planes.tf_service import ServiceSettings
from tfhet.record import Record
from tfhet.trainer.settings import Settings

AWS = CASES["aws-post"]
ALL = [(case, variant) for case in CASES.values() for variant in case.variants]
FIRST_S = 0.3


def variant(case: ClusterCase, key: str) -> Variant:
    return next(one for one in case.variants if one.key == key)


def point_of(data_hosts: int, *windows_ms: float, wait_pct: float = 50.0) -> Point:
    return Point(data_hosts, windows_ms, wait_pct, 10, 5.0, 1.0, {"algo-1": 1.0}, {"algo-1": 0.0}, {"workers": 1.0})


def at_best(case: ClusterCase, one: Variant, step_s: float, *_: object) -> Point:
    """As long as the case thinks, and a hundredth more, which tells the runs from what was predicted."""
    step_ms = 1e3 * case.least_s(one, FIRST_S, step_s)
    return point_of(one.data_hosts, *(step_ms * factor for factor in (1.0, 1.01, 1.01, 1.02)))


# --- cases


def test_the_hosts_of_a_case_are_to_each_other_what_their_types_are_and_fit_on_two_cpus() -> None:
    for case in CASES.values():
        assert case.cpus(case.data_type) / case.cpus(case.dnn_type) == pytest.approx(72 / 96)
        assert case.all_cpus(case.most_data_hosts) <= 2.0
    assert AWS.all_cpus(2) == pytest.approx(1.5) and AWS.cpus(AWS.dnn_type) == pytest.approx(0.6)


def test_each_host_of_a_case_can_be_given_cpus_of_its_own() -> None:
    from tfhet.simulate.scale import limits_of

    for case in CASES.values():
        for count in range(case.most_data_hosts + 1):
            groups = {"dnn": "dnn_group"} | {f"data-{index}": "data_group" for index in range(count)}
            limits, notes = limits_of(case.cluster(count, Path("data")), groups, cpus=[0, 1], memory_bytes=2**40)
            assert not notes and all(len(limit.cpu_set or ()) == 1 for limit in limits.values())


def test_without_data_hosts_there_is_no_data_group_and_the_ranks_prepare_their_data() -> None:
    alone, served = variant(AWS, "example_homogeneous"), variant(AWS, "example_heterogeneous")
    assert list(AWS.cluster(0, Path("data")).groups) == ["dnn_group"]
    assert AWS.cluster(2, Path("data")).groups["data_group"].hosts == 2
    for one, workers in ((alone, 0), (served, 1)):
        parsed, _ = LaunchSettings.parse(AWS.command(one, 0.1, 33)[1:])
        assert ServiceSettings.of(parsed.planes).dnn_host_workers == workers


@pytest.mark.parametrize(("case", "one"), ALL, ids=[f"{case.name}.{one.key}" for case, one in ALL])
def test_the_arguments_of_a_variant_are_understood_by_launcher_and_script(case: ClusterCase, one: Variant) -> None:
    launcher, *words = case.command(one, 0.06, 41)
    assert (SOURCE_DIR / launcher).is_file()
    parsed, rest = LaunchSettings.parse(words)
    asked = Settings.parse(rest)
    assert (asked.step_ms, asked.steps_per_epoch, asked.batch_size) == (60.0, 41, case.batch_size)
    # The example leaves it to tf.data service, which compresses what it is not told about.
    assert (asked.compression == "snappy") == (one.form == "example" and one.data_hosts > 0)
    if parsed.train_script:
        from benchmarks.job_scripts import scaling_train

        given_to_it = scaling_train._arguments(rest)
        assert given_to_it.in_memory == (one.form if one.in_memory else "")
        assert given_to_it.compression == asked.compression
    else:
        assert asked.model == "emulated" and asked.chain == case.chain and not one.in_memory


def test_what_is_compared_is_there_and_each_form_has_its_ceiling() -> None:
    for case in CASES.values():
        keys = {one.key for one in case.variants}
        named = {key for pair in (*case.ratios.values(), *case.savings.values()) for key in pair}
        assert named <= keys and len(keys) == len(case.variants)
        assert {case.ceiling(one.form).in_memory for one in case.variants} == {True}
        assert case.variants[0].data_hosts == 0 and not case.variants[0].in_memory


@settings(deadline=None)
@example(1.0, 5e-324, 60.0)
@given(st.floats(0.001, 5.0), st.floats(0.0, 5.0), st.floats(0.1, 60.0))
def test_the_data_are_enough_for_every_run(first_s: float, step_s: float, seconds: float) -> None:
    for case, one in ALL:
        if step_s:
            assert case.course(one, first_s, step_s, seconds).steps + 8 <= case.batches()
        assert case.course(one, None, 0.0, seconds).steps + 8 <= case.batches()


# --- what it comes to


def test_a_saving_is_of_the_money_and_its_interval_is_the_right_way_round() -> None:
    found = saving_pct([10.0, 10.0, 10.0], [5.0, 6.0, 7.0], "before")
    assert found.value == pytest.approx(40.0) and found.low <= 40.0 <= found.high and found.low < found.high
    assert found.samples == pytest.approx((50.0, 40.0, 30.0)) and found.unit == "%"
    assert saving_pct([1.0], [2.0], "before").value == -100.0


def test_money_is_that_of_whole_instances_at_the_prices_of_the_post() -> None:
    alone, served = variant(AWS, "example_homogeneous"), variant(AWS, "example_heterogeneous")
    assert cluster_table.usd_per_hour(AWS, 0) == 37.69 and cluster_table.usd_per_hour(AWS, 2) == pytest.approx(45.03)
    # A whole p4d.24xlarge is 160 times as fast: 512 examples in 2 ms.
    (usd,) = cluster_table.usd_per_million(AWS, alone, [point_of(0, 320.0)])
    assert usd == pytest.approx(37.69 / 3600 * 0.002 * 1e6 / 512)
    (more,) = cluster_table.usd_per_million(AWS, served, [point_of(2, 320.0)])
    assert more / usd == pytest.approx(45.03 / 37.69)


def points_of(case: ClusterCase, step_s: float) -> dict[str, list[Point]]:
    """Three runs of each variant, the first of which is faster by a tenth and the second slower by as much."""
    found = {}
    for one in case.variants:
        best = at_best(case, one, step_s)
        found[one.key] = [
            replace(best, windows_ms=tuple(factor * window for window in best.windows_ms)) for factor in (0.9, 1.1, 1.0)
        ]
    return found


def test_the_figures_of_the_post_are_those_that_it_is_about() -> None:
    figures = cluster_table.figures_of(AWS, points_of(AWS, 0.1))
    assert figures["cluster.aws-post.example_speedup"].value == pytest.approx(2.5)
    assert figures["cluster.aws-post.tfhet_homogeneous_vs_example_heterogeneous"].value == pytest.approx(1.2)
    assert figures["cluster.aws-post.example_heterogeneous.over_ceiling"].value == pytest.approx(1.2)
    assert figures["cluster.aws-post.example_saving_pct"].value == pytest.approx(100 * (1 - 45.03 / 37.69 / 2.5))
    assert figures["cluster.aws-post.tfhet_saving_pct"].value == pytest.approx(100 * (1 - 45.03 / 37.69))
    assert "cluster.aws-post.example_ceiling.over_ceiling" not in figures
    (first, second, *_) = cluster_table.rows(AWS, points_of(AWS, 0.1))
    assert first["instances"] == "1 x p4d.24xlarge" and second["instances"] == "1 x p4d.24xlarge + 2 x c5.18xlarge"
    assert second["x faster"] == pytest.approx(2.5) and first["x faster"] is None
    assert [first[name] for name in ("least", "step ms", "most")] == pytest.approx([272.7, 303.0, 333.3])
    step = figures["cluster.aws-post.example_homogeneous.step_ms"]
    assert step.samples == pytest.approx((272.7, 333.3, 303.0)), "a sample is a run"


# --- the command


def options_of(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int)
    parser.add_argument("--warmup", type=int)
    parser.add_argument("--json", type=Path)
    cluster.SUITE.options(parser)
    return parser.parse_args(list(words))


Runs = list[tuple[str, float]]
"""The keys of variants, and the accelerator's steps."""


class Fake:
    """Runs the suite, but not its jobs."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch):
        self.asked: Runs = []
        """The jobs of the last suite, in order."""
        self._fails: Sequence[int] = ()
        self._how: type[JobFailed] = JobFailed
        monkeypatch.setattr(cluster, "measured", self._measured)
        monkeypatch.setattr(cluster.job_data, "write_apart", lambda *_: None)
        monkeypatch.setattr(cluster.kernel, "require", lambda what: None)
        monkeypatch.setattr(cluster, "idle_loops", contextlib.nullcontext)

    def __call__(self, *words: str, fails: Sequence[int] = (), how: type[JobFailed] = JobFailed) -> Record:
        """`fails`: the numbers of the jobs that end badly, counted from 1; `how`: by what."""
        self.asked, self._fails, self._how = [], fails, how
        return cluster.SUITE.run(options_of(*words), lambda event: None, ("tfhet", "bench", "cluster"))

    def _measured(self, case: ClusterCase, one: Variant, step_s: float, course: Course, *_: object) -> Point:
        self.asked.append((one.key, step_s))
        if len(self.asked) in self._fails:
            raise self._how("a host was lost")
        return at_best(case, one, step_s) if step_s else point_of(0, *(1e3 * FIRST_S,) * 4)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Fake:
    return Fake(monkeypatch)


def test_all_variants_take_turns_with_the_accelerator_that_the_first_one_asks_for(run: Fake, tmp_path: Path) -> None:
    record = run("--repeats", "3")
    keys = [one.key for one in AWS.variants]
    assert [key for key, _ in run.asked] == [keys[0], *keys, *keys[1:], keys[0], *keys[2:], *keys[:2]]
    assert run.asked[0][1] == 0.0 and [step for _, step in run.asked[1:]] == [pytest.approx(0.38 * FIRST_S)] * 18
    assert record.name == "cluster.aws-post" and record.figures["cluster.aws-post.example_speedup"].n == 3
    assert record.details["accelerator_ms"] == pytest.approx(114.0) and "38 %" in record.details["accelerator"]
    assert cluster.SUITE.is_kept(record)
    notes = cluster.SUITE.notes(Record.from_json(json.loads(json.dumps(record.to_json()))))
    assert any("1/160 of their vCPUs" in line for line in notes) and not any("not kept" in line for line in notes)
    pytest.importorskip("matplotlib")
    assert draw(record, tmp_path / "cluster.svg").stat().st_size > 1000


def test_an_accelerator_can_be_named(run: Fake) -> None:
    record = run("--repeats", "1", "--step_ms", "300")
    assert {step for _, step in run.asked[1:]} == {0.3} and record.details["accelerator"] == "as --step_ms says"
    assert not cluster.SUITE.is_kept(record)
    assert "not kept: example_speedup is 1.00, not between 2 and 2.5" in cluster.SUITE.notes(record)


def test_warm_up_rounds_enter_no_figure(run: Fake) -> None:
    record = run("--repeats", "1", "--warmup", "1")
    assert len(run.asked) == 1 + 2 * len(AWS.variants)
    assert record.figures["cluster.aws-post.example_homogeneous.step_ms"].n == 1


def test_a_run_that_fails_is_made_again_once_and_the_record_says_why(run: Fake) -> None:
    record = run("--repeats", "1", fails=[3])
    assert [key for key, _ in run.asked[2:4]] == ["example_heterogeneous"] * 2
    assert record.details["failed"] == ["example_heterogeneous-0: a host was lost"]
    with pytest.raises(JobFailed, match="a host was lost"):
        run("--repeats", "1", fails=[3, 4])


def test_a_suite_that_was_interrupted_goes_on_behind_its_last_run(run: Fake, tmp_path: Path) -> None:
    words = ("--repeats", "2", "--json", str(tmp_path / "deep" / "record.json"))
    with pytest.raises(Stopped, match=r"5 runs are kept in .*record\.json\.unfinished.*--resume"):
        run(*words, fails=[7], how=Stopped)
    assert len(run.asked) == 7, "a run that somebody stopped is not made again"
    record = run(*words, "--resume")
    assert len(run.asked) == 2 * len(AWS.variants) - 5 and run.asked[0][0] == AWS.variants[5].key
    assert all(step == pytest.approx(0.38 * FIRST_S) for _, step in run.asked)
    assert record.figures == run("--repeats", "2").figures
    assert not (tmp_path / "deep" / "record.json.unfinished").exists()


def test_without_resume_everything_is_measured_anew(run: Fake, tmp_path: Path) -> None:
    words = ("--repeats", "1", "--json", str(tmp_path / "record.json"))
    with pytest.raises(JobFailed):
        run(*words, fails=[3, 4])
    run(*words)
    assert len(run.asked) == 1 + len(AWS.variants)


def test_runs_of_other_settings_or_nowhere_are_not_gone_on_with(run: Fake, tmp_path: Path) -> None:
    words = ("--repeats", "1", "--json", str(tmp_path / "record.json"))
    with pytest.raises(JobFailed):
        run(*words, fails=[3, 4])
    with pytest.raises(UsageError, match=r"--seconds 8\.0, not 4\.0"):
        run(*words, "--seconds", "4", "--resume")
    with pytest.raises(UsageError, match="--json FILE"):
        run("--resume")


@pytest.mark.parametrize(
    "content",
    [{}, {"points": []}, {"points": {"a-0": {"windows_ms": [1]}}, "first_s": 0.3}, {"points": {}, "first_s": "0.3"}],
)
def test_a_file_that_holds_no_runs_is_told(tmp_path: Path, content: dict[str, object]) -> None:
    path = tmp_path / "record.json.unfinished"
    path.write_text(json.dumps({"schema": 1, "settings": {}, **content}))
    with pytest.raises(DataError, match="record.json.unfinished"):
        Unfinished.at(tmp_path / "record.json", {}, resume=True)


def test_what_is_kept_is_read_as_it_was(tmp_path: Path) -> None:
    kept = Unfinished.at(tmp_path / "record.json", {"case": "a", "none": None}, resume=True)
    kept.first_s, kept.points["a-0"] = 0.3, point_of(2, 1.0, 2.0)
    kept.failed.append("once")
    kept.keep()
    assert Unfinished.at(tmp_path / "record.json", {"case": "a", "none": None}, resume=True) == kept
    assert point_from_json(json.loads(json.dumps(kept.points["a-0"].to_json())), "here") == kept.points["a-0"]


@pytest.mark.parametrize(
    "words", [("--case", "mine"), ("--case", "aws-post,mine"), ("--seconds", "0"), ("--step_ms", "-1")]
)
def test_what_cannot_be_measured_is_refused(run: Fake, words: Sequence[str]) -> None:
    with pytest.raises(UsageError, match="--case"):
        run(*words)
