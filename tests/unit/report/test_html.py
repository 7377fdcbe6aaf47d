"""report/html.py: one self-contained page per run."""

from __future__ import annotations

import html
import json
import math
import re
from pathlib import Path

import pytest

from tfhet.errors import UsageError
from tfhet.events import Event
from tfhet.record import RunFolder, RunSummary, Spread
from tfhet.report import write_html
from tfhet.report.run_view import EVENTS_SHOWN


def folder(tmp_path: Path, **values: object) -> RunFolder:
    made = RunFolder(tmp_path).create()
    made.write_summary(RunSummary(**values))  # type: ignore[arg-type]
    return made


def test_the_page_of_a_full_run_is_self_contained_and_says_it_all(tmp_path: Path, parsed) -> None:
    run = folder(
        tmp_path,
        name="demo",
        mode="heterogeneous",
        exit_code=0,
        started=100.0,
        step_ms=Spread.of([80.0, 90.0, 85.0]),
        wait_ms=Spread.of([8.0, 9.0, 0.0]),
        wait_pct=6.7,
        exit_codes={"algo-1": 0, "algo-2/1": -9},
        stages_where={"dilate(size=3)": "data_group"},
        cluster={"data_group": {"hosts": ["algo-1", "algo-3"], "role": "data"}},
        epochs=[{"epoch": 0, "missing": 2, "loss": math.nan}],
        machine={"cpu": "Xeon", "memory_bytes": 1 << 30},
        versions={"tensorflow": "2.15.1"},
        usd_per_million_examples=0.14,
    )
    run.write_event(Event("host.joined", 101.5, {"host": "algo-1"}))
    run.log_path("algo-1").write_text("line one\nline <two>\n")
    path = write_html(run)
    assert path == tmp_path / "report.html"
    page = path.read_text()
    parsed(page)
    assert page.count("<svg") == 2
    for told in ("85.0 ms", "6.7 %", "algo-1, algo-3", "signal 9", "dilate(size=3)", "not a number", "+1.50 s"):
        assert told in page
    for told in ("host.joined", "line &lt;two&gt;", "Xeon", "1.00 GiB", "2.15.1", "$0.140", "succeeded"):
        assert told in page


def test_the_timeline_of_a_run_is_shown_where_there_is_one_and_a_broken_one_hides_nothing(
    tmp_path: Path, parsed
) -> None:
    run = folder(tmp_path, name="demo", step_parts_ms={"wait": 2.0, "compute": 31.5})
    use = {"kind": "use", "host": "algo-1", "at_s": 1.0, "dur_s": 2.0, "member": "algo-1"}
    lines = [
        {"kind": "timeline", "schema": 1},
        {**use, "processes": {"worker-0": 0.75, "launcher": 0.01}, "machine": None},
    ]
    run.timeline_path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = parsed(write_html(run).read_text())
    assert found.row("algo-1: worker-0")[2] == "0.750 CPUs" and found.row("compute")[2] == "31.5 ms"
    assert "second 1: algo-1 0.760 CPUs" in html.unescape((tmp_path / "report.html").read_text())
    assert ["algo-1", "worker-0", "0.750"] in [row[:3] for table in found.tables for row in table]
    run.timeline_path.write_text("rubbish")
    assert "demo" in parsed(write_html(run).read_text()).text


def test_the_page_follows_the_readers_light_or_dark_and_a_narrow_screen(tmp_path: Path) -> None:
    page = write_html(folder(tmp_path)).read_text()
    assert "prefers-color-scheme: dark" in page and "width=device-width" in page


def test_a_run_of_which_nothing_is_known_still_has_a_page(tmp_path: Path, parsed) -> None:
    page = write_html(folder(tmp_path)).read_text()
    parsed(page)
    assert "<svg" not in page and "not ended" in page


def test_what_a_run_says_cannot_become_markup(tmp_path: Path, parsed) -> None:
    evil = "<img src=x onerror=alert(1)>"
    run = folder(
        tmp_path,
        name=evil,
        cause=evil,
        exit_code=3,
        exit_codes={evil: 3},
        stages_where={evil: evil},
        metrics={evil: evil},
        epochs=[{evil: evil}],
        cluster={evil: {"hosts": [evil]}},
    )
    run.write_event(Event(evil, 1.0, {evil: evil}))
    page = write_html(run).read_text()
    parsed(page)
    assert "<img" not in page and "failed, exit code 3" in page


def test_a_long_run_keeps_a_small_page(tmp_path: Path, parsed) -> None:
    run = folder(tmp_path, step_ms=Spread.of([1.0] * 50_000), wait_ms=Spread.of([0.5] * 50_000))
    for index in range(EVENTS_SHOWN + 10):
        run.write_event(Event(f"event.{index}", float(index)))
    run.log_path("algo-1").write_text("x" * 2_000_000)
    page = write_html(run).read_text()
    parsed(page)
    assert len(page) < 300_000
    assert "10 in between are in events.jsonl" in page
    assert re.search(r"<code>event\.0</code>", page) and re.search(rf"<code>event\.{EVENTS_SHOWN + 9}</code>", page)


def test_a_folder_without_a_summary_is_wrong_use_and_gets_no_page(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no run summary at .*summary\.json"):
        write_html(tmp_path)
    assert not (tmp_path / "report.html").exists()
