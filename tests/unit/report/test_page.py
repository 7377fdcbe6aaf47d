"""report/html.py: one self-contained page of runs, a profile, a plan and benchmark records."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from tfhet import catalogue
from tfhet.errors import DataError, UsageError
from tfhet.events import Event
from tfhet.record import Figure, Record, RunFolder, RunSummary, Spread
from tfhet.report import Given, page, read_given, write_html
from tfhet.report.frontier import read_plan
from tfhet.report.run_view import EVENTS_SHOWN, RunView, views

EVIL = "<script>alert(1)</script>\"'"


Price = partial(
    catalogue.Price, region="us-east-1", market="sagemaker training", source="the list", date=date(2026, 11, 1)
)


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
    figures = {f"stages.{n}.us": Figure.of([n, n + 1.0], unit="us") for n in range(1, 30)}
    paths = [*written(tmp_path, run(), served()), Record("stages", figures).write(tmp_path / "b.json")]
    files = {"profile": profile().write(tmp_path / "profile.json"), "plan": tmp_path / "plan.json"}
    return replace(read_given(paths, **files), price_of=PRICES.get)


def folder(tmp_path: Path, **values: object) -> RunFolder:
    made = RunFolder(tmp_path).create()
    made.write_summary(RunSummary(**values))  # type: ignore[arg-type]
    return made


def test_page_of_a_run_is_complete(tmp_path: Path, parsed) -> None:
    values = run(
        name="demo",
        started=100.0,
        exit_codes={"algo-1": 0, "algo-2/1": -9},
        stages_where={"dilate(size=3)": "data_group"},
        cluster={"data_group": {"hosts": ["algo-1", "algo-3"], "role": "data"}},
        epochs=[{"epoch": 0, "missing": 2, "loss": math.nan}],
        machine={"cpu": "Xeon", "memory_bytes": 1 << 30},
        versions={"tensorflow": "2.15.1"},
        usd_per_million_examples=0.14,
    )
    made = folder(tmp_path, **vars(values))
    made.write_event(Event("host.joined", 101.5, {"host": "algo-1"}))
    made.log_path("algo-1").write_text("line one\nline <two>\n")
    path = write_html(made)
    assert path == tmp_path / "report.html"
    found = parsed(path.read_text())
    assert found.row("algo-2/1") == ["algo-2/1", "signal 9"] and found.row("tensorflow")[1] == "2.15.1"
    assert found.row("+1.50 s")[:2] == ["+1.50 s", "host.joined"] and found.row("memory")[1] == "1.00 GiB"
    for shown in ("192 ms", "50.0 %", "algo-1, algo-3", "dilate(size=3)", "line <two>", "$0.140", "succeeded"):
        assert shown in found.text
    (tmp_path / "summary.json").unlink()
    with pytest.raises(UsageError, match=r"summary\.json"):
        write_html(made)


def test_timeline_of_a_run_is_shown(tmp_path: Path, parsed) -> None:
    made = folder(tmp_path, name="demo", step_parts_ms={"wait": 2.0, "compute": 31.5})
    use = {"kind": "use", "host": "algo-1", "at_s": 1.0, "dur_s": 2.0, "member": "algo-1"}
    processes = {"processes": {"worker-0": 0.75, "launcher": 0.01}, "machine": None}
    lines = [{"kind": "timeline", "schema": 1}, {**use, **processes}]
    made.timeline_path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = parsed(write_html(made).read_text())
    assert found.row("algo-1: worker-0")[2] == "0.750 CPUs" and found.row("compute")[2] == "31.5 ms"
    assert "second 1: algo-1 0.760 CPUs" in found.titles
    assert ["algo-1", "worker-0", "0.750"] in [row[:3] for row in found.rows]
    made.timeline_path.write_text("rubbish")
    assert "demo" in parsed(write_html(made).read_text()).text


def test_empty_run_has_a_page(tmp_path: Path, parsed) -> None:
    found = parsed(write_html(folder(tmp_path)).read_text())
    assert not any(tag == "svg" for tag, _ in found.elements) and found.drawn("open")


def test_long_runs_have_small_pages(tmp_path: Path, parsed) -> None:
    many = {"step_ms": Spread.of([200.0 + at % 17 for at in range(5000)]), "wait_ms": Spread.of([9.0] * 5000)}
    made = folder(tmp_path, **many)
    for index in range(EVENTS_SHOWN + 10):
        made.write_event(Event(f"event.{index}", float(index)))
    made.log_path("algo-1").write_text("x" * 2_000_000)
    made_page = write_html(made).read_text()
    events = [row[1] for row in parsed(made_page).rows if len(row) == 3 and row[1].startswith("event.")]
    assert len(made_page) < 300_000
    assert len(events) == EVENTS_SHOWN and {"event.0", f"event.{EVENTS_SHOWN + 9}"} <= set(events)
    assert len(page(Given(tuple(views([(run(**many), None)] * 3))))) < 1_000_000


def test_runs_side_by_side_have_cost_table(everything, parsed) -> None:
    found = parsed(page(everything))
    assert found.row("alone")[1:] == ["1 x ml.p4d.24xlarge", "37.7", "192 ms", "50.0 %", "2.01", "0.245", "1", "–"]
    assert found.row("served")[2:] == ["45.0", "86.0 ms", "1.2 %", "1.08", "0.131", "2.23x", "46 %"]
    assert "2026-11-01" in found.text, "the day of the prices"
    unpriced = replace(everything, price_of={"ml.p4d.24xlarge": Price(37.69)}.get)
    found = parsed(page(unpriced))
    assert found.row("served")[2] == "–" and found.row("served")[-1] == "–" and "ml.c5.18xlarge is known" in found.text


def test_each_run_has_verdict_hosts_and_cut(everything, parsed) -> None:
    found = parsed(page(everything))
    assert found.drawn("bound") and found.drawn("not")
    assert "rescale() cheaper, which is 70 %" in found.text and "take p4d+2" in found.text
    assert found.drawn("cut") and "3.02 KiB" in found.text
    assert found.row("algo-1 (data_group)")[2] == "0.900 CPUs"
    assert ["algo-1", "data_group", "90.0 %"] in [row[:3] for row in found.rows]
    assert found.row("compute")[2] == "85.0 ms"


def test_profile_plan_and_records_are_shown(everything, parsed) -> None:
    found = parsed(page(everything))
    assert ["dilate()", "2.00 us", "20.0 %", "–", "20.0 B", "data_group"] in found.rows
    assert [found.row(name)[1] for name in ("1. p4d+2", "2. p4d+4", "3. p4d+0")] == ["chosen", "runner-up", "today"]
    (edge,) = found.drawn("edge")
    speeds = [float(place.split(",")[0]) for place in edge["d"].removeprefix("M").split("L")]
    assert len(speeds) == 3 and speeds == sorted(speeds)
    assert found.row("stages.29.us")[1] == "29.5"

    def projected(given: Given) -> list[list[str]]:
        (table,) = (table for table in parsed(page(given)).tables if table and "projected step, ms" in table[0])
        return [[row[0], *row[4:]] for row in table[1:]]

    assert [row[0] for row in projected(everything)] == ["alone", "served"]
    assert projected(everything)[1][1:] == ["-2 %", "yes"]
    off = replace(everything, runs=(RunView.of(served(step_ms=Spread.of([132.0]))),))
    assert projected(off)[0][1:] == ["+50 %", "no"]


def test_line_passes_through_its_steps(parsed) -> None:
    found = parsed(page(Given((RunView.of(run(step_ms=Spread.of([10.0, 20.0, 10.0]), wait_ms=None)),))))
    line = "M0.00,50.00L500.00,0.00L1000.00,50.00"
    assert [each["d"] for each in found.drawn("line")] == [line]
    assert [each["d"] for each in found.drawn("band")] == [f"{line}L1000.00,100.00L500.00,100.00L0.00,100.00Z"]
    found = parsed(page(Given((RunView.of(run(step_ms=Spread.of([10.0]), wait_ms=None)),))))
    assert [each["d"] for each in found.drawn("line")] == ["M0.00,0.00H1000"] and not found.drawn("band")


def test_shipped_records_have_pages(parsed) -> None:
    for path in sorted((Path(__file__).parents[3] / "results").glob("*.json")):
        found = parsed(page(read_given([path])))
        assert found.headings[0][1] in (json.loads(path.read_text())["name"], "demo")


def test_material_is_known_by_its_content(tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    other.write_text("{}")
    with pytest.raises(DataError, match=r"other\.json"):
        read_given([other])
    with pytest.raises(UsageError, match=r"summary\.json"):
        read_given([tmp_path])
    with pytest.raises(UsageError, match=r"other\.json"):
        read_given(written(tmp_path, run()), plan=other)


def test_runs_of_one_name_are_distinguished(tmp_path: Path) -> None:
    paths = [tmp_path / part for part in ("x/first", "x/second", "y/second")]
    found = views([*((run(), path) for path in paths), (served(), paths[0]), (run(), None), (run(), None)])
    assert [view.name for view in found] == ["first", "second", "second #2", "served", "alone", "alone #2"]


def learnt(name: str, *losses: float) -> RunSummary:
    return run(name=name, epochs=[{"epoch": at, "loss": loss, "accuracy": 0.5} for at, loss in enumerate(losses)])


def test_runs_are_drawn_over_each_other(parsed) -> None:
    def overlaid(*runs: RunSummary):
        found = parsed(page(Given(tuple(views([(one, None) for one in runs])))))
        return found, [title for title in found.titles if title.startswith(("step 1: ", "epoch 1: "))]

    found, tooltips = overlaid(learnt("a", 3.0, 2.0), learnt("b", 4.0, 1.0), served(name="c"))
    assert {"step 1: a 191 ms, b 191 ms, c 85.0 ms", "epoch 1: a 2.00, b 1.00"} <= set(tooltips)
    assert found.drawn("l2") and len(found.drawn("band")) == 6, "lines that are alone have one"
    assert not any("a 2.00" in title for title in overlaid(learnt("a", 3.0, 2.0), learnt("b", 3.0))[1])
    found, _ = overlaid(*(run(name=f"run-{at}") for at in range(8)))
    assert "run-6, run-7" in found.text and not found.drawn("l7")


def test_no_text_becomes_markup(tmp_path: Path, parsed) -> None:
    hostile = plan()
    hostile["candidates"][1]["cluster"]["text"] = hostile["decision"][0] = hostile["notes"][0] = EVIL
    hostile["candidates"][1]["binding"] = hostile["candidates"][1]["layout"]["behind"] = EVIL
    figures = {EVIL: Figure.of([1.0, 2.0], unit=EVIL, against=EVIL), "other": Figure.of([1.0], unit=EVIL)}
    record = Record(EVIL, figures, command=(EVIL,), machine={EVIL: EVIL}, versions={EVIL: EVIL}, created=EVIL)
    parts = [{"name": EVIL, "bytes_per_example": 1}]
    dear = Record("profile.x", {"profile.x.us": Figure.of([1.0], unit="us")}, {"parts": parts})
    named = {"name": EVIL, "cause": EVIL, "exit_code": 3, "exit_codes": {EVIL: 3}, "metrics": {EVIL: EVIL}}
    placed = {"stages_where": {EVIL: EVIL}, "epochs": [{EVIL: EVIL}], "cluster": {EVIL: {"hosts": [EVIL]}}}
    limited = {"limits": {EVIL: {"cpus": 1.0}}, "host_cpu_s": {EVIL: 1.0}, "not_limited": (EVIL,)}
    made = folder(tmp_path, **vars(served(**named, **placed, **limited)))
    made.write_event(Event(EVIL, 1.0, {EVIL: EVIL}))
    shown = page(Given((RunView.of(made.read_summary(), made),), (record,), dear, read_plan(hostile)))
    found = parsed(shown)
    assert "<script" not in shown and shown.count("&lt;script&gt;") > 25
    assert EVIL in found.headings[0][1]


NUMBER = st.floats(allow_nan=False, allow_infinity=False) | st.just(0.0)
WORDS = st.text(max_size=8)
SPREAD = st.lists(NUMBER, min_size=1, max_size=5).map(
    lambda values: Spread(values[0], values[0], values[-1], tuple(values))
)


@settings(max_examples=25)
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
def test_every_run_has_a_page(parsed, values, price) -> None:
    summary = RunSummary.from_json(RunSummary(**values).to_json())
    runs = tuple(views([(summary, None), (served(), None), (summary, None)]))
    parsed(page(Given(runs, price_of=lambda name: Price(price))).replace("http", ""))


@settings(max_examples=25)
@given(
    st.dictionaries(
        WORDS, st.tuples(NUMBER, NUMBER, NUMBER, st.sampled_from(["us", "x", ""]), st.none() | WORDS), max_size=6
    )
)
def test_every_record_has_a_page(parsed, figures) -> None:
    made = {
        name: Figure(value, low, high, unit, 3, against) for name, (value, low, high, unit, against) in figures.items()
    }
    parsed(page(Given(records=(Record("any", made),))).replace("http", ""))
