"""The job result, its cause, and the failure file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tfhet.errors import JobFailed, UsageError
from tfhet.launch.job_result import FAILURE_LIMIT, LOG_LIMIT, STARTS_WITHIN_S, JobResult, write_failure


def test_cause_is_one_line_before_the_log():
    result = JobResult.of(3, "train.py ended on a:\nexit code 3", ["Traceback", "  line", "ValueError: x"])
    assert result.headline == "train.py ended on a: exit code 3"
    assert result.log == ["Traceback", "  line", "ValueError: x"]
    assert JobResult(3, result.cause) == result, "as it is sent over the link"
    assert JobResult.of(0, "complete") == JobResult(0, "complete") and JobResult.of(1, "x", ["", ""]).log == []
    long = JobResult.of(1, "x", [f"line {i}" for i in range(2000)])
    assert long.log[-1] == "line 1999" and len(long.cause) <= LOG_LIMIT + 2


def test_script_result_names_the_error():
    tail = ["Traceback", "ValueError: no image"]
    result = JobResult.of_script(3, "train.py ended on algo-1, rank 0", "ValueError: no image", tail)
    assert result.code == 3 and result.log == tail
    assert result.headline == "train.py ended on algo-1, rank 0: exit code 3: ValueError: no image"
    assert JobResult.of_script(-9, "train.py ended on algo-1, rank 0", "", []).code == 137
    headline = JobResult.of_script(1, "train.py ended", "OpError: No space left on device", []).headline
    assert headline == "train.py ended: exit code 1 (disk full): OpError: No space left on device"


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (
            JobFailed("rank 0 hangs", code=-9, log_tail=["one", "noise", "two"]),
            JobResult(137, "rank 0 hangs\none\ntwo"),
        ),
        (UsageError("no such file"), JobResult(2, "algo-1: no such file")),
        (ValueError("odd"), JobResult(1, "algo-1: ValueError: odd")),
    ],
)
def test_launcher_error_has_code_and_host(error, expected):
    assert JobResult.of_error(error, "algo-1", lambda line: line == "noise") == expected


# The failure file


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "output" / "failure"


def test_first_failure_is_kept(file):
    assert write_failure(file, "bad \udcff name", "t1/0", 1, ["one", "two"])
    assert not write_failure(file, "the second", "t1/1", 1)
    assert file.read_text() == "bad ? name\n(exit code 1, seen by t1/0)\none\ntwo"


def test_failure_of_an_earlier_job_is_replaced(file):
    assert write_failure(file, "of the earlier job", "t1/0", 3)
    began_s = file.stat().st_mtime
    assert not write_failure(file, "of another launcher", "t1/1", 1, began_s=began_s + STARTS_WITHIN_S - 1)
    assert write_failure(file, "of this job", "t1/0", 1, began_s=began_s + STARTS_WITHIN_S + 1)
    assert file.read_text().startswith("of this job\n")


@pytest.mark.parametrize(("cause", "end"), [("cause", "line 999"), ("x" * 5000, "x")])
def test_failure_fits_sagemakers_limit(file, cause, end):
    write_failure(file, cause, "t1/0", 1, [f"line {i}" for i in range(1000)])
    text = file.read_text()
    assert len(text) == FAILURE_LIMIT == 1024
    assert text.startswith(cause[:1024]) and text.endswith(end)


def test_failure_that_cannot_be_written_raises_nothing(tmp_path: Path, file):
    assert not write_failure(tmp_path / "nowhere" / "output" / "failure", "cause", "t1/0", 1)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "output").touch()
    assert not write_failure(file, "cause", "t1/0", 1)
