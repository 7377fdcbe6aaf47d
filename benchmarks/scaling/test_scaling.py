"""bench/scaling.py and its parts: what is ideal, what was measured, and where the rest went."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import ClassVar

import pytest
from fake_clock import FakeClock

from benchmarks.cluster_runs import batch_cpu, host_cpu
from benchmarks.cluster_runs import point as scaling_point
from benchmarks.cluster_runs.cold_loads import Calm
from benchmarks.cluster_runs.host_cpu import HostCpu
from benchmarks.cluster_runs.load import LINE_STEPS, LOADS, Course, Ideal
from benchmarks.cluster_runs.point import Point, cluster_of, windows
from benchmarks.cluster_runs.stopped import Stopped
from benchmarks.job_scripts import SOURCE_DIR
from benchmarks.scaling import suite as scaling
from benchmarks.scaling.alone import Alone
from tfhet.container import Limits
from tfhet.errors import JobFailed, UsageError
from tfhet.launch.settings import LaunchSettings
from tfhet.planes.tf_service import ServiceSettings
from tfhet.record import WARM_UP_STEPS, Record, RunSummary, Spread
from tfhet.trainer.settings import Settings

IDEAL = Ideal(stages_s=0.08, wire_s=0.02, trainer_s=0.01, cpus=0.2)


def point_of(data_hosts: int, *windows_ms: float, launchers_s: float = 0.0, idle_s: float = 0.0) -> Point:
    """10 steps, which cost what they do apart, and what launchers use beside."""
    kinds = {"workers": 0.8, "trainers": 0.2, "dispatcher": 0.0, "launchers": launchers_s}
    used = {"algo-1": 1.0 + launchers_s}
    return Point(data_hosts, windows_ms, 50.0, 10, 5.0, 1.0 + launchers_s + idle_s, used, {"algo-1": 4.0}, kinds)


def test_a_step_waits_for_all_cpus_until_the_dnn_host_has_enough_to_do_alone() -> None:
    assert [IDEAL.at(n) for n in (0, 1, 4)] == pytest.approx([0.5, 0.25, 0.1])
    assert [IDEAL.at(9), IDEAL.at(20)] == pytest.approx([0.05, 0.05])
    assert IDEAL.without_wire_at(1) == pytest.approx(0.2)


def test_two_ranks_take_two_batches_in_a_step_and_bring_a_host_each() -> None:
    two = dataclasses.replace(IDEAL, ranks=2)
    assert [two.at(n) for n in (0, 2)] == pytest.approx([IDEAL.at(0), 0.25])
    assert two.at(99) == pytest.approx(IDEAL.at(99)), "each has the same to do alone"
    assert two.without_wire_at(2) == pytest.approx(0.2)
    groups = cluster_of(3, 0.2, Path("data"), ranks=2).groups
    assert [groups[name].hosts for name in ("dnn_group", "data_group")] == [2, 3]
    assert len({load.key for load in LOADS}) == len(LOADS)


def test_a_course_skips_what_may_be_ready_and_both_its_parts_end_with_a_line() -> None:
    for workers, ideal_s in ((1, 0.5), (7, 0.06), (3, 0.2)):
        course = Course.of(workers, ideal_s, 12.0)
        assert course.skipped >= 4 * workers and course.measured >= 3 * LINE_STEPS
        assert course.skipped % LINE_STEPS == course.measured % LINE_STEPS == 0
        assert course.steps > course.skipped + course.measured


def test_the_samples_are_means_of_equal_parts_because_steps_come_in_bursts() -> None:
    assert windows([10.0, 30.0, 20.0, 20.0, 0.0, 80.0, 5.0, 5.0]) == (20.0, 20.0, 40.0, 5.0)


ALONE = Alone((0.08, 0.08), (0.02, 0.02), (0.005, 0.005), (0.005, 0.005), 1000)


def taken_of(worst: float) -> scaling.Taken:
    points = [point_of(0, 500.0, 510.0, 520.0, 505.0), point_of(6, *(1e3 * IDEAL.at(6) * worst,) * 4)]
    dear = Alone((0.16,), (0.04,), (0.01,), (0.01,), 1000)
    pairs = [scaling.Pair(point, ALONE.ideal(0.2), dear.ideal(0.2)) for point in points]
    return scaling.Taken(LOADS[0], [ALONE], pairs, throttled=[dear])


def test_the_worst_point_is_the_figure_and_every_point_has_one() -> None:
    figures = scaling.figures_of([taken_of(1.2)])
    assert figures[scaling.WORST].value == pytest.approx(1.2)
    assert figures["scaling.aws_cifar.example.data_hosts_0"].value == pytest.approx(1.0175)
    assert figures["scaling.aws_cifar.example.data_hosts_0"].n == 1, "a run is a sample"
    assert figures["scaling.aws_cifar.example.without_wire_0"].value == pytest.approx(1.0175 * 0.5 / 0.4)
    assert figures["scaling.aws_cifar.example.wire_ms"].value == pytest.approx(20.0)
    assert figures["scaling.aws_cifar.example.stages_throttled_ms"].value == pytest.approx(160.0)
    assert figures["scaling.aws_cifar.example.vs_quota_0"].value == pytest.approx(1.0175 / 2)
    assert scaling.rows(taken_of(1.2))[0]["x ideal"] == pytest.approx(1.018, abs=1e-3)
    assert scaling.rows(taken_of(1.2))[0]["dnn host ms"] == pytest.approx(100.0)


def test_the_suite_fails_when_a_point_is_over_the_target_and_names_it() -> None:
    def record_of(worst: float) -> Record:
        taken = taken_of(worst)
        return Record.of(
            "scaling", scaling.figures_of([taken]), details={"rows": scaling.rows(taken), "runs": None, "loads": {}}
        )

    assert scaling.SUITE.is_kept(record_of(1.04)) and not scaling.SUITE.is_kept(record_of(1.06))
    assert "data_hosts_6" in scaling.SUITE.notes(record_of(1.06))[-1]


def options_of(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int)
    parser.add_argument("--warmup", type=int)
    scaling.SUITE.options(parser)
    return parser.parse_args(list(words))


@pytest.mark.parametrize("words", [("--points", "1,-2"), ("--points", "all"), ("--loads", "mine"), ("--cpus", "0")])
def test_what_cannot_be_measured_is_refused(words: Sequence[str]) -> None:
    with pytest.raises(UsageError, match=words[0]):
        scaling.SUITE.run(options_of(*words), lambda event: None, ())


class FakeChild:
    """Says what batches cost, again and again the last."""

    costs: ClassVar[list[float]] = []

    def __init__(self, module: str, *words: str):
        self._costs = [*FakeChild.costs]

    def ask(self, request: object, limit_s: float, limits: Limits | None = None) -> dict[str, object]:
        cost = self._costs.pop(0) if len(self._costs) > 1 else self._costs[0]
        shares = {"stages_s": 0.8, "wire_s": 0.2, "reader_s": 0.05, "after_s": 0.05}
        return {**{name: [share * cost] * 3 for name, share in shares.items()}, "bytes_per_batch": 1}

    @classmethod
    @contextlib.contextmanager
    def started(cls, module: str, *words: str) -> Iterator[FakeChild]:
        yield cls(module, *words)


@pytest.fixture
def suite(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Record]:
    """Runs the suite with runs of `measured`, whose parts cost `costs` each time that is asked."""

    def run(measured: Callable[..., Point], costs: Sequence[float], *words: str) -> Record:
        FakeChild.costs = [*costs]
        monkeypatch.setattr(scaling, "LimitedChild", FakeChild)
        monkeypatch.setattr(scaling, "idle_loops", contextlib.nullcontext)
        monkeypatch.setattr(scaling, "Calm", lambda: Calm(0.0))
        monkeypatch.setattr(scaling, "measured", measured)
        monkeypatch.setattr(scaling, "_write", lambda *_: None)
        monkeypatch.setattr(scaling.kernel, "require", lambda what: None)
        return scaling.SUITE.run(options_of(*words), lambda event: None, ("tfhet", "bench", "scaling"))

    return run


def test_all_points_of_all_loads_are_measured_and_drawn(suite: Callable[..., Record], tmp_path: Path) -> None:
    asked: list[tuple[str, int]] = []

    def measured(load: object, ideal: Ideal, data_hosts: int, channel: Path, *_: object) -> Point:
        asked.append((channel.name, data_hosts))
        return point_of(data_hosts, *(1e3 * ideal.at(data_hosts),) * 4)

    words = ("--points", "0,2", "--loads", f"{LOADS[0].key},{LOADS[1].key}", "--repeats", "2")
    record = suite(measured, [0.1], *words)
    assert asked == [(f"{load.key}-data", hosts) for load in LOADS[:2] for hosts in (0, 2, 2, 0)]
    assert record.figures[scaling.WORST].value == pytest.approx(1.0)
    assert [row["data hosts"] for row in record.details["rows"]] == [0, 2, 0, 2]
    pytest.importorskip("matplotlib")
    assert scaling._draw(record, tmp_path / "scaling.svg").stat().st_size > 1000


def test_a_point_is_held_against_what_its_parts_cost_right_before_and_right_after_it(
    suite: Callable[..., Record],
) -> None:
    def measured(load: object, ideal: Ideal, data_hosts: int, *_: object) -> Point:
        return point_of(data_hosts, *(500.0,) * 4)

    # With 0.2 CPUs, 0.1 s of CPU take 500 ms. The machine is half as fast for the second run.
    words = ("--points", "0", "--loads", LOADS[0].key, "--repeats", "3", "--cpus", "0.2")
    # In each round it is asked with a quota, before the run, and after it; and once more before all.
    record = suite(measured, [0.1, 0.3, 0.1, 0.1, 0.4, 0.1, 0.2, 0.5, 0.2, 0.2, 0.3], *words)
    samples = record.figures[f"scaling.{LOADS[0].key}.data_hosts_0"].samples
    assert samples == pytest.approx((1.0, 1 / 1.5, 0.5))
    alone = (0.1, 0.1, 0.1, 0.1, 0.2, 0.2, 0.2)
    assert record.figures[f"scaling.{LOADS[0].key}.stages_ms"].samples == pytest.approx(
        [800.0 * cost for cost in alone for _ in range(3)]
    )
    throttled = [800.0 * cost for cost in (0.3, 0.4, 0.5) for _ in range(3)]
    assert record.figures[f"scaling.{LOADS[0].key}.stages_throttled_ms"].samples == pytest.approx(throttled)
    over = (1 / 3, 1 / 4, 1 / 5)
    assert record.figures[f"scaling.{LOADS[0].key}.vs_quota_0"].samples == pytest.approx(over)
    # Two processes at once; the other one, which is new, was asked once before.
    assert record.figures[f"scaling.{LOADS[0].key}.stages_beside_ms"].samples == pytest.approx((240.0,) * 6)


def test_a_run_that_fails_is_made_again_once_and_the_record_says_why(suite: Callable[..., Record]) -> None:
    folders: list[str] = []

    def measured(load: object, ideal: Ideal, data_hosts: int, channel: Path, folder: Path, *_: object) -> Point:
        folders.append(folder.name)
        if len(folders) in fails:
            raise JobFailed("a worker was lost")
        return point_of(data_hosts, *(1e3 * ideal.at(data_hosts),) * 4)

    words = ("--points", "1", "--loads", LOADS[0].key, "--repeats", "1")
    fails = {1}
    record = suite(measured, [0.1], *words)
    assert folders == [f"{LOADS[0].key}-1-0", f"{LOADS[0].key}-1-0-again"]
    assert any("a worker was lost" in line for line in scaling.SUITE.notes(record))
    fails, folders = {1, 2}, []
    with pytest.raises(JobFailed):
        suite(measured, [0.1], *words)


def test_a_suite_that_is_told_to_stop_makes_no_run_again(suite: Callable[..., Record]) -> None:
    runs: list[int] = []

    def measured(*what: object) -> Point:
        runs.append(1)
        raise Stopped("told to stop")

    with pytest.raises(JobFailed, match="told to stop"):
        suite(measured, [0.1], "--points", "1", "--loads", LOADS[0].key)
    assert len(runs) == 1


def test_the_arguments_of_a_load_are_understood_by_the_launcher_and_by_the_trainer() -> None:
    for load in LOADS:
        settings, rest = LaunchSettings.parse(load.arguments(41))
        service = ServiceSettings.of(settings.planes)
        assert service.dnn_host_workers == service.data_host_workers == 1
        asked = Settings.parse(rest)
        assert (asked.step_ms, asked.steps_per_epoch, asked.batch_size) == (0.0, 41, load.batch_size)
        if load.form == "own":
            assert asked.model == "emulated" and not settings.train_script
        else:
            assert (SOURCE_DIR / settings.train_script).is_file()


def job_of(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, course: Course, looks: list[HostCpu]) -> scaling_point.Job:
    """Not run: told lines by the test, its hosts looked at in the looks' order."""
    launcher = tmp_path / "launcher.py"
    launcher.touch()
    monkeypatch.setattr(scaling_point.HostCpu, "now", classmethod(lambda cls, groups: looks.pop(0)))
    monkeypatch.setattr(scaling_point, "MODE", {"hosts": "process", "start": "alone", "code": tmp_path})
    return scaling_point.Job(cluster_of(1, 0.2, tmp_path), ["launcher.py"], tmp_path / "run", course, 10.0)


def look(at_s: float, used_s: float) -> HostCpu:
    return HostCpu(
        at_s, {"algo-1": used_s, "algo-2": 0.0}, {"algo-1": 0.0, "algo-2": 0.0}, {("algo-1", 7, "workers"): used_s}
    )


def test_a_point_is_made_of_the_steps_between_the_two_looks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    job = job_of(monkeypatch, tmp_path, Course(8, 8), [look(10.0, 1.0), look(12.0, 1.5)])
    for step in (4, 8, 12, 16):
        job._hear(f"algo-1 | [tfhet] step={step} epoch=0 step_ms=1.0 examples_per_s=3 wait_pct=0.0")
    steps = [999.0] * (8 - WARM_UP_STEPS) + [10.0, 20.0] * 4 + [999.0]
    summary = RunSummary(exit_code=0, step_ms=Spread.of(steps), wait_ms=Spread.of([5.0] * len(steps)))
    found = job.point(summary, 0.2)
    assert found.data_hosts == 1 and found.steps == 8 and found.windows_ms == (15.0,) * 4
    assert found.wait_pct == pytest.approx(100 * 5 / 15)
    assert found.seconds == 2.0 and found.quota_s == pytest.approx(0.8)
    assert found.kinds_s["workers"] == 0.5 and found.used_s["algo-1"] == 0.5


def test_a_run_that_failed_or_was_not_heard_to_its_end_has_no_point(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    job = job_of(monkeypatch, tmp_path, Course(8, 8), [look(10.0, 1.0)])
    job._hear("[tfhet] step=8 epoch=0 step_ms=1.0 examples_per_s=3 wait_pct=0.0")
    spread = Spread.of([1.0] * 14)
    with pytest.raises(JobFailed, match="1 of 2 were heard of"):
        job.point(RunSummary(exit_code=0, step_ms=spread, wait_ms=spread), 0.2)
    with pytest.raises(Stopped):
        job.point(RunSummary(exit_code=1, cause="stopped on request"), 0.2)
    with pytest.raises(JobFailed, match="a rank was lost"):
        job.point(RunSummary(exit_code=1, cause="a rank was lost"), 0.2)


class Group:
    """A cgroup with one process, this one."""

    def __init__(self, used_s: float):
        self.used_s = used_s

    def cpu_s(self) -> float:
        return self.used_s

    def throttled_s(self) -> float:
        return 2 * self.used_s

    def pids(self) -> list[int]:
        import os

        return [os.getpid(), 2**22 + 1]


def test_hosts_are_looked_at_twice_and_the_difference_counts() -> None:
    clock, group = FakeClock(5.0), Group(1.0)
    first = HostCpu.now({"algo-1": group}, clock)
    clock.sleep(2.0)
    group.used_s = 1.5
    used = HostCpu.now({"algo-1": group}, clock) - first
    assert (used.at_s, used.total_s, used.throttled_s["algo-1"]) == (2.0, 0.5, 1.0)
    assert used.of(host_cpu.LAUNCHERS) >= 0.0 and used.of(host_cpu.WORKERS) == 0.0


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("python -m tfhet.planes.tf_service.server dispatcher --port 6000", host_cpu.DISPATCHER),
        ("python -m tfhet.planes.tf_service.server worker --port 6001", host_cpu.WORKERS),
        ("python -m tfhet.trainer --model emulated", host_cpu.TRAINERS),
        ("python scaling_train.py --chain aws-cifar", host_cpu.TRAINERS),
        ("python tfhet_launcher.py --train_script scaling_train.py", host_cpu.LAUNCHERS),
        ("python -m tfhet.launch.init python tfhet_launcher.py", host_cpu.LAUNCHERS),
    ],
)
def test_a_process_is_known_by_its_command_line(line: str, kind: str) -> None:
    assert host_cpu.kind(line.split()) == kind


def test_batches_that_were_ready_are_no_part_of_a_round() -> None:
    ready, made = 100, 0
    of_one_s: list[float] = []

    def batches() -> Iterator[None]:
        nonlocal made
        for made in itertools.count(1):
            if made > ready:
                begun = time.process_time()
                sum(range(20_000))
                of_one_s.append(time.process_time() - begun)
            yield None

    found = batch_cpu.rounds(batches(), 2, 0.02)
    assert len(found) == 2 and all(one.own_s >= min(of_one_s) for one in found)
    assert made >= ready + 2 * batch_cpu.LOOK_BATCHES


def test_photos_as_the_example_writes_them_are_whole_batches_of_normalized_crops(tmp_path: Path) -> None:
    import tensorflow as tf

    from benchmarks.job_scripts import plain
    from tfhet import stages

    picture = tf.io.encode_jpeg(tf.constant(200, tf.uint8, [40, 60, 3])).numpy()
    feature = {
        "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[picture])),
        "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[1])),
    }
    with tf.io.TFRecordWriter(str(tmp_path / "one.tfrecord")) as writer:
        for _ in range(3):
            writer.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())
    (image, label), *rest = plain.dataset([str(tmp_path / "one.tfrecord")], (), stages.parse("imagenet-train"), 3)
    assert image.shape == (3, 224, 224, 3) and label.numpy().tolist() == [1, 1, 1] and not rest
    normal = stages.parse("imagenet-train")[-1]
    expected = [(200 / 255 - mean) / std for mean, std in zip(normal.mean, normal.std, strict=True)]
    assert image.numpy().mean((0, 1, 2)) == pytest.approx(expected, abs=0.02)


def test_the_data_are_links_to_few_files_a_batch_in_each(tmp_path: Path) -> None:
    from benchmarks.cluster_runs import job_data
    from tfhet.source import Sidecar, TFRecordSource

    job_data.write(tmp_path / "data", "aws-cifar", 16, 40)
    source = TFRecordSource.from_directory(tmp_path / "data")
    source.check()
    assert (source.split_count(), source.example_count()) == (32, 32 * job_data.FILE_BATCHES * 16)
    assert len({Path(file).stat().st_ino for file in source.files}) == 4
    sidecar = Sidecar.read(tmp_path / "data")
    assert sidecar is not None and sidecar.classes == tuple("0123456789")
