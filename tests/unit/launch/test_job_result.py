from __future__ import annotations

import pytest

from tfhet import strategies
from tfhet.errors import JobFailed, UsageError
from tfhet.launch.job_result import LOG_LIMIT, JobResult, last_word


def test_the_cause_is_one_line_and_the_log_follows():
    verdict = JobResult.of(3, "train.py ended on a:\nexit code 3", ["Traceback", "  line", "ValueError: x"])
    assert verdict.headline == "train.py ended on a: exit code 3"
    assert verdict.log == ["Traceback", "  line", "ValueError: x"]
    assert JobResult(3, verdict.cause) == verdict  # what goes over the link


def test_a_verdict_without_a_log_is_its_headline():
    assert JobResult.of(0, "training is complete") == JobResult(0, "training is complete")
    assert JobResult.of(1, "x", ["", ""]).log == []


def test_the_end_of_a_long_log_is_kept():
    verdict = JobResult.of(1, "x", [f"line {i}" for i in range(2000)])
    assert verdict.log[-1] == "line 1999"
    assert len(verdict.cause) <= LOG_LIMIT + 2


def test_noise_stays_out_of_the_log():
    noise = "E0000 Unable to register cuDNN factory: Attempting to register"
    error = JobFailed("x", log_tail=["one", noise, "two"])
    assert JobResult.of_error(error, "algo-1", lambda line: line == noise).log == ["one", "two"]


def test_the_end_of_a_script_is_told_by_its_last_word():
    verdict = JobResult.of_script(3, "train.py ended on algo-1, rank 0", ["Traceback", "ValueError: no image"])
    assert verdict.code == 3 and verdict.log == ["Traceback", "ValueError: no image"]
    assert verdict.headline == "train.py ended on algo-1, rank 0: exit code 3: ValueError: no image"
    assert JobResult.of_script(-9, "train.py ended on algo-1, rank 0", []).code == 137


def test_before_a_stack_of_cpp_stands_the_last_word():
    what = "  what():  [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=4, OpType=BROADCAST)"
    stack = ["Exception raised from checkTimeout at /c10d/ProcessGroupNCCL.cpp:632 (most recent call first):"]
    stack += [f"frame #{number}: c10d::ProcessGroupNCCL::watchdog() + 0x890" for number in range(12)]
    result = JobResult.of_script(-6, "train.py ended", ["terminate called", what, *stack, ""])
    assert result.headline == f"train.py ended: SIGABRT: {what.strip()}"
    assert strategies.get("torch").is_consequence(result.headline)


NOT_DESTROYED = (
    "[rank0]:[W1127 19:02:18.527555661 ProcessGroupNCCL.cpp:1575] Warning: WARNING: destroy_process_group() was not "
    "called before program exit, which can leak resources. (function operator())"
)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
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
        (
            ["[rank1]: RuntimeError: the loss is not a number", "terminate called without an active exception"],
            "[rank1]: RuntimeError: the loss is not a number",
        ),
    ],
    ids=["NCCL", "CUDA", "threads"],
)
def test_warnings_and_advice_of_pytorch_after_an_error_are_not_the_cause(lines, said):
    assert (
        JobResult.of_script(1, "train.py ended", [*lines, NOT_DESTROYED]).headline
        == f"train.py ended: exit code 1: {said}"
    )
    assert last_word([NOT_DESTROYED]) == "" and last_word([]) == ""


def test_of_a_long_last_word_the_beginning_and_the_end_are_told():
    last = f"OpError: {'/opt/ml' * 100} No space left on device"
    headline = JobResult.of_script(1, "train.py ended", [last]).headline
    assert headline.startswith("train.py ended: exit code 1 (disk full): OpError: /opt/ml")
    assert headline.endswith("No space left on device") and len(headline) < 400


def test_a_long_error_that_another_rank_caused_is_still_known_for_one():
    text = (
        "tensorflow.python.framework.errors_impl.UnknownError: {{function_node __wrapped__HorovodAllreduce_device_"
        "/job:localhost/replica:0/task:0/device:CPU:0}} Horovod has been shut down. This was caused by an exception on "
        "one of the ranks or an attempt to allreduce, allgather or broadcast a tensor after one of the ranks finished "
        "execution. If the shutdown was caused by an exception, you should see the exception in the log before the "
        "first shutdown message. [Op:HorovodAllreduce] name: progress"
    )
    assert strategies.get("horovod").is_consequence(JobResult.of_script(1, "train.py ended", [text]).headline)


@pytest.mark.parametrize(
    ("error", "code", "headline"),
    [
        (JobFailed("rank 0 hangs", code=-9, log_tail=["last"]), 137, "rank 0 hangs"),
        (UsageError("no such file"), 2, "algo-1: no such file"),
        (ValueError("odd"), 1, "algo-1: ValueError: odd"),
    ],
)
def test_an_error_of_a_launcher_has_a_code_and_says_where(error, code, headline):
    verdict = JobResult.of_error(error, "algo-1", lambda line: False)
    assert (verdict.code, verdict.headline) == (code, headline)
