"""bench/command.py: which code a record names that was added to, or whose code was edited meanwhile."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from tfhet.bench import Suite, command, run_suite
from tfhet.bench.code import MeasuredCode
from tfhet.record import Record

CODE = {"commit": "abc", "is_clean": True, "parts": {"part": "1"}}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    """Runs a suite that measures nothing, with the digests that its code has before and after; returns the record."""

    def once(*words: str, digests: tuple[str, str] = ("1", "1")) -> Record:
        left = [MeasuredCode("abc", True, {"part": each}) for each in digests]
        monkeypatch.setattr(command.MeasuredCode, "of", lambda parts: left.pop(0))

        def options(parser: argparse.ArgumentParser) -> None:
            parser.add_argument("--more", action="store_true")

        suite = Suite("none", "nothing", options, lambda *_: Record("none"), measures=("part",))
        path = tmp_path / "record.json"
        assert run_suite(suite, [*words, "--json", str(path)], "none") == 0
        return Record.read(path)

    return once


def test_a_record_names_the_code_that_it_measured(run) -> None:  # type: ignore[no-untyped-def]
    made = run()
    assert made.code == CODE and "load_before" in made.conditions


def test_code_that_was_edited_meanwhile_was_not_clean(run) -> None:  # type: ignore[no-untyped-def]
    assert run(digests=("1", "2")).code == {**CODE, "is_clean": False}


def test_a_record_that_was_added_to_names_its_code_only_while_that_is_the_same(run) -> None:  # type: ignore[no-untyped-def]
    run()
    assert run("--more").code == CODE
    assert run("--more", digests=("2", "2")).code == {}
    assert run("--more", digests=("2", "2")).code == {}, "its first part is still of other code"
