"""plan/measured_run.py: from the record of a run to the numbers of a plan, and `tfhet plan --run`."""

from __future__ import annotations

from pathlib import Path

import plans
import pytest

from tfhet import planes
from tfhet.__main__ import main
from tfhet.errors import UsageError
from tfhet.events import Event
from tfhet.plan import ClusterShape, CutCost, Layout, PipelineCost, Trainer, Where, Workload
from tfhet.plan.measured_run import MeasuredRun
from tfhet.profile import Cost, Profile
from tfhet.record import Interval, RunFolder, RunSummary, Spread, StepTime, Timeline, read_json

GROUPS = {
    "data_group": {"hosts": ["algo-1", "algo-2"], "instance_type": "ml.c5.xlarge", "role": "data", "ranks_per_host": 0},
    "dnn_group": {"hosts": ["algo-3"], "instance_type": "ml.p3.8xlarge", "role": "dnn", "ranks_per_host": 2},
}
DURS_MS = [100.0 + at for at in range(21)]
COSTS = planes.get(planes.PREFERRED[0]).costs()


@pytest.fixture
def run_of(tmp_path: Path):
    """`run_of(waits=..., steps=..., **fields)`: the run of a folder with these fields of its summary."""

    def build(waits=(), steps=(), **fields: object) -> MeasuredRun:
        folder = RunFolder(tmp_path / "run").create()
        values = {"step_ms": Spread.of(DURS_MS), "wait_ms": Spread.of([40.0] * len(DURS_MS)), "ranks": 1, **fields}
        values["by_rank"] = [{"rank": rank, "wait_pct": wait_pct} for rank, wait_pct in enumerate(waits)]
        folder.write_summary(RunSummary(**values))  # type: ignore[arg-type]
        if steps:
            Timeline.of(steps).write(folder.timeline_path)
        return MeasuredRun.read(folder.path)

    return build


def ends(interval: Interval) -> tuple[float, ...]:
    return tuple(round(each, 6) for each in (interval.low, interval.value, interval.high))


def test_the_accelerators_step_is_the_step_less_its_wait_with_the_spread_of_the_steps(run_of):
    assert ends(run_of().accelerator_ms) == (62.0, 70.0, 78.0)


def test_a_rank_that_waits_longer_than_rank_0_lengthens_its_steps(run_of):
    """Rank 1 waits for 20 % of 110 ms longer: 22 ms, which rank 0 spends in the allreduce."""
    run = run_of(waits=[35.0, 55.0], ranks=2)
    assert ends(run.accelerator_ms) == (40.0, 48.0, 78.0)
    assert run.uneven_pct == 20.0


def test_the_mean_of_all_ranks_says_how_long_the_others_waited(run_of):
    mine = 100.0 * 40.0 * len(DURS_MS) / sum(DURS_MS)
    assert run_of(ranks=2, wait_pct=mine + 10.0).uneven_pct == pytest.approx(20.0)
    assert run_of(ranks=2, wait_pct=mine - 10.0).uneven_pct == 0.0


def test_ranks_that_wait_alike_wait_at_the_same_time(run_of):
    assert ends(run_of(waits=[35.0, 35.0], ranks=2).accelerator_ms) == (62.0, 70.0, 78.0)


def test_with_the_steps_of_all_ranks_each_step_is_that_of_the_rank_that_waited_longest(run_of):
    """In turn, one of the two ranks waits for 60 of 100 ms, so no step of either has data at hand alone."""
    steps = [
        StepTime(0.1, 0.06 if at % 2 == rank else 0.0, at_s=0.1 * at, step=at + 1, rank=rank)
        for at in range(13)
        for rank in (0, 1)
    ]
    run = run_of(waits=[10.0, 50.0], steps=steps, ranks=2)
    assert ends(run.accelerator_ms) == (40.0, 40.0, 40.0)
    assert run.uneven_pct == 0.0


def test_the_steps_of_one_of_two_ranks_are_not_taken_for_those_of_all(run_of):
    steps = [StepTime(0.2, 0.1, at_s=0.2 * at, step=at + 1) for at in range(9)]
    assert ends(run_of(steps=steps, ranks=2).accelerator_ms) == (62.0, 70.0, 78.0)


def test_a_run_without_steps_says_what_to_do(run_of):
    with pytest.raises(UsageError, match="no step of this run was measured.*--accelerator_ms"):
        run_of(step_ms=None, wait_ms=None).accelerator_ms  # noqa: B018


def test_the_cluster_is_the_groups_with_those_that_train_first(run_of):
    run = run_of(cluster=GROUPS)
    assert (run.cluster, run.dnn_ranks) == ("1*ml.p3.8xlarge+2*ml.c5.xlarge", 2)
    for groups in ({}, {"dnn_group": {"hosts": ["a"], "instance_type": ""}}):
        with pytest.raises(UsageError, match="summary.json does not say what its hosts are: give --cluster"):
            run_of(cluster=groups).cluster  # noqa: B018


def test_the_trainers_cpu_is_that_of_its_process_less_what_it_prepares_or_receives(run_of):
    whole = CutCost("all", 2, Interval(100, 90, 110), Interval.exact(0), 1000.0, "uint8")
    half = CutCost("half", 1, Interval(40, 40, 40), Interval(60, 50, 70), 2000.0, "uint8")
    pipeline, cpu = PipelineCost((half, whole)), Spread(20.0, 18.0, 23.0)
    alone = run_of(cpu_ms=cpu).own_cpu_ms(pipeline, COSTS, 100)
    assert ends(alone) == (7.0, 10.0, 14.0)  # 100 examples of 90 to 110 us
    s_per_gb, of_twice = (COSTS.wire(size).reader_s_per_gb for size in (100_000, 200_000))
    served = run_of(cpu_ms=cpu, mode="heterogeneous").own_cpu_ms(pipeline, COSTS, 100)
    assert served.value == pytest.approx(20.0 - 0.1 * s_per_gb.value)  # 0.1 MB in batches
    places = {"a()": "data_group", "b()": "trainer"}
    cut = run_of(cpu_ms=cpu, mode="heterogeneous", stages_where=places).own_cpu_ms(pipeline, COSTS, 100)
    assert cut.value == pytest.approx(20.0 - 6.0 - 0.2 * of_twice.value)
    assert ends(run_of().own_cpu_ms(pipeline, COSTS, 100)) == (0.0, 0.0, 0.0)


def overhead(run: MeasuredRun, pipeline: PipelineCost, own_ms: float = 0.0) -> float | None:
    """The overhead on a cluster of one host of 4 CPUs that trains and one of 16, in batches of 1000 examples."""
    trainer = Trainer({plans.GPU.gpu_kind: Interval.exact(1.0)}, 1000, Interval.exact(own_ms))
    data_hosts = {"data_hosts": 1, "data": plans.CPU} if run.run.mode == "heterogeneous" else {}
    return run.overhead(Workload(pipeline, trainer, COSTS), ClusterShape(plans.GPU, 1, **data_hosts))


def test_a_run_that_waits_for_cpus_says_how_much_more_a_job_takes_than_its_parts(run_of):
    """1000 examples of 400 us take 100 ms of 4 CPUs; the later steps of the run took 115.5 ms in the mean."""
    pipeline = PipelineCost((CutCost("all", 2, Interval.exact(400), Interval.exact(0), 1000.0, "uint8"),))
    assert overhead(run_of(waits=[40.0]), pipeline) == pytest.approx(1.155, rel=0.01)
    assert overhead(run_of(waits=[40.0]), pipeline, own_ms=40.0) == pytest.approx(1.055, rel=0.01)
    assert overhead(run_of(waits=[5.0]), pipeline) is None
    assert overhead(run_of(waits=[40.0], step_ms=None), pipeline) is None


def test_where_data_hosts_prepare_theirs_are_the_cpus_that_count(run_of):
    """1000 examples of 1600 us take 100 ms of 16 CPUs, but for sending them."""
    pipeline = PipelineCost((CutCost("all", 2, Interval.exact(1600), Interval.exact(0), 10.0, "uint8"),))
    run = run_of(waits=[40.0], cluster=GROUPS, mode="heterogeneous")
    assert run.layout(pipeline) == Layout(Where.DATA, -1)
    assert overhead(run, pipeline) == pytest.approx(1.155, rel=0.01)
    both = {name: {**group, "servers_per_host": 2} for name, group in GROUPS.items()}
    places = {"a()": "data_group", "b()": "data_group"}
    run = run_of(waits=[40.0], cluster=both, mode="heterogeneous", stages_where=places)
    assert run.layout(pipeline) == Layout(Where.EVERYWHERE, 0, servers_per_host=2)
    assert overhead(run, pipeline) == pytest.approx(1.155 * 20 / 16, rel=0.01)


def test_a_run_that_waits_for_a_network_says_nothing_of_cpus(run_of):
    pipeline = PipelineCost((CutCost("all", 2, Interval.exact(1), Interval.exact(0), 1e6, "uint8"),))
    assert overhead(run_of(waits=[40.0], mode="heterogeneous"), pipeline) is None


@pytest.fixture
def planned(run_of, capsys):
    """`planned(*options, **fields)`: the exit code and the output of `tfhet plan --run` on a run that was profiled."""

    def plan(*options: str, **fields: object) -> tuple[int, str]:
        values = {"cluster": GROUPS, "batch_size": 64, "mode": "heterogeneous", "cpu_ms": Spread(5.0, 4.0, 6.0)}
        folder = run_of(**{**values, **fields}).folder
        costs = (Cost("map", (100.0, 101.0), bytes_per_example=1000, dtype="uint8", examples=32, kind="Map"),)
        Profile("dataset", costs).record().write(folder.profile_path)
        code = main(["plan", "--run", str(folder.path), "--max_hosts", "3", *options])
        said = capsys.readouterr()
        return code, said.out + said.err

    return plan


def test_a_plan_takes_all_of_its_numbers_from_the_run(planned):
    """With two ranks on a host of four GPUs: a step of two batches."""
    code, said = planned()
    assert code == 0
    assert "today, 1*ml.p3.8xlarge+2*ml.c5.xlarge: 70 ms (62 to 78) a step of 128 examples".lower() in said.lower()
    assert "takes 70 ms (62 to 78) of batch 64, and 4." in said  # 5 ms less receiving


def test_a_plan_counts_with_the_cpu_that_the_run_took(planned):
    """21 steps of 110 ms in the mean, where the profile says 64 examples of 100 us on a vCPU of each of 8."""
    slow = {"waits": [40.0], "step_ms": Spread.of([1.3 * 2 * 64 * 0.1 / 8] * 21), "wait_ms": Spread.of([1.0] * 21)}
    assert "the run's input took 1." in planned(**slow)[1]
    assert "assumed: 1." in planned(**slow)[1]
    assert "assumed: a job takes no more CPU than its parts alone" in planned(waits=[4.0])[1]


def test_an_option_wins_over_the_run(planned):
    more = ("--cluster", "ml.p3.2xlarge", "--batch_size", "32", "--accelerator_ms", "9..11", "--trainer_cpu_ms", "1")
    code, said = planned(*more)
    assert code == 0
    assert "Today, 1*ml.p3.2xlarge: 10 ms (9 to 11) a step of 32 examples" in said
    assert "and 1 ms of its own CPU" in said
    assert "simulated run" not in planned(*more, status="Completed", cpu_ms=None)[1]
    assert "as the run does not say" not in planned(*more, status="Completed", cpu_ms=None)[1]


def test_the_plan_says_what_the_run_does_not(planned):
    simulated = {"status": "Completed"}
    assert "step is that of the simulated run, on this machine" in planned(**simulated)[1]
    assert "and an unknown amount of its own CPU" in planned(cpu_ms=None)[1]
    assert "the training process takes no CPU of its own" in planned(cpu_ms=None)[1]
    slow = {"step_ms": Spread.of([2.1] * 21), "wait_ms": Spread.of([0.1] * 21)}
    assert "--timeline steps" in planned(waits=[5.0, 45.0], ranks=2, **slow)[1]
    assert "assumed: the accelerator" not in planned()[1]


def test_the_plan_of_a_script_has_the_cut_that_a_script_takes(run_of, capsys):
    """The built-in trainer would be told to send the smaller encoded images, for a network that binds."""
    sizes = {"read": (20_000, "string"), "decode": (150_000, "uint8"), "normalize": (600_000, "float32")}
    costs = tuple(
        Cost(name, (100.0 * at, 101.0 * at), bytes_per_example=size, dtype=dtype, examples=32, kind="Stage")
        for at, (name, (size, dtype)) in enumerate(sizes.items(), 1)
    )
    cuts = {}
    for kind, waits in {"trainer": (), "script": (40.0,)}.items():
        steps = {"step_ms": Spread.of([25_600.0] * 21), "wait_ms": Spread.of([25_500.0] * 21)}
        folder = run_of(waits, cluster=GROUPS, batch_size=6400, mode="heterogeneous", **steps).folder
        Profile("pipeline", costs).record().write(folder.profile_path)
        file = folder.path / f"{kind}.json"
        assert main(["plan", "--run", str(folder.path), "--max_hosts", "3", "--json", str(file)]) == 0
        plan = read_json(file, "plan")
        cuts[kind] = plan["candidates"][plan["mixed"]]["layout"]["behind"]
    assert cuts == {"trainer": "read", "script": "decode"}


def test_without_a_profile_the_error_is_the_command_that_makes_one(run_of, capsys):
    run = run_of(cluster=GROUPS)
    started = {"command": ["/usr/bin/python", "my train.py", "--epochs", "3"], "job_id": "x"}
    run.folder.write_event(Event("training.started", 1.0, started))
    assert main(["plan", "--run", str(run.folder.path)]) == 2
    path = run.folder.profile_path
    wanted = f"no profile of the pipeline at {path}; make one with: tfhet profile --script 'my train.py' --json {path}"
    assert f"{wanted} -- --epochs 3" in capsys.readouterr().err


def test_without_a_run_the_errors_name_it(tmp_path, capsys):
    profile = Profile("p", (Cost("map", (5.0,), examples=8),)).record().write(tmp_path / "p.json")
    for words, error in (
        (["--cluster", "ml.g5.xlarge"], "no profile of the pipeline; make one with: tfhet profile --script SCRIPT.py"),
        (["--profile", str(profile)], "where do you train today? give --run RUN_DIR, or --cluster"),
        (["--profile", str(profile), "--cluster", "ml.g5.xlarge"], "give --run RUN_DIR, or --accelerator_ms"),
        (["--run", str(tmp_path / "none")], "none/summary.json"),
    ):
        assert main(["plan", *words]) == 2
        assert error in capsys.readouterr().err


def test_a_summary_alone_is_a_run_too(run_of, tmp_path):
    run = run_of(cluster=GROUPS)
    alone = MeasuredRun.read(run.folder.summary_path)
    assert (alone.cluster, alone.accelerator_ms) == (run.cluster, run.accelerator_ms)
    assert alone.folder.path == run.folder.path


ALONE = {"mode": "local", "cluster": {"dnn": {**GROUPS["dnn_group"]}}, "waits": [36.0]}


def test_a_contradicted_prediction_is_replaced_by_the_measurement(planned):
    """The profile explains 6.4 ms of CPU for each of two ranks, on 32 CPUs; steps of 6 ms waited for 4 of them."""
    steps = {"step_ms": Spread.of([2.4] * 21), "wait_ms": Spread.of([1.5] * 21)}
    code, said = planned(**ALONE, **steps)
    said = " ".join(said.split())
    assert code == 0
    assert "The run measured 2.4 ms a step on 1*ml.p3.8xlarge, with 36% of waiting for data, but the profile" in said
    assert "this plan counts 5.97 times the profiled CPU" in said
    assert "Today, 1*ml.p3.8xlarge: 2.4 ms" in said
    assert "keeps up" not in said


def test_a_wait_that_cpu_does_not_explain_is_refused(planned):
    code, said = planned(**ALONE)
    assert code == 2
    assert "110 ms a step" in said and "36% of waiting" in said and "times the profiled CPU" in said
    watched = {"cpus_used": {"rank-0": 1.0, "rank-0 workers": 1.5}}
    machine = {"memory_bytes": 1 << 40, "cores_usable": 32}
    code, said = planned("--cluster", "ml.p3.2xlarge", **ALONE, watched=watched, machine=machine)
    assert code == 2
    assert "used 2.5 of 32 CPUs" in said


def test_a_run_that_did_not_wait_bounds_the_cpu_of_its_input(planned):
    """The profile explains 1.6 ms on 8 CPUs; the run took 0.4 ms."""
    steps = {"step_ms": Spread.of([0.1] * 21), "wait_ms": Spread.of([0.0] * 21)}
    code, said = planned(**{**ALONE, "waits": [0.0]}, **steps)
    said = " ".join(said.split())
    assert code == 0
    assert "Today, 1*ml.p3.8xlarge: 0.1 ms" in said


def test_a_wait_of_the_run_is_named_where_the_plan_predicts_none(planned):
    """Its machine has one CPU, the planned cluster eight."""
    machine = {"memory_bytes": 1 << 40, "cores_usable": 1}
    steps = {"step_ms": Spread.of([6.4] * 21), "wait_ms": Spread.of([3.9] * 21)}
    more = {"watched": {"reader": "DataLoader"}, "machine": machine, "ranks": 1}
    cluster = {"script": {"hosts": ["here"], "role": "dnn", "ranks_per_host": 1}}
    code, said = planned(
        "--cluster", "ml.p3.2xlarge", **{**ALONE, "waits": [61.0], "cluster": cluster}, **steps, **more
    )
    said = " ".join(said.split())
    assert code == 0
    assert "The input keeps up" in said
    assert "The run itself waited 61% of the time for data, on its machine" in said


def test_wait_is_named_without_a_prediction(planned):
    """The stated cluster is another one than the run's, so no prediction is compared with the run."""
    code, said = planned("--cluster", "ml.p3.2xlarge", **{**ALONE, "waits": [61.0]})
    said = " ".join(said.split())
    assert code == 0
    assert "The input keeps up" in said
    assert "The run itself waited 61% of the time for data: only a run on 1*ml.p3.2xlarge shows" in said


def test_a_simulated_run_does_not_contradict_a_plan(planned):
    code, said = planned(**ALONE, status="Completed")
    said = " ".join(said.split())
    assert code == 0
    assert "The run measured 110 ms a step" in said and "the CPUs of simulated hosts are not" in said
