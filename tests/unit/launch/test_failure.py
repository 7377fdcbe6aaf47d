from __future__ import annotations

from pathlib import Path

from tfhet.launch.job_result import FAILURE_LIMIT, STARTS_WITHIN_S, write_failure


def test_cause_host_code_and_the_last_lines_are_written(tmp_path: Path):
    assert write_failure(tmp_path / "output" / "failure", "d1 was lost", "t1/0", 1, ["one", "two"])
    text = (tmp_path / "output" / "failure").read_text()
    assert text == "d1 was lost\n(exit code 1, seen by t1/0)\none\ntwo"


def test_the_first_cause_is_kept(tmp_path: Path):
    path = tmp_path / "output" / "failure"
    assert write_failure(path, "the first", "t1/0", 3)
    assert not write_failure(path, "the second", "t1/1", 1)
    assert path.read_text().startswith("the first\n")


def test_the_cause_of_an_earlier_job_with_the_same_directory_is_replaced(tmp_path: Path):
    path = tmp_path / "output" / "failure"
    assert write_failure(path, "of the earlier job", "t1/0", 3)
    began_s = path.stat().st_mtime
    assert not write_failure(path, "of another launcher", "t1/1", 1, began_s=began_s + STARTS_WITHIN_S - 1)
    assert write_failure(path, "of this job", "t1/0", 1, began_s=began_s + STARTS_WITHIN_S + 1)
    assert path.read_text().startswith("of this job\n")


def test_what_is_written_fits_into_what_sagemaker_shows(tmp_path: Path):
    log = [f"line {i}" for i in range(1000)]
    write_failure(tmp_path / "output" / "failure", "cause", "t1/0", 1, log)
    text = (tmp_path / "output" / "failure").read_text()
    assert len(text) == FAILURE_LIMIT == 1024
    assert text.startswith("cause\n") and text.endswith("line 999")


def test_a_cause_that_is_too_long_is_cut(tmp_path: Path):
    write_failure(tmp_path / "output" / "failure", "x" * 5000, "t1/0", 1, ["log"])
    assert (tmp_path / "output" / "failure").read_text() == "x" * FAILURE_LIMIT


def test_nothing_is_laid_out_where_there_is_no_job(tmp_path: Path):
    assert not write_failure(tmp_path / "nowhere" / "output" / "failure", "cause", "t1/0", 1)
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_raises_nothing(tmp_path: Path):
    (tmp_path / "output").touch()
    assert not write_failure(tmp_path / "output" / "failure", "cause", "t1/0", 1)


def test_text_that_no_file_can_hold_is_replaced(tmp_path: Path):
    assert write_failure(tmp_path / "output" / "failure", "bad \udcff name", "t1/0", 1)
    assert (tmp_path / "output" / "failure").read_text().startswith("bad ? name\n")
