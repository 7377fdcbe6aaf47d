"""The job result, its cause, and the failure file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tfhet import strategies
from tfhet.errors import JobFailed, UsageError
from tfhet.launch.job_result import FAILURE_LIMIT, LOG_LIMIT, STARTS_WITHIN_S, JobResult, last_word, write_failure


def test_cause_is_one_line_before_the_log():
    result = JobResult.of(3, "train.py ended on a:\nexit code 3", ["Traceback", "  line", "ValueError: x"])
    assert result.headline == "train.py ended on a: exit code 3"
    assert result.log == ["Traceback", "  line", "ValueError: x"]
    assert JobResult(3, result.cause) == result, "as it is sent over the link"
    assert JobResult.of(0, "complete") == JobResult(0, "complete") and JobResult.of(1, "x", ["", ""]).log == []
    long = JobResult.of(1, "x", [f"line {i}" for i in range(2000)])
    assert long.log[-1] == "line 1999" and len(long.cause) <= LOG_LIMIT + 2


def test_script_result_ends_with_its_last_line():
    result = JobResult.of_script(3, "train.py ended on algo-1, rank 0", ["Traceback", "ValueError: no image"])
    assert result.code == 3 and result.log == ["Traceback", "ValueError: no image"]
    assert result.headline == "train.py ended on algo-1, rank 0: exit code 3: ValueError: no image"
    assert JobResult.of_script(-9, "train.py ended on algo-1, rank 0", []).code == 137
    last = f"OpError: {'/opt/ml' * 100} No space left on device"
    headline = JobResult.of_script(1, "train.py ended", [last]).headline
    assert headline.startswith("train.py ended: exit code 1 (disk full): OpError: /opt/ml")
    assert headline.endswith("No space left on device") and len(headline) < 400


NOT_DESTROYED = (
    "[rank0]:[W1127 19:02:18.527555661 ProcessGroupNCCL.cpp:1575] Warning: WARNING: destroy_process_group() was not "
    "called before program exit, which can leak resources. (function operator())"
)
WATCHDOG = "  what():  [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=4, OpType=BROADCAST)"
STACK = [
    "Exception raised from checkTimeout at /c10d/ProcessGroupNCCL.cpp:632 (most recent call first):",
    *(f"frame #{number}: c10d::ProcessGroupNCCL::watchdog() + 0x890" for number in range(12)),
]


@pytest.mark.parametrize(
    ("lines", "word"),
    [
        (["terminate called", WATCHDOG, *STACK, ""], WATCHDOG.strip()),
        (
            [
                "[rank0]: torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:3690",
                "[rank0]: Last error:",
                "[rank0]: Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 60",
            ],
            "[rank0]: Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 60",
        ),
        (
            [
                "[rank1]: torch.AcceleratorError: CUDA error: an illegal memory access was encountered",
                "[rank1]: CUDA kernel errors might be asynchronously reported at some other API call.",
                "[rank1]: For debugging consider passing CUDA_LAUNCH_BLOCKING=1",
                "[rank1]: Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.",
                "[rank1]:",
                "",
            ],
            "[rank1]: torch.AcceleratorError: CUDA error: an illegal memory access was encountered",
        ),
        (["RuntimeError: x", "terminate called without an active exception"], "RuntimeError: x"),
        ([], ""),
    ],
    ids=["stack", "NCCL", "CUDA", "threads", "nothing"],
)
def test_last_word_ignores_warnings_and_advice(lines, word):
    assert last_word(lines) == last_word([*lines, NOT_DESTROYED]) == word


def test_long_consequence_is_recognised():
    text = (
        "tensorflow.python.framework.errors_impl.UnknownError: {{function_node __wrapped__HorovodAllreduce_device_"
        "/job:localhost/replica:0/task:0/device:CPU:0}} Horovod has been shut down. This was caused by an exception on "
        "one of the ranks or an attempt to allreduce, allgather or broadcast a tensor after one of the ranks finished "
        "execution. If the shutdown was caused by an exception, you should see the exception in the log before the "
        "first shutdown message. [Op:HorovodAllreduce] name: progress"
    )
    assert strategies.get("horovod").is_consequence(JobResult.of_script(1, "train.py ended", [text]).headline)
    assert strategies.get("torch").is_consequence(
        JobResult.of_script(-6, "train.py ended", [WATCHDOG, *STACK]).headline
    )


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
