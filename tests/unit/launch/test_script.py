"""The process of a rank's script, with scripts of a few lines."""

from __future__ import annotations

import asyncio
import os
import sys

import pytest

from tfhet.errors import JobFailed
from tfhet.launch import script
from tfhet.launch.script import Hearing, Script, Standstill

HEAD = "Current thread 0x00007f1d5c0b4740 (most recent call first):"
OWN = ['  File "/opt/ml/code/train.py", line 30 in step', '  File "/opt/ml/code/train.py", line 44 in <module>']
STANDARD = '  File "/usr/lib/python3.11/threading.py", line 331 in wait'
END = '  File "/usr/lib/python3.11/threading.py", line 1590 in _shutdown'
EXECUTE = '  File "/v/lib/python3.11/site-packages/tensorflow/python/eager/execute.py", line 53 in quick_execute'
LOADED = '  File "<string>", line 59 in horovod_allreduce'
HOROVOD = '  File "/v/lib/python3.11/site-packages/horovod/tensorflow/mpi_ops.py", line 130 in _allreduce'
NEXT = '  File "/v/lib/python3.11/site-packages/tensorflow/python/data/ops/iterator_ops.py", line 773 in _next_internal'


@pytest.mark.parametrize(
    ("tail", "says", "patience"),
    [
        (["a line", HEAD, *OWN], "it hangs at train.py:30 in step", 0),
        ([HEAD, STANDARD, *OWN, "a line"], "it hangs at train.py:30 in step", 0),
        ([HEAD, EXECUTE, NEXT, *OWN], "it waits for data at train.py:30 in step", 1),
        ([HEAD, EXECUTE, *OWN], "it waits for data, or for another rank, or hangs at train.py:30 in step", 2),
        ([HEAD, LOADED, HOROVOD, *OWN], "it waits for data, or for another rank, or hangs at train.py:30 in step", 2),
        (OWN, "it waits for data, or for another rank, or hangs at train.py:30 in step", 2),
        ([HEAD, EXECUTE, *OWN, HEAD, *OWN], "it hangs at train.py:30 in step", 0),
        ([HEAD, *OWN, HEAD, END], "its code is over, but a thread goes on: it hangs at train.py:30 in step", 0),
        (
            [HEAD, EXECUTE, NEXT, *OWN, HEAD, STANDARD, END, HEAD, STANDARD, END],
            "its code is over, but a thread goes on: it waits for data at train.py:30 in step",
            1,
        ),
        ([HEAD, END], "its code is over, but a thread goes on: it waits for data, or for another rank, or hangs", 2),
        ([HEAD, *OWN, HEAD, "  <no Python frame>"], "its code is over, and a library hangs at the end of Python", 1),
        (["a line"], "it waits for data, or for another rank, or hangs", 2),
        ([], "it waits for data, or for another rank, or hangs", 2),
    ],
)
def test_the_stack_says_whether_a_script_hangs_itself_or_may_wait_for_another_rank(tail, says, patience):
    assert Standstill.of(tail) == Standstill(says, patience)


STALLS = """
import sys, time
from tfhet.cluster import environment
from tfhet.messages import inherited, rank
from tfhet.process import answer_with_stack
answer_with_stack()
send = lambda: inherited_.send(rank.Progress(steps=1))
inherited_ = inherited(environment())
send()
"""


@pytest.mark.parametrize(("of_package", "ranks", "least_s"), [(False, 2, 0.0), (True, 1, 0.0), (True, 2, 1.0)])
def test_only_a_rank_that_may_wait_for_another_one_is_kept_back(
    assignment_of, monkeypatch, tmp_path, of_package, ranks, least_s
):
    monkeypatch.setattr(script, "_PATIENCE_S", 0.5)
    package = tmp_path / "site-packages" if of_package else tmp_path
    package.mkdir(exist_ok=True)
    (package / "waiting.py").write_text("import time\ndef wait(): time.sleep(50)\n")
    (tmp_path / "mine.py").write_text(f"{STALLS}sys.path.append({str(package)!r})\nimport waiting\nwaiting.wait()\n")
    times: list[float] = []

    async def scenario() -> str:
        assignment = assignment_of("t1", 0, "--train_script", "mine.py", "--stall_timeout_s", 0.5, ranks=ranks)
        one = Script(assignment, Hearing(lambda line: times.append(asyncio.get_running_loop().time())), print)
        await one.start([sys.executable, str(tmp_path / "mine.py")], dict(os.environ))
        with pytest.raises(JobFailed) as failed:
            await one.ended()
        times.append(asyncio.get_running_loop().time())
        return str(failed.value)

    cause = asyncio.run(asyncio.wait_for(scenario(), 60))
    words = (
        "it waits for data, or for another rank, or hangs at mine.py:12" if of_package else "it hangs at waiting.py:2"
    )
    assert cause.startswith(f"rank 0 on t1 took no step for 0.5 s; {words}")
    assert least_s <= times[-1] - times[0] <= least_s + 10.0


def test_a_script_that_takes_a_step_while_it_is_kept_back_goes_on(assignment_of, monkeypatch, tmp_path):
    monkeypatch.setattr(script, "_PATIENCE_S", 2.0)
    (tmp_path / "site-packages").mkdir()
    (tmp_path / "site-packages" / "waiting.py").write_text("import time\ndef wait(): time.sleep(4)\n")
    code = f"{STALLS}sys.path.append({str(tmp_path / 'site-packages')!r})\nimport waiting\nwaiting.wait()\nsend()\n"
    (tmp_path / "mine.py").write_text(code)

    async def scenario() -> int:
        assignment = assignment_of("t1", 0, "--train_script", "mine.py", "--stall_timeout_s", 2.0, ranks=2)
        one = Script(assignment, Hearing(lambda line: None), print)
        await one.start([sys.executable, str(tmp_path / "mine.py")], dict(os.environ))
        return (await one.ended()).code

    assert asyncio.run(asyncio.wait_for(scenario(), 60)) == 0


def test_a_script_that_begins_to_read_after_it_was_asked_to_stop_is_asked_again(assignment_of):
    """As one whose library holds the signal until then."""
    code = "from signal import *; import time; signal(SIGTERM, SIG_IGN); print('deaf', flush=True); time.sleep(0.5)\n"
    code += "signal(SIGTERM, SIG_DFL); print('reads', flush=True); time.sleep(60)"

    async def scenario() -> int:
        said = {"deaf": asyncio.Event(), "reads": asyncio.Event()}
        one = Script(assignment_of("t1", 0), Hearing(lambda line: said[line].set()), lambda line: None)
        await one.start([sys.executable, "-c", code], dict(os.environ))
        await said["deaf"].wait()
        one.request_stop()
        await said["reads"].wait()
        one.has_begun_to_read()
        return (await one.ended()).code

    assert asyncio.run(asyncio.wait_for(scenario(), 15)) == 143


@pytest.mark.parametrize(("is_asked", "code"), [(True, 143), (False, 15)])
def test_the_handler_that_ray_installs_ends_a_script_in_order_that_was_asked_to_stop(assignment_of, is_asked, code):
    """It exits with the number of the signal; unasked, that is a code like any other."""
    text = "import signal, sys, time; signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(number))\n"
    text += "print('waits', flush=True); time.sleep(60)" if is_asked else "print('waits', flush=True); sys.exit(15)"

    async def scenario() -> int:
        waits = asyncio.Event()
        one = Script(assignment_of("t1", 0), Hearing(lambda line: waits.set()), lambda line: None)
        await one.start([sys.executable, "-c", text], dict(os.environ))
        await waits.wait()
        if is_asked:
            one.request_stop()
        return (await one.ended()).code

    assert asyncio.run(asyncio.wait_for(scenario(), 30)) == code


def test_a_script_that_is_killed_because_it_does_not_stop_is_said_to_have_had_its_time(assignment_of, monkeypatch):
    monkeypatch.setattr(script, "SCRIPT_GRACE_S", 0.2)
    code = "from signal import *; import time; signal(SIGTERM, SIG_IGN); print('deaf', flush=True); time.sleep(9)"

    async def scenario() -> str:
        deaf = asyncio.Event()
        said = Hearing(lambda line: deaf.set(), lambda line: None, lambda endlessly: None)
        one = Script(assignment_of("t1", 0, "--train_script", "mine.py"), said, lambda line: None)
        await one.start([sys.executable, "-c", code], dict(os.environ))
        await deaf.wait()
        one.request_stop()
        result = await one.ended()
        assert result.code == 137
        return result.headline

    headline = asyncio.run(asyncio.wait_for(scenario(), 30))
    assert headline.startswith("mine.py ended on t1, rank 0, which had 0.2 s to stop: SIGKILL")
