"""The error that ended a script, found in the output of real interpreters and in recorded output of libraries."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given, strategies as st

from tfhet import strategies
from tfhet.report.script_error import ErrorFinder
from tfhet.report.traceback_reader import TEXT_LIMIT


def error_in(output: str, code: int = 1, strategy: str = "solo") -> str:
    finder = ErrorFinder(strategies.get(strategy).is_consequence)
    for line in output.splitlines():
        finder.feed(line)
    return finder.error(code)


THREAD = (
    "import threading\ndef f(): raise KeyError('t')\nt = threading.Thread(target=f, name='T'); t.start(); t.join()\n"
)
HANDLED = "import traceback\ndef f():\n try: 1 / 0\n except ZeroDivisionError: traceback.print_exc()\nf()\n"

PROGRAMS = {
    "plain": ("raise ValueError('x')", "ValueError: x"),
    "without text": ("def f(x):\n assert x\nf(0)", "AssertionError at <string>:2 in f"),
    "several lines": (r"raise ValueError('the reason\n  advice\n\n  bye')", "ValueError: the reason advice bye"),
    "first line empty": (r"raise RuntimeError('\n  An attempt\n')", "RuntimeError: An attempt"),
    "note": ("e = ValueError('the reason'); e.add_note('a note'); raise e", "ValueError: the reason a note"),
    "local class": ("def f():\n class E(Exception): pass\n raise E('x')\nf()", "f.<locals>.E: x"),
    "chain": (
        "try:\n try: 1 / 0\n except ZeroDivisionError: {}['b']\nexcept KeyError as e: raise ValueError('third') from e",
        "ValueError: third (caused by ZeroDivisionError: division by zero)",
    ),
    "cause without a stack": ("raise ValueError('x') from KeyError('k')", "ValueError: x (caused by KeyError: 'k')"),
    "group": (
        "raise ExceptionGroup('several', [ValueError('the reason'), TypeError('b')])",
        "ValueError: the reason (in ExceptionGroup: several (2 sub-exceptions))",
    ),
    "raised leaf of nested groups": (
        "try: raise ValueError('r')\nexcept ValueError as e: raise ExceptionGroup('g', [ExceptionGroup('h', [e])])",
        "ValueError: r (in ExceptionGroup: g (1 sub-exception))",
    ),
    "syntax": ("x = = 1", "SyntaxError: invalid syntax (<string>:1)"),
    "import": ("import nothing", "ModuleNotFoundError: No module named 'nothing'"),
    "log after it": (
        "import atexit\natexit.register(lambda: print('INFO run finished\\n' * 5000))\nraise ValueError('x')",
        "ValueError: x",
    ),
    "any output after it": (
        "import atexit\natexit.register(lambda: print('step\\n' * 5000))\nraise ValueError('x')",
        "ValueError: x",
    ),
    "long message without a first line": (
        "raise ValueError('cannot load:\\n' + 'key\\n' * 50)",
        "ValueError: cannot load: key key key",
    ),
    "redrawn message": (r"raise ValueError('50%\r100% bad')", "ValueError: 50% 100% bad"),
    "error at exit": ("import atexit\natexit.register(lambda: 1 / 0)\nraise ValueError('x')", "ValueError: x"),
    "error in __del__": ("class A:\n def __del__(s): 1 / 0\na = A()\nraise ValueError('x')", "ValueError: x"),
    "exit text after an ignored error": (
        "class A:\n def __del__(s): 1 / 0\na = A(); del a\nraise SystemExit('the text')",
        "the text",
    ),
    "error in the hook": ("import sys\nsys.excepthook = lambda *a: 1 / 0\nraise ValueError('x')", "ValueError: x"),
    "no tracebacks": ("import sys; sys.tracebacklimit = 0\nraise ValueError('x')", "ValueError: x"),
    "exit text": ("print('hello'); raise SystemExit('the text')", "the text"),
    "exit code": ("print('hello'); raise SystemExit(3)", "hello"),
    "arguments": (
        "import argparse; p = argparse.ArgumentParser('me'); p.add_argument('--x', required=True); p.parse_args()",
        "me: error: the following arguments are required: --x",
    ),
    "handled long ago": (HANDLED + "for i in range(30): print(i)\nraise SystemExit('text')", "text"),
    "handled, then another": (HANDLED + "raise ValueError('x')", "ValueError: x"),
    "handled, then the end": (HANDLED + "raise SystemExit(2)", "ZeroDivisionError: division by zero"),
    "handled, then a word": (
        HANDLED + "raise SystemExit('giving up')",
        "giving up; before it: ZeroDivisionError: division by zero",
    ),
    "thread, then another": (THREAD + "raise ValueError('x')", "ValueError: x"),
    "thread, then the end": (THREAD + "raise SystemExit(3)", "KeyError: 't' (in thread T)"),
    "thread, then a word": (THREAD + "raise SystemExit('no'); ", "no; before it: KeyError: 't' (in thread T)"),
    "logging error": (
        "import logging; logging.basicConfig(); logging.error('%d', 'x')\nraise ValueError('x')",
        "ValueError: x",
    ),
    "task": (
        "import asyncio\nasync def f(): 1 / 0\nasync def m():\n"
        " t = asyncio.create_task(f()); await asyncio.sleep(0.01)\n"
        " del t; raise ValueError('main')\nasyncio.run(m())",
        "ValueError: main",
    ),
    "subprocess": (
        "import subprocess, sys; subprocess.run([sys.executable, '-c', 'raise ValueError(3)'], check=True)",
        "ValueError: 3",
    ),
    "pool": (
        "from concurrent.futures import ProcessPoolExecutor as P\nwith P(1) as p: p.submit(int, 'a').result()",
        "ValueError: invalid literal for int() with base 10: 'a'",
    ),
    "child": (
        "import multiprocessing as m, sys\np = m.get_context('fork').Process(target=int, args=('a',), name='P')\n"
        "p.start(); p.join(); sys.exit(p.exitcode)",
        "ValueError: invalid literal for int() with base 10: 'a' (in process p)",
    ),
    "progress bar": (r"import sys; sys.stderr.write('\r 10%|#  | 1/10'); raise ValueError('x')", "ValueError: x"),
    "no UTF-8": (r"import sys; sys.stdout.buffer.write(b'\xff\n'); raise ValueError('x')", "ValueError: x"),
    "segmentation fault": (
        "import faulthandler, ctypes; faulthandler.enable()\nctypes.string_at(0)",
        "Fatal Python error: Segmentation fault at __init__.py:",
    ),
    "killed": ("import os; print('step 1', flush=True); os.kill(os.getpid(), 9)", "last line: step 1"),
    "crash after an error": ("import os, atexit; atexit.register(os.abort)\nraise ValueError('x')", "ValueError: x"),
}


@pytest.mark.parametrize(("program", "expected"), PROGRAMS.values(), ids=PROGRAMS)
def test_error_of_a_program(program, expected):
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)
    output = done.stdout.decode(errors="replace")
    found = error_in(output, done.returncode)
    assert found.startswith(expected) if expected.endswith(":") else found == expected, output


STACK = 'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n    main()\n'
GRAPH = "tensorflow.python.framework.errors_impl.InvalidArgumentError: Graph execution error:\n\n"
DETECTED = "Detected at node loss defined at (most recent call last):\n"
NODE = "\t [[{{node loss/Softmax}}]] [Op:__inference_train_function_373]\n"
ELASTIC = """torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
------------------------------------------------------------
Failures:
  <NO_OTHER_FAILURES>
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  rank      : 1 (local_rank: 1)
  exitcode  : 1 (pid: 15187)
  traceback : %s
============================================================
"""
NOT_DESTROYED = (
    "[rank0]:[W1127 19:02:18.527555661 ProcessGroupNCCL.cpp:1575] Warning: WARNING: destroy_process_group() was not "
    "called before program exit, which can leak resources. (function operator())\n"
)
WATCHDOG = "[Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=4, OpType=BROADCAST)"
TERMINATED = (
    f"terminate called after throwing an instance of 'c10::DistBackendError'\n  what():  {WATCHDOG}\n"
    + "".join(
        ["Exception raised from checkTimeout at /c10d/ProcessGroupNCCL.cpp:632 (most recent call first):\n"]
        + [f"frame #{number}: c10d::ProcessGroupNCCL::watchdog() + 0x890\n" for number in range(30)]
    )
)


def of_rank(rank: int, text: str) -> str:
    """Lines of a rank, as PyTorch's hook prints them."""
    return "".join(f"[rank{rank}]: {line}\n" for line in text.splitlines())


RECORDED = {
    "TensorFlow, with the stack of the graph": (
        f'{STACK}{GRAPH}{DETECTED}  File "train.py", line 3, in <module>\n\n  File "losses.py", line 9, in call\n\n'
        f"Received a label value of 7\n{NODE}",
        "tensorflow.python.framework.errors_impl.InvalidArgumentError: Received a label value of 7",
    ),
    "TensorFlow, without it": (
        f"{STACK}{GRAPH}{DETECTED}<stack traces unavailable>\nthe loss : Tensor had Inf values\n{NODE}",
        "tensorflow.python.framework.errors_impl.InvalidArgumentError: the loss : Tensor had Inf values",
    ),
    "TensorFlow, several": (
        f"{STACK}{GRAPH}2 root error(s) found.\n  (0) INVALID_ARGUMENT:  bad label\n{NODE}  (1) CANCELLED: x\n",
        "tensorflow.python.framework.errors_impl.InvalidArgumentError: bad label",
    ),
    "TensorFlow, eager": (
        f"{STACK}tensorflow.NotFoundError: {{{{function_node __wrapped__Get_device_/job:a}}}} a.jpg; No such file\n"
        "\t [[{{node ReadFile}}]] [Op:IteratorGetNext] name: \n",
        "tensorflow.NotFoundError: a.jpg; No such file",
    ),
    "autograph": (
        f'{STACK}ValueError: in user code:\n\n    File "a.py", line 1, in f  *\n        g()\n\n'
        "    ValueError: shapes\n\n",
        "ValueError: shapes",
    ),
    "DataLoader": (
        f"{STACK}ValueError: Caught ValueError in DataLoader worker process 0.\nOriginal {STACK}"
        '  File "d.py", line 4, in g\n    raise\nValueError: bad image\n\n',
        "ValueError: bad image",
    ),
    "Ray": (
        f"{STACK}ray.exceptions.RayTaskError(ValueError): \x1b[36mray::f()\x1b[39m (pid=1, ip=10.0.0.1)\n"
        '  File "r.py", line 6, in f\n    ray.get(g())\n'
        'ray.exceptions.RayTaskError(ValueError): ray::g() (pid=2)\n  File "r.py", line 4, in g\nValueError: inner\n',
        "ValueError: inner",
    ),
    "Ray Train": (
        f'{STACK}ray.exceptions.RayTaskError(ValueError): ray::f()\n  File "r.py", line 6, in f\nValueError: inner\n\n'
        "The above exception was the direct cause of the following exception:\n\n"
        f"{STACK}ray.train.base_trainer.TrainingFailedError: The Ray Train run failed.\n",
        "ValueError: inner",
    ),
    "torchrun": (
        of_rank(1, f"{STACK}ValueError: first")
        + of_rank(0, f"{STACK}RuntimeError: Connection closed by peer")
        + STACK
        + ELASTIC % "To enable traceback see: https://pytorch.org",
        "ValueError: first",
    ),
    "torchrun with record": (
        STACK + ELASTIC % 'Traceback (most recent call last):\n    File "t.py", line 1, in f\n  ValueError: recorded\n',
        "ValueError: recorded",
    ),
    "ranks, interleaved": (
        "".join(f"[rank{rank}]: {line}\n" for line in [*STACK.splitlines(), "RuntimeError: %s"] for rank in (0, 1))
        .replace("%s", "Connection closed by peer", 1)
        .replace("%s", "own"),
        "RuntimeError: own",
    ),
    "processes, interleaved": (
        f'{STACK.splitlines()[0]}\n{STACK}  File "a.py", line 1, in <module>\nValueError: 1\nValueError: 2\n',
        "ValueError: 1",
    ),
    "NCCL": (
        of_rank(0, f"{STACK}torch.DistBackendError: NCCL error\nLast error:\nDuplicate GPU detected") + NOT_DESTROYED,
        "torch.DistBackendError: NCCL error Last error: Duplicate GPU detected",
    ),
    "CUDA": (
        of_rank(
            1,
            f"{STACK}torch.AcceleratorError: CUDA error: an illegal memory access\n"
            "CUDA kernel errors might be asynchronously reported at some other API call.\n"
            "For debugging consider passing CUDA_LAUNCH_BLOCKING=1\n"
            "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n",
        ),
        "torch.AcceleratorError: CUDA error: an illegal memory access",
    ),
    "rich": (
        "╭───── Traceback (most recent call last) ─────╮\n│ /a/train.py:5 in <module>   │\n│ ❱ 5 main()  │\n"
        "╰──────────────────────────────────╯\nValueError: x\n" + "INFO bye\n",
        "ValueError: x",
    ),
    "mpirun's prefix": (
        "".join(f"[1,0]<stderr>:{line}\n" for line in f"{STACK}ValueError: x".splitlines()),
        "ValueError: x",
    ),
    "MPI": (
        "[h:1] *** An error occurred in MPI_Allreduce\n[h:1] *** reported by process [1,0]\n"
        "[h:1] *** MPI_ERR_TRUNCATE: message truncated\n[h:1] *** MPI_ERRORS_ARE_FATAL (processes in this)\n",
        "An error occurred in MPI_Allreduce: MPI_ERR_TRUNCATE: message truncated",
    ),
    "MPI_Abort": (
        "-" * 70
        + "\nMPI_ABORT was invoked on rank 0 in communicator MPI_COMM_WORLD\nwith errorcode 7.\n"
        + "-" * 70
        + "\n",
        "MPI_ABORT was invoked on rank 0 in communicator MPI_COMM_WORLD",
    ),
    "mpirun's banner": (
        "cannot read the index\n" + "-" * 70 + "\nPrimary job  terminated normally, but 1 process returned\n"
        "a non-zero exit code. Per user-direction, the job has been aborted.\n" + "-" * 70 + "\n",
        "cannot read the index",
    ),
    "C++": (TERMINATED, f"c10::DistBackendError: {WATCHDOG}"),
    "failed check": (
        "2026-11-28 21:00:00.1: F tensorflow/core/a.cc:12] Check failed: a == b\n",
        "tensorflow/core/a.cc:12] Check failed: a == b",
    ),
    "error of tfhet": (
        "[tfhet] step=5 epoch=0\n[tfhet] error: bad record\n[tfhet] saved\n",
        "[tfhet] error: bad record",
    ),
    "logged error": (
        "2026-11-28 21:00:00 ERROR no such bucket\n2026-11-28 21:00:01 INFO bye\n",
        "2026-11-28 21:00:00 ERROR no such bucket",
    ),
    "threads left": (f"{STACK}RuntimeError: x\nterminate called without an active exception\n", "RuntimeError: x"),
    "nothing": ("", ""),
}


@pytest.mark.parametrize(("output", "expected"), RECORDED.values(), ids=RECORDED)
def test_error_in_recorded_output(output, expected):
    assert error_in(output, strategy="torch") == expected
    assert error_in(output + NOT_DESTROYED, strategy="torch") == expected


HOROVOD = (
    "tensorflow.python.framework.errors_impl.UnknownError: {{function_node __wrapped__HorovodAllreduce_device_"
    "/job:localhost/replica:0/task:0/device:CPU:0}} Horovod has been shut down. This was caused by an exception on "
    "one of the ranks or an attempt to allreduce, allgather or broadcast a tensor after one of the ranks finished "
    "execution. If the shutdown was caused by an exception, you should see the exception in the log before the "
    "first shutdown message. [Op:HorovodAllreduce] name: progress"
)


@pytest.mark.parametrize(
    ("strategy", "output"),
    [
        ("horovod", STACK + HOROVOD),
        (
            "horovod",
            f"{STACK}{HOROVOD}\n\nDuring handling of the above exception, another exception occurred:\n\n{STACK}E: x",
        ),
        ("torch", TERMINATED),
    ],
)
def test_consequence_is_recognised(strategy, output):
    assert strategies.get(strategy).is_consequence(error_in(output, strategy=strategy))


def test_error_has_a_limit():
    long = error_in(f"{STACK}OSError: {'/opt/ml' * 500} No space left on device\n")
    assert long.startswith("OSError: /opt/ml") and long.endswith("No space left on device")
    assert len(long) <= TEXT_LIMIT + 10


FRAGMENTS = [
    STACK,
    GRAPH,
    DETECTED,
    NODE,
    ELASTIC,
    TERMINATED,
    "  + Exception Group Traceback (most recent call last):\n",
]
FRAGMENTS += [
    "ValueError: x\n",
    "  |",
    "\n",
    "During handling of the above exception, another exception occurred:\n",
    "bye\n",
]
FRAGMENTS += [
    "Exception ignored in: x\n",
    "[rank0]: ",
    "    +---- 1 ----\n",
    "    | E (1 sub-exception)\n",
    "\x1b[3",
    "\udcff",
]


@given(st.lists(st.one_of(st.sampled_from(FRAGMENTS), st.text()), max_size=30), st.integers(-64, 255))
def test_any_output_has_an_error_text(parts, code):
    found = error_in("".join(parts), code)
    assert "\n" not in found and len(found) < 2 * TEXT_LIMIT + 300
