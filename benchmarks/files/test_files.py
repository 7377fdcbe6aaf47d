from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from benchmarks.files import suite as files
from tfhet.errors import UsageError
from tfhet.events import ignore
from tfhet.record import StepTime


def step(at_s: float, epoch: int, rank: int = 0, wait_s: float = 0.0) -> StepTime:
    return StepTime(1.0, wait_s, 128, at_s=at_s, epoch=epoch, rank=rank)


def test_a_gap_is_from_the_last_step_to_the_first_batch_on_the_rank_that_has_the_longest():
    steps = [step(0.0, 0), step(1.0, 0), step(2.25, 1, wait_s=0.5), step(3.25, 2)]
    others = [step(0.0, 0, 1), step(1.0, 0, 1), step(2.0, 1, 1), step(4.0, 2, 1)]
    assert files.gaps(steps) == [0.75, 0.0]
    assert files.gaps([*steps, *others]) == [0.75, 1.0]


def test_what_a_million_files_take_is_computed_from_one(tmp_path: Path):
    samples = {f"files.{name}_us": [2.0, 4.0, 3.0] for name in ("fingerprint", "check", "walk_compiled", "walk_python")}
    figures = files.figures_of({**samples, "files.rest_filter_s": [9.0] * 3, "files.rest_seek_s": [3.0] * 3})
    assert figures["files.million_check_s"].value == pytest.approx(3.0)
    assert figures["files.large_compiled_s"].value == pytest.approx(99.0)
    assert figures["files.rest_x"].value == pytest.approx(3.0)


@pytest.mark.parametrize("words", [["--files", "0"], ["--records", "9"], ["--epochs", "1"], ["--launcher", "/absent"]])
def test_wrong_options_are_refused(words: list[str]):
    parser = argparse.ArgumentParser()
    files.SUITE.options(parser)
    with pytest.raises(UsageError):
        files.SUITE.run(parser.parse_args(words), ignore, ())


def test_it_measures_files(tmp_path: Path):
    parser = argparse.ArgumentParser()
    files.SUITE.options(parser)
    words = ["--files", "4", "--records", "200", "--epochs", "0"]
    options = argparse.Namespace(**{**vars(parser.parse_args(words)), "repeats": 1})
    record = files.SUITE.run(options, ignore, ("files",))
    assert all(figure.value >= 0 for figure in record.figures.values()) and files.GAP not in record.figures
    assert files.SUITE.is_kept(record)
