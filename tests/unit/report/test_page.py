"""report/html.py: one page of runs, a profile, a plan and benchmark records."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from tfhet.errors import DataError, UsageError
from tfhet.record import Figure, Record, RunFolder, RunSummary, Spread
from tfhet.report import Given, page, read_given
from tfhet.report.run_view import RunView, views

EVIL = "<script>alert(1)</script>\"'"


@dataclass(frozen=True)
class Price:
    usd_per_hour: float
    region: str = "us-east-1"
    market: str = "training"
    source: str = "the list"
    date: str = "2026-11-01"


PRICES = {"ml.p4d.24xlarge": Price(37.69), "ml.c5.18xlarge": Price(3.67)}


def run(**changes: Any) -> RunSummary:
    """A homogeneous run that waits for half of its step."""
    values: dict[str, Any] = {
        "name": "alone",
        "mode": "homogeneous",
        "cluster": {"dnn_group": {"hosts": ["algo-1"], "instance_type": "ml.p4d.24xlarge", "role": "dnn"}},
        "exit_code": 0,
        "exit_codes": {"algo-1": 0},
        "batch_size": 1024,
        "ranks": 8,
        "step_ms": Spread.of([191.0, 192.0, 193.0]),
        "wait_ms": Spread.of([95.0, 96.0, 97.0]),
        "wait_pct": 50.0,
    }
    return RunSummary(**{**values, **changes})


def served(**changes: Any) -> RunSummary:
    """The same with two data hosts."""
    values: dict[str, Any] = {
        "name": "served",
        "mode": "heterogeneous",
        "cluster": {
            "data_group": {"hosts": ["algo-1", "algo-3"], "instance_type": "ml.c5.18xlarge", "role": "data"},
            "dnn_group": {"hosts": ["algo-2"], "instance_type": "ml.p4d.24xlarge", "role": "dnn"},
        },
        "step_ms": Spread.of([85.0, 86.0, 87.0]),
        "wait_ms": Spread.of([1.0, 1.0, 1.0]),
        "wait_pct": 1.2,
        "bytes_per_example": 3096.0,
        "stages_where": {"dilate(3)": "data_group", "rescale()": "trainer"},
        "host_cpu_s": {"algo-1": 90.0, "algo-2": 30.0},
        "duration_s": 100.0,
        "limits": {"algo-1": {"cpus": 1.0, "memory_bytes": 1 << 30, "bits_per_s": 1e8}, "algo-2": {"cpus": None}},
        "step_parts_ms": {"wait": 1.0, "compute": 85.0},
    }
    return run(**{**values, **changes})


def profile() -> Record:
    """The profile of two stages, the second of them expensive."""
    parts = [
        {"name": name, "bytes_per_example": size} for name, size in (("read", 10), ("dilate()", 20), ("rescale()", 80))
    ]
    figures = {
        f"profile.{name}.us": Figure.of([us], unit="us")
        for name, us in (("read", 1.0), ("dilate", 2.0), ("rescale", 7.0))
    }
    figures["profile.whole.us"] = Figure.of([10.0], unit="us")
    return Record("profile.pipeline", figures, {"parts": parts})


def plan() -> dict[str, Any]:
    """The plan of three clusters; the second is chosen."""

    def one(data_hosts: int, ms: float, usd: float) -> dict[str, Any]:
        data = "ml.c5.18xlarge" if data_hosts else None
        return {
            "cluster": {
                "text": f"p4d+{data_hosts}",
                "dnn": "ml.p4d.24xlarge",
                "dnn_hosts": 1,
                "data": data,
                "data_hosts": data_hosts,
            },
            "layout": {"where": "on the data hosts", "behind": "dilate()"},
            "step_ms": {"value": ms, "low": ms - 5, "high": ms + 5},
            "examples_per_s": {"value": 8192e3 / ms, "low": 8e6 / ms, "high": 9e6 / ms},
            "usd_per_hour": 37.69 + 3.67 * data_hosts,
            "usd_per_million_examples": {"value": usd, "low": usd * 0.9, "high": usd * 1.1},
            "binding": "data CPUs",
            "on_frontier": True,
            "fits": True,
        }

    decision = ["Today data CPUs bind.", "Take p4d+2: the accelerator binds."]
    return {
        "schema": 1,
        "candidates": [one(0, 192.0, 0.25), one(2, 88.0, 0.13), one(4, 80.0, 0.14)],
        "chosen": 1,
        "runner_up": 2,
        "today": 0,
        "decision": decision,
        "notes": ["assumed"],
    }


def written(folder: Path, *runs: RunSummary) -> list[Path]:
    for summary in runs:
        RunFolder(folder / summary.name).create().write_summary(summary)
    return [folder / summary.name for summary in runs]


@pytest.fixture
def everything(tmp_path: Path) -> Given:
    (tmp_path / "plan.json").write_text(json.dumps(plan()))
    bench = Record("stages", {f"stages.{n}.us": Figure.of([n, n + 1.0], unit="us") for n in range(1, 30)}).write(
        tmp_path / "b.json"
    )
    paths = [*written(tmp_path, run(), served()), bench]
    files = {"profile": profile().write(tmp_path / "profile.json"), "plan": tmp_path / "plan.json"}
    return replace(read_given(paths, **files), price_of=PRICES.get)


def test_runs_side_by_side_open_with_the_price_performance_table(everything, parsed) -> None:
    found = parsed(page(everything))
    assert found.headings[0] == (1, "2 runs side by side") and found.headings[1:3] == [
        (2, "Speed and money"),
        (2, "The runs over each other"),
    ]
    assert found.row("alone")[1:] == ["1 x ml.p4d.24xlarge", "37.7", "192 ms", "50.0 %", "2.01", "0.245", "1", "–"]
    cells = found.row("served")
    assert cells[2:] == ["45.0", "86.0 ms", "1.2 %", "1.08", "0.131", "2.23x", "46 %"]
    assert "served is 2.23 times as fast as alone, and an example costs 46 % less." in found.text
    assert "training, us-east-1: the list, 2026-11-01" in found.text


def test_a_run_without_a_known_price_shows_a_dash_and_says_why(parsed) -> None:
    runs = tuple(views([(run(), None), (served(), None)]))
    found = parsed(page(Given(runs, price_of={"ml.p4d.24xlarge": Price(37.69)}.get)))
    assert found.row("served")[2] == "–" and found.row("served")[-1] == "–"
    assert "served: no price of ml.c5.18xlarge is known." in found.text
    assert "what it costs is not known" in found.text


def test_each_run_has_its_verdict_its_hosts_and_its_cut(everything, parsed) -> None:
    found = parsed(page(everything))
    waits = "50.0 % of the step (median 50.0 %) is waiting for data, without which it would be 2.00 times faster"
    assert f"Input-bound: {waits}; 3 steps are too few to tell stalls" in found.text
    assert "First make rescale() cheaper, which is 70 % of the pipeline's CPU. The plan says: take p4d+2" in found.text
    assert "Not input-bound: waiting for data is 1.2 % of the step (median 1.2 %), so" in found.text
    assert "the cut: 3.02 KiB per example travel" in found.text
    assert found.row("algo-1 (data_group)")[2] == "0.900 CPUs"
    assert ["algo-1", "data_group", "90.0 %"] in [row[:3] for table in found.tables for row in table]
    assert found.row("compute")[2] == "85.0 ms"


def test_the_profile_the_plan_and_the_records_are_drawn(everything, parsed) -> None:
    found = parsed(page(everything))
    assert found.row("dilate()")[2:3] == ["2.00 us"]
    told = [row for table in found.tables for row in table if row[0] == "dilate()" and len(row) == 6]
    assert told == [["dilate()", "2.00 us", "20.0 %", "–", "20.0 B", "data_group"]]
    assert [found.row(name)[1] for name in ("1. p4d+2", "2. p4d+4", "3. p4d+0")] == ["chosen", "runner-up", "today"]
    beside = next(table for table in found.tables if "projected step, ms" in table[0])
    assert [row[0] for row in beside[1:]] == ["alone", "served"]
    assert beside[2][4:] == ["-2 %", "yes"]
    off = replace(everything, runs=(RunView.of(served(step_ms=Spread.of([132.0]))),))
    assert next(table for table in parsed(page(off)).tables if "projected step, ms" in table[0])[1][4:] == [
        "+50 %",
        "no",
    ]
    assert "All 29 figures" in found.text


def test_the_numbers_of_a_page_come_from_the_record(parsed) -> None:
    """Other numbers, another page: nothing that looks measured is left of the first."""
    samples = [[411.25, 412.5, 413.75], [7.125, 7.25, 7.375]]
    first, second = (
        parsed(page(Given((RunView.of(run(step_ms=Spread.of(one), wait_ms=None, wait_pct=None)),)))).text
        for one in samples
    )
    assert re.findall(r"\b41[123]\.?\d*\b", first) and not re.findall(r"\b41[123]\.?\d*\b", second)
    assert "7.25" in second and "7.25" not in first


def test_a_line_runs_through_its_steps_with_the_area_below_it_and_one_step_is_a_line_across() -> None:
    shown = page(Given((RunView.of(run(step_ms=Spread.of([10.0, 20.0, 10.0]), wait_ms=None)),)))
    line = "M0.00,50.00L500.00,0.00L1000.00,50.00"
    assert f'd="{line}"' in shown and f'd="{line}L1000.00,100.00L500.00,100.00L0.00,100.00Z"' in shown
    shown = page(Given((RunView.of(run(step_ms=Spread.of([10.0]), wait_ms=None)),)))
    assert 'd="M0.00,0.00H1000"' in shown and 'class="band"' not in shown


def test_the_line_of_the_frontier_joins_its_clusters_from_slow_to_fast(everything) -> None:
    (edge,) = re.findall(r'class="edge" d="M([^"]*)"', page(everything))
    assert [float(place.split(",")[0]) for place in edge.split("L")] == sorted(
        float(place.split(",")[0]) for place in edge.split("L")
    )
    assert edge.count("L") == 2


def test_a_page_of_a_record_alone_is_called_by_its_name(parsed) -> None:
    for path in sorted((Path(__file__).parents[3] / "results").glob("*.json")):
        found = parsed(page(read_given([path])))
        assert found.headings[0][1] in (json.loads(path.read_text())["name"], "demo")


def test_what_is_given_is_known_by_its_content(tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(DataError, match="neither a run summary nor a benchmark record"):
        read_given([tmp_path / "other.json"])
    with pytest.raises(UsageError, match="no run summary at"):
        read_given([tmp_path])
    with pytest.raises(UsageError, match="plan .*has no schema version"):
        read_given(written(tmp_path, run()), plan=tmp_path / "other.json")


def test_runs_of_one_name_are_told_apart(parsed) -> None:
    found = parsed(page(Given(tuple(views([(run(), None), (run(), None)])))))
    assert {"alone", "alone #2"} <= {text for _, text in found.headings}


def test_runs_of_one_name_are_called_by_their_folders(tmp_path: Path, parsed) -> None:
    paths = [tmp_path / part for part in ("x/first", "x/second", "y/second")]
    found = [view.name for view in views([(run(), path) for path in paths] + [(served(), paths[0]), (run(), None)])]
    assert found == ["first", "second", "second #2", "served", "alone"]


def learnt(name: str, *losses: float) -> RunSummary:
    return run(name=name, epochs=[{"epoch": at, "loss": loss, "accuracy": 0.5} for at, loss in enumerate(losses)])


def test_runs_are_drawn_over_each_other(parsed) -> None:
    runs = tuple(views([(learnt("a", 3.0, 2.0), None), (learnt("b", 4.0, 1.0), None), (served(name="c"), None)]))
    shown = page(Given(runs))
    found = parsed(shown)
    assert "step 1: a 191 ms, b 191 ms, c 85.0 ms" in shown and "step 3: a 50.3 %, b 50.3 %, c 1.15 %" in shown
    assert "epoch 1: a 2.00, b 1.00" in shown and "left out: c" in found.text
    assert 'class="line l2"' in shown and shown.count('class="band"') == 6, "lines that are alone have one"
    alone = page(Given(tuple(views([(learnt("a", 3.0, 2.0), None), (learnt("b", 3.0), None)]))))
    assert "The runs over each other" in alone and "loss by epoch" not in alone
    assert "The runs over each other" not in page(Given(runs[:1]))


def test_of_many_runs_the_first_are_drawn_and_the_others_named(parsed) -> None:
    found = parsed(page(Given(tuple(views([(run(name=f"run-{at}"), None) for at in range(8)])))))
    assert "Left out here: run-6, run-7." in found.text


def test_the_page_of_long_runs_stays_small() -> None:
    many = run(
        step_ms=Spread.of([200.0 + at % 17 for at in range(5000)]),
        wait_ms=Spread.of([9.0 + at % 7 for at in range(5000)]),
    )
    assert len(page(Given(tuple(views([(many, None)] * 3))))) < 1_000_000


def test_the_learning_curve_has_what_two_epochs_have(parsed) -> None:
    epochs = [
        {"loss": 2.0, "accuracy": 0.4, "missing": 0},
        {"loss": 1.0, "accuracy": 0.7, "val_loss": 1.5, "missing": 0},
    ]
    shown = page(Given((RunView.of(run(epochs=epochs)),)))
    assert "epoch 1: loss 1.00</title>" in shown and "epoch 0: accuracy 0.400</title>" in shown
    assert "Loss by epoch" not in page(Given((RunView.of(run(epochs=epochs[:1])),)))


def test_no_text_of_a_profile_a_plan_or_a_record_becomes_markup(parsed) -> None:
    from tfhet.report.frontier import read_plan

    hostile = plan()
    hostile["candidates"][1]["cluster"]["text"] = hostile["decision"][0] = hostile["notes"][0] = EVIL
    hostile["candidates"][1]["binding"] = hostile["candidates"][1]["layout"]["behind"] = EVIL
    figures = {EVIL: Figure.of([1.0, 2.0], unit=EVIL, against=EVIL), "other": Figure.of([1.0], unit=EVIL)}
    record = Record(EVIL, figures, command=(EVIL,), machine={EVIL: EVIL}, versions={EVIL: EVIL}, created=EVIL)
    parts = [{"name": EVIL, "bytes_per_example": 1}]
    dear = Record("profile.x", {"profile.x.us": Figure.of([1.0], unit="us")}, {"parts": parts})
    runs = (RunView.of(served(name=EVIL, limits={EVIL: {"cpus": 1.0}}, host_cpu_s={EVIL: 1.0}, not_limited=(EVIL,))),)
    made = page(Given(runs, (record,), dear, read_plan(hostile)))
    found = parsed(made)
    assert "<script" not in made and made.count("&lt;script&gt;") > 15
    assert EVIL in found.headings[0][1]


NUMBER = st.floats(allow_nan=False, allow_infinity=False) | st.just(0.0)
WORDS = st.text(max_size=8)
SPREAD = st.lists(NUMBER, min_size=1, max_size=5).map(
    lambda values: Spread(values[0], values[0], values[-1], tuple(values))
)


@settings(max_examples=40)
@given(
    st.fixed_dictionaries(
        {},
        optional={
            **dict.fromkeys(("name", "job_id", "cause"), WORDS),
            **dict.fromkeys(("started", "duration_s", "wait_pct", "examples_per_s", "bytes_per_example"), NUMBER),
            **dict.fromkeys(("first_batch_s", "teardown_s", "usd_per_million_examples"), NUMBER),
            **dict.fromkeys(("steps", "batch_size", "ranks", "restarts", "exit_code"), st.integers(-(2**62), 2**62)),
            **dict.fromkeys(("step_ms", "wait_ms"), SPREAD),
            **dict.fromkeys(
                ("host_cpu_s", "reading_cpu_s", "step_parts_ms", "metrics"), st.dictionaries(WORDS, NUMBER, max_size=3)
            ),
            "stages_where": st.dictionaries(WORDS, st.sampled_from(["data_group", "trainer", "moon"]), max_size=4),
            "limits": st.dictionaries(WORDS, st.fixed_dictionaries({"cpus": NUMBER, "bits_per_s": NUMBER}), max_size=2),
            "cluster": st.dictionaries(
                WORDS, st.fixed_dictionaries({"hosts": st.lists(WORDS, max_size=3), "instance_type": WORDS}), max_size=2
            ),
            "epochs": st.lists(st.dictionaries(WORDS, NUMBER, max_size=3), max_size=2),
        },
    ),
    st.floats(min_value=0, allow_nan=False, allow_infinity=False),
)
def test_every_finite_run_has_a_page(parsed, values, price) -> None:
    summary = RunSummary.from_json(RunSummary(**values).to_json())
    runs = tuple(views([(summary, None), (served(), None), (summary, None)]))
    parsed(page(Given(runs, price_of=lambda name: Price(price))).replace("http", ""))


@settings(max_examples=40)
@given(
    st.dictionaries(
        WORDS, st.tuples(NUMBER, NUMBER, NUMBER, st.sampled_from(["us", "x", ""]), st.none() | WORDS), max_size=6
    )
)
def test_every_finite_record_has_a_page(parsed, figures) -> None:
    made = {
        name: Figure(value, low, high, unit, 3, against) for name, (value, low, high, unit, against) in figures.items()
    }
    parsed(page(Given(records=(Record("any", made),))).replace("http", ""))
