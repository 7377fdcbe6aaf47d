"""bench/instances.py and its parts: types with their assumed speeds, what a run came to, why a type loses."""

from __future__ import annotations

import argparse
import contextlib
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from fake_clock import FakeClock
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.cluster_runs.host_cpu import HostCpu
from benchmarks.instances import run as instances_run
from benchmarks.instances import suite as instances
from benchmarks.instances.candidate import TYPES, Candidate, candidates, parse_speeds
from benchmarks.instances.load import IMAGE_BYTES, LOADS, InstanceLoad
from benchmarks.instances.reason import Standing, bound, cheapest, fastest, reason
from benchmarks.instances.run import InstanceRun, result_of
from benchmarks.instances.table import best, draw, figures_of, rows
from benchmarks.job_scripts.instances_train import INPUTS, paced
from tfhet.catalogue import shipped
from tfhet.container import kernel
from tfhet.errors import JobFailed, UsageError
from tfhet.record import Record, RunSummary
from tfhet.units import GIB

CHEAP, DEAR = "ml.g4dn.2xlarge", "ml.g5.4xlarge"
BYTES = round(3.2 * GIB)


def candidate(name: str) -> Candidate:
    return candidates([name], shipped())[0]


def standing(name: str, *seconds: float | None, accelerator: float = 100.0, cpu: float = 20.0) -> Standing:
    """Runs that took so long; None: killed for memory."""
    runs = [
        InstanceRun(None, None, None, 100.0, BYTES) if one is None else InstanceRun(one, accelerator, cpu, 30.0, BYTES)
        for one in seconds
    ]
    return Standing(candidate(name), runs)


def options(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int)
    parser.add_argument("--warmup", type=int)
    instances.SUITE.options(parser)
    return parser.parse_args(list(words))


def test_a_speed_is_assumed_with_its_source_unless_it_is_given():
    assumed, given = candidate(DEAR), candidates([DEAR], shipped(), speeds={"A10G": 2.5})[0]
    assert assumed.step_ms(300.0) == pytest.approx(160.0)
    assert assumed.row()["its speed"] == "assumed: 600 GB/s of memory, NVIDIA A10G data sheet"
    assert given.step_ms(300.0) == pytest.approx(120.0) and given.row()["its speed"] == "as given"


def test_prices_are_those_of_one_market():
    # Of the first alone SageMaker's price is known, of both only that of EC2.
    assert candidate("ml.g5.xlarge").price.market == "sagemaker training"
    both = candidates(["ml.g5.xlarge", "ml.p3.2xlarge"], shipped())
    assert {one.price.market for one in both} == {"ec2"}
    assert [one.name for one in candidates(TYPES, shipped())] == list(TYPES)


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["ml.m5.large"], "0 accelerators; only types with one"),
        (["ml.p3.8xlarge"], "4 accelerators"),
        (["ml.nothing"], "unknown instance type"),
        ([], "name at least one"),
    ],
)
def test_types_that_cannot_be_compared_are_refused(names, said):
    with pytest.raises(UsageError, match=said):
        candidates(names, shipped())


def test_types_without_a_common_price_are_refused_and_what_to_do_is_said():
    with pytest.raises(UsageError, match=r"no market has a price for all of ml\.p3\.2xlarge in mars.*prices refresh"):
        candidates(["ml.p3.2xlarge"], shipped(), region="mars")


def test_speeds_are_read_and_nonsense_is_refused():
    assert parse_speeds("") == {} and parse_speeds("A10G=2.4, V100=3") == {"A10G": 2.4, "V100": 3.0}
    for wrong in ("A10G", "A10G=fast", "A10G=0", "A10G=-1", "A10G=nan"):
        with pytest.raises(UsageError, match="KIND=X"):
            parse_speeds(wrong)


def test_what_is_kept_in_memory_is_scaled_as_memory_is_and_read_more_than_once():
    kept = next(load for load in LOADS if load.kept_gib)
    assert kept.images(0.1) * IMAGE_BYTES == pytest.approx(4.0 * GIB, rel=0.01)
    assert kept.images(0.1) % kept.batch_size == 0
    assert kept.steps_at(0.1) * kept.batch_size == 2 * kept.images(0.1)
    # More than some of the types have, and less than others.
    sizes = [shipped().instance(name).memory_gib for name in TYPES]
    assert min(sizes) < kept.kept_gib < max(sizes)


def test_the_script_knows_how_to_make_every_loads_input_and_takes_its_arguments():
    from benchmarks.job_scripts.instances_train import _arguments

    for load in LOADS:
        taken = _arguments(load.arguments(12.5, 0.1))
        assert taken.input in INPUTS and taken.step_ms == 12.5 and taken.core_share == 0.1
        assert taken.steps == load.steps_at(0.1)
    assert _arguments(LOADS[0].arguments(12.5, 0.1, 7)).steps == 7


@settings(deadline=None)
@given(st.lists(st.floats(0.0, 1.0), max_size=20), st.sampled_from([0.05, 0.1, 0.5, 1.0]))
def test_one_core_of_a_scaled_host_never_gives_more_than_its_share(costs: list[float], share: float) -> None:
    clock, used = FakeClock(), itertools.accumulate(costs, initial=0.0)
    spent = [0.0]

    def items():
        next(used)
        for cost in costs:
            spent[0] = next(used)
            clock.sleep(cost)  # alone it runs on a whole core
            yield cost

    made = list(paced(items(), share, clock, lambda: spent[0]))
    assert made == costs
    assert clock.monotonic() == pytest.approx(sum(costs) / share)


def summary(exit_code: int = 0, kills: int | None = 0, peak: int | None = BYTES // 2, **fields: Any) -> RunSummary:
    use = {"memory_peak_bytes": peak, "out_of_memory_kills": kills}
    limits = {"cpus": 0.8, "memory_bytes": BYTES}
    return RunSummary(exit_code=exit_code, host_use={"algo-1": use}, limits={"algo-1": limits}, **fields)


TOLD = {"seconds": "10.0", "busy_s": "2.5"}
USED = HostCpu(10.0, {"algo-1": 4.0}, {}, {})


def test_a_run_is_told_as_shares_of_what_its_host_may_use():
    run = result_of(summary(), TOLD, USED)
    assert run == InstanceRun(10.0, 25.0, pytest.approx(50.0), pytest.approx(50.0), BYTES)  # type: ignore[arg-type]
    assert run.usd(3.6) == pytest.approx(0.01)
    assert result_of(summary(peak=None), TOLD, USED).memory_pct is None


def test_a_job_that_the_kernel_killed_for_its_memory_is_a_result():
    run = result_of(summary(exit_code=1, kills=1, peak=BYTES), {}, None)
    assert run.seconds is None and run.usd(1.0) is None and run.memory_pct == 100.0


@pytest.mark.parametrize(
    ("made", "told", "said"),
    [
        (summary(exit_code=1, cause="the script ended with code 1"), {}, "the script ended with code 1"),
        (summary(exit_code=1, kills=None, cause="killed"), {}, "killed"),
        (summary(), {}, "nobody heard that it ended"),
        (summary(not_limited=("memory",)), TOLD, "could not be limited: memory"),
    ],
)
def test_any_other_failure_is_one_of_the_suite(made, told, said):
    with pytest.raises(JobFailed, match=said):
        result_of(made, told, USED if told else None)


def test_the_best_in_time_and_in_cost_may_be_different_types():
    some = [standing(CHEAP, 20.0, 20.0), standing(DEAR, 12.0, 12.0), standing("ml.g5.xlarge", None, 20.0)]
    assert best(some) == {"fastest": DEAR, "cheapest": CHEAP}
    figures = figures_of({"job": some})
    assert figures["instances.job.g4dn_2xlarge.time_vs_best"].value == pytest.approx(20 / 12)
    assert figures["instances.job.g4dn_2xlarge.cost_vs_best"].value == pytest.approx(1.0)
    assert figures["instances.job.g5_4xlarge.cost_vs_best"].value == pytest.approx(12 * 1.624 / (20 * 0.752))
    assert figures["instances.job.g5_4xlarge.cost_vs_best"].against == f"{CHEAP}, the cheapest"
    # Killed in one of its runs: no time, no cost, but what was used is told.
    assert "instances.job.g5_xlarge.time_vs_best" not in figures
    assert figures["instances.job.g5_xlarge.memory_pct"].n == 2


@settings(deadline=None)
@given(st.lists(st.one_of(st.none(), st.floats(1.0, 1e3)), min_size=len(TYPES), max_size=len(TYPES)))
def test_the_best_is_one_and_nothing_is_better_than_it(seconds: list[float | None]) -> None:
    some = [standing(name, one) for name, one in zip(TYPES, seconds, strict=True)]
    figures = figures_of({"job": some})
    ended = [one for one in seconds if one is not None]
    for name in ("time_vs_best", "cost_vs_best"):
        values = [figure.value for key, figure in figures.items() if key.endswith(name)]
        assert len(values) == len(ended)
        assert not ended or min(values) == 1.0
    assert (best(some)["fastest"] is None) == (not ended)
    assert len([row for row in rows("job", some) if "fastest" in str(row["why"]).split(";")[0]]) == bool(ended)


@pytest.mark.parametrize(
    ("one", "said"),
    [
        (standing(CHEAP, None), "out of memory: killed at its limit (3.2 GiB here, 32 GiB there)"),
        (standing(CHEAP, 9.0, accelerator=95.0), "its T4 is busy"),
        (standing(CHEAP, 9.0, accelerator=30.0, cpu=96.0), "accelerator starved (30 % busy): all 8 vCPUs busy"),
        (
            standing(CHEAP, 9.0, accelerator=30.0, cpu=15.0),
            "accelerator starved (30 % busy): one core busy, 1.2 of 8 vCPUs used",
        ),
        (
            standing(CHEAP, 9.0, accelerator=30.0, cpu=50.0),
            "nothing is full: accelerator 30 % busy, 4.0 of 8 vCPUs used",
        ),
    ],
)
def test_what_binds_a_job_is_said_of_what_was_measured(one, said):
    assert bound(one) == said


def test_a_loser_is_told_why_it_loses():
    some = [
        standing(CHEAP, 20.0),
        standing(DEAR, 19.9),
        standing("ml.p3.2xlarge", 10.0),
        standing("ml.g5.xlarge", None),
    ]
    fast, cheap = fastest(some), cheapest(some)
    assert fast is some[2] and cheap is some[0]
    assert reason(some[0], some).startswith("cheapest; ") and reason(some[2], some).startswith("fastest; ")
    assert reason(some[1], some).endswith(f"no faster than {CHEAP} at 2.2 times the price")
    assert reason(some[3], some).startswith("out of memory")
    slow = [standing(CHEAP, 90.0), standing(DEAR, 10.0)]
    assert reason(slow[0], slow).endswith(f"slower than {DEAR} by more than it is cheaper")
    faster = [standing(CHEAP, 20.0), standing(DEAR, 10.0), standing("ml.p3.2xlarge", 9.0)]
    assert f"2.0 times as fast as {CHEAP} at 2.2 times the price" in reason(faster[1], faster)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--workloads", "mine"], "unknown --workloads 'mine'"),
        (["--types", "ml.m5.large"], "0 accelerators"),
        (["--speeds", "T4"], "KIND=X"),
        (["--cpu_scale", "0"], "--cpu_scale"),
        (["--steps", "0"], "--steps"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_anything_starts(words: Sequence[str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        instances.SUITE.run(options(*words), lambda event: None, ())


def test_a_type_that_is_larger_than_the_machine_is_refused_for_its_time_would_be_wrong() -> None:
    instances.check_fits(candidate(DEAR), 0.1, cpus=2, memory_bytes=8 * GIB)
    for cpus, memory_bytes in ((1, 8 * GIB), (2, 6 * GIB)):
        with pytest.raises(UsageError, match=r"16 vCPUs and 64 GiB times 0\.1 are more.*a smaller --cpu_scale"):
            instances.check_fits(candidate(DEAR), 0.1, cpus=cpus, memory_bytes=memory_bytes)


def test_every_type_runs_every_workload_in_turn_and_all_is_told_and_drawn(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[tuple[str, str]] = []

    def measured(load: InstanceLoad, one: Candidate, folder: Path, **how: Any) -> InstanceRun:
        asked.append((load.key, one.name))
        assert not folder.exists() and how["scale"] == 0.1
        seconds = None if load.kept_gib > one.instance.memory_gib else one.step_ms(load.step_ms)
        return InstanceRun(seconds, None if seconds is None else 95.0, None if seconds is None else 30.0, 40.0, BYTES)

    monkeypatch.setattr(instances, "measured", measured)
    monkeypatch.setattr(kernel, "require", lambda *_: None)
    monkeypatch.setattr(instances, "awake", contextlib.nullcontext)
    monkeypatch.setattr(instances, "check_fits", lambda *_: None)
    chosen = options("--types", f"{CHEAP},{DEAR}", "--workloads", "memory_bound,accelerator_bound")
    chosen.repeats, chosen.warmup = 2, 1
    told: list[str] = []
    record = instances.SUITE.run(chosen, lambda event: told.append(event.fields["case"]), ("tfhet",))
    every = [(load, name) for load in ("memory_bound", "accelerator_bound") for name in (CHEAP, DEAR)]
    assert asked == [*every, *every[1:], *every[:1], *every[2:], *every[:2]]
    assert told[0] == f"memory_bound {CHEAP}" and len(told) == 12
    assert record.figures["instances.accelerator_bound.g5_4xlarge.time_vs_best"].n == 2
    again = Record.from_json(record.to_json())
    assert again.details["best"]["memory_bound"] == {"fastest": DEAR, "cheapest": DEAR}
    notes = "\n".join(instances.SUITE.notes(again))
    assert "assumed: 600 GB/s of memory" in notes and "out of memory" in notes and "nobody measured here" in notes
    pytest.importorskip("matplotlib")
    assert draw(again, tmp_path / "made.svg").stat().st_size > 0


def test_a_run_names_the_host_after_its_type_and_scales_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made: list[Any] = []

    class Ran:
        def __init__(self, cluster: Any, command: Sequence[str], folder: Path, limit_s: float):
            made.append((cluster, command))

        def run(self) -> RunSummary:
            return summary()

        def result(self, found: RunSummary) -> InstanceRun:
            return result_of(found, TOLD, USED)

    monkeypatch.setattr(instances_run, "Job", Ran)
    run = instances_run.measured(LOADS[0], candidate(DEAR), tmp_path, scale=0.1, steps=3, limit_s=9.0)
    ((cluster, command),) = made
    (group,) = cluster.groups.values()
    assert run.seconds == 10.0
    assert (group.instance_type, group.cpus, group.memory_mib) == (DEAR, pytest.approx(1.6), pytest.approx(6553.6))
    assert command[command.index("--steps") + 1] == "3"
    assert float(command[command.index("--step_ms") + 1]) == pytest.approx(LOADS[0].step_ms * 320 / 600)


@pytest.mark.slow
@pytest.mark.timeout(150)
def test_a_job_on_a_host_that_is_too_small_for_it_ends_as_a_result_and_one_that_fits_has_a_time() -> None:
    if kernel.missing("namespace"):
        pytest.skip("needs root, and what `tfhet doctor` names")
    ended = {}
    for load, steps in (("memory_bound", "90"), ("single_core", "8")):
        chosen = options("--types", "ml.g5.xlarge", "--workloads", load, "--steps", steps)
        chosen.repeats, chosen.warmup = 1, 0
        record = instances.SUITE.run(chosen, lambda event: None, ("tfhet",))
        (ended[load],) = record.details["runs_measured"][load]["ml.g5.xlarge"]
    killed, single = ended["memory_bound"], ended["single_core"]
    assert killed["seconds"] is None and killed["memory_pct"] > 90.0
    assert single["seconds"] > 0.0 and 0.0 < single["cpu_pct"] < 60.0 and single["accelerator_pct"] < 90.0
