"""bench/stages.py and chain.py: what the suite measures of a chain."""

from __future__ import annotations

from pathlib import Path

import pytest

from tfhet.bench import chain
from tfhet.cli.bench import run
from tfhet.record import Record

tf = pytest.importorskip("tensorflow")
pytest.importorskip("sklearn")

from tfhet.source import digits as digit_data  # noqa: E402

EXAMPLES = 37


def test_the_records_are_exactly_as_many_as_asked_for_also_beyond_the_set(tmp_path: Path) -> None:
    source = digit_data.repeated(tmp_path, 1500, tmp_path / "cache")
    source.check()
    assert source.example_count() == 1500


def test_the_suite_runs_small_and_leaves_its_record(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chain, "ALONE_IMAGES", {True: 1, False: 1})
    monkeypatch.setattr(chain, "PASSES", 2)
    path = tmp_path / "stages.json"
    options = ["--chain", "digits", "--repeats", "2", "--examples", str(EXAMPLES), "--batch-size", "16"]
    code = run(["stages", *options, "--threads", "1", "--cache", str(tmp_path), "--json", str(path)])
    assert code == 0, capsys.readouterr().err
    record = Record.read(path)
    assert record.figures["stages.digits.us_per_image"].n == 2
    assert any(name.endswith("random_zoom_us") for name in record.figures)
    assert len(record.details["cases"]["tfhet"]["samples"]) == 2
    assert len(record.details["cases"]["tfhet"]["warmup"]) == 2
    assert record.details["explained"][0].startswith("source: ")


def test_a_chain_that_is_written_out_is_measured_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chain, "ALONE_IMAGES", {True: 1, False: 1})
    path = tmp_path / "stages.json"
    photos = "decode(); random_resized_crop(8, 8); random_flip(); normalize((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))"
    options = ["--chain", photos, "--repeats", "1", "--warmup", "0", "--examples", "3", "--batch_size", "2"]
    assert run(["stages", *options, "--cache", str(tmp_path), "--json", str(path)]) == 0, capsys.readouterr().err
    figures = Record.read(path).figures
    assert {"stages.chain.us_per_image", "stages.chain.examples_per_s_core", "stages.chain.decode_us"} <= figures.keys()
