"""`tfhet bench`, with a suite that measures nothing; its progress, and the conditions in a record."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Sequence
from pathlib import Path

import pytest
from fake_clock import FakeClock

from tfhet.__main__ import main
from tfhet.bench import Case, Conditions, ProcessMeter, Suite, measure
from tfhet.bench.suite import NAMES, suite_named
from tfhet.cli import bench as command
from tfhet.cli.bench import run, run_suite, show_progress
from tfhet.errors import DataError, UsageError
from tfhet.events import Event, Observer
from tfhet.record import Figure, Record


def _measured(options: argparse.Namespace, observer: Observer, command: Sequence[str]) -> Record:
    if options.fail:
        raise DataError("record 3 is corrupt")
    figures = {"toy.us": Figure.of([float(options.repeats)] * options.repeats, unit="us")}
    return Record.of("toy", figures, command=command)


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--fail", action="store_true")


TOY = Suite(name="toy", does="nothing, quickly", options=_options, run=_measured)


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "suite_named", lambda name: TOY)


@pytest.mark.usefixtures("toy")
def test_record_is_written_with_its_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "results" / "toy.json"
    assert run(["toy", "--repeats", "3", "--json", str(path)]) == 0
    record = Record.read(path)
    assert record.command == ("tfhet", "bench", "toy", "--repeats", "3", "--json", str(path))
    assert record.figures["toy.us"].n == 3
    told = capsys.readouterr().out
    assert "toy.us" in told


@pytest.mark.usefixtures("toy")
@pytest.mark.parametrize(
    "wrong", [["--repeats", "0"], ["--repeats", "x"], ["--nonsense"], ["--json", "."], ["--plot", "a.png"]]
)
def test_wrong_options_end_with_2(wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["toy", *wrong]) == 2
    assert "tfhet bench toy" in capsys.readouterr().err


@pytest.mark.usefixtures("toy")
def test_failed_suite_ends_with_its_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["toy", "--fail"]) == 1
    assert "record 3" in capsys.readouterr().err


def test_unknown_suite_lists_the_known(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "speed"]) == 2
    known = ", ".join(sorted(NAMES))
    error = capsys.readouterr().err
    assert "'speed'" in error and known in error
    with pytest.raises(UsageError, match="stages"):
        suite_named("stage")


def test_help_lists_suites_and_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([]) == 2
    assert run(["--help"]) == 0
    assert "stages" in capsys.readouterr().out
    assert run(["stages", "--help"]) == 0
    assert "--batch_size" in capsys.readouterr().out


def test_listed_suites_have_their_names() -> None:
    assert [suite_named(name).name for name in NAMES] == list(NAMES)


@pytest.mark.parametrize(("kept", "code"), [(True, 0), (False, 1)])
def test_suite_that_is_not_kept_fails(kept: bool, code: int) -> None:
    assert run_suite(dataclasses.replace(TOY, breaches=lambda record: [] if kept else ["too slow"]), [], "toy") == code


def test_each_run_gets_one_whole_line(capsys: pytest.CaptureFixture[str]) -> None:
    clock = FakeClock()
    meter = ProcessMeter(clock, lambda: 0.0)
    case = Case("example", lambda _: clock.sleep(0.002), 10, "image")
    measure([case], repeats=1, warmup=1, meter=meter, clock=clock, observer=show_progress)
    assert capsys.readouterr().err.splitlines() == [
        "[bench] 1/2 example (2.00 ms): 200 us CPU per image",
        "[bench] 2/2 example (2.00 ms): 200 us CPU per image",
    ]


def test_what_is_missing_is_reported_and_other_events_are_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    show_progress(Event("case.missing", 0.0, {"case": "peer dali", "reason": "not installed"}))
    show_progress(Event("case.prepared", 0.0, {"case": "x"}))
    assert capsys.readouterr().err == "[bench] peer dali is missing: not installed\n"


def test_the_load_before_and_what_others_took_are_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1")
    monkeypatch.delenv("LD_PRELOAD", raising=False)
    noted = Conditions(0.256, 100.0, 1.0).until(Conditions(2.0, 300.0, 5.0))
    assert noted["load_before"] == 0.26 and noted["stolen_pct"] == 2.0
    assert noted["variables"]["GLIBC_TUNABLES"] == "glibc.malloc.hugetlb=1" and "LD_PRELOAD" not in noted["variables"]
