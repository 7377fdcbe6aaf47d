"""The output of a rank's script, and its process, with scripts of a few lines."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable

import pytest
from event_loop import in_event_loop
from fake_clock import FakeClock

from tfhet.errors import JobFailed
from tfhet.launch import script
from tfhet.launch.script import Script, Standstill
from tfhet.launch.script_output import ScriptOutput
from tfhet.messages import MetricLine, rank
from tfhet.record import StepTime
from tfhet.steps.meter import Meter

pytestmark = pytest.mark.timeout(60)


class Received:
    """The calls of a ScriptOutput: lines, metrics, and whether the script reads."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.metrics: list[MetricLine] = []
        self.reading: list[bool] = []
        self.output = ScriptOutput(self.lines.append, self.metrics.append, self.reading.append)

    def take(self, report: rank.Report | MetricLine) -> None:
        self.output.take(rank.Metrics(report.exact()) if isinstance(report, MetricLine) else report)


def metric(step: int) -> MetricLine:
    return MetricLine(step, 0, 86.1, 1280.0, 3.1, 2.3)


def test_lines_are_logged_and_messages_are_not():
    received = Received()
    received.output.on_line("hello")
    received.take(rank.Reading(endless=True))
    assert (received.lines, received.reading, received.metrics) == (["hello"], [True], [])


def test_metric_lines_are_counted_once():
    received = Received()
    received.output.on_line(str(metric(5)))
    received.take(metric(10))
    received.output.on_line(str(metric(15)))  # of a script that sends them as messages
    received.take(metric(20))
    assert [line.step for line in received.metrics] == [5, 10, 20]
    assert received.output.metrics == received.metrics[-1]
    assert [line.split()[1] for line in received.lines] == ["step=5", "step=10", "step=15", "step=20"]


def test_fit_that_runs_out_of_data_is_explained_once():
    received = Received()
    for _ in range(2):
        received.output.on_line("WARNING:tensorflow:Your input ran out of data; interrupting training. Make sure")
    assert ["distribute" in line for line in received.lines] == [False, True, False]


def test_totals_of_the_trainer_are_kept():
    meter, received = Meter(), Received()
    for _ in range(2):
        meter.add(StepTime(0.5, 0.125, 64))
    received.take(meter.totals())
    received.take(rank.Progress(wait_s=0.5))
    assert received.output.totals == {"steps": 2, "examples": 128.0, "step_s": 1.0, "wait_s": 0.5}


@pytest.mark.parametrize(("steps", "missing"), [(None, "step"), (0, "first batch"), (3, "step")])
def test_silent_script_lacks_its_first_batch_or_a_step(steps, missing):
    received = Received()
    received.take(rank.Progress(steps))
    assert received.output.missing.endswith(missing)


def test_silence_counts_from_the_last_progress():
    clock, received = FakeClock(100.0), Received()
    output = received.output = ScriptOutput(lambda line: None, clock=clock)
    clock.sleep(1000.0)
    assert output.silent_s() == 0.0, "of a script that never reports"
    for restart in (lambda: received.take(rank.Progress()), output.expect_progress):
        restart()
        clock.sleep(9.0)
        assert output.silent_s() == 9.0
    with pytest.raises(TimeoutError):
        asyncio.run(asyncio.wait_for(output.stalls(0.0), 0.05))
    asyncio.run(asyncio.wait_for(output.stalls(9.0), 5))


HEAD = "Current thread 0x00007f1d5c0b4740 (most recent call first):"
OWN = ['  File "/opt/ml/code/train.py", line 30 in step', '  File "/opt/ml/code/train.py", line 44 in <module>']
STANDARD = '  File "/usr/lib/python3.11/threading.py", line 331 in wait'
END = '  File "/usr/lib/python3.11/threading.py", line 1590 in _shutdown'
EXECUTE = '  File "/v/lib/python3.11/site-packages/tensorflow/python/eager/execute.py", line 53 in quick_execute'
LOADED = '  File "<string>", line 59 in horovod_allreduce'
HOROVOD = '  File "/v/lib/python3.11/site-packages/horovod/tensorflow/mpi_ops.py", line 130 in _allreduce'
NEXT = '  File "/v/lib/python3.11/site-packages/tensorflow/python/data/ops/iterator_ops.py", line 773 in _next_internal'


@pytest.mark.parametrize(
    ("tail", "patience", "has_place", "is_over"),
    [
        (["a line", HEAD, *OWN], 0, True, False),
        ([HEAD, STANDARD, *OWN, "a line"], 0, True, False),
        ([HEAD, EXECUTE, NEXT, *OWN], 1, True, False),
        ([HEAD, EXECUTE, *OWN], 2, True, False),
        ([HEAD, LOADED, HOROVOD, *OWN], 2, True, False),
        (OWN, 2, True, False),
        ([HEAD, EXECUTE, *OWN, HEAD, *OWN], 0, True, False),
        ([HEAD, *OWN, HEAD, END], 0, True, True),
        ([HEAD, EXECUTE, NEXT, *OWN, HEAD, STANDARD, END, HEAD, STANDARD, END], 1, True, True),
        ([HEAD, END], 2, False, True),
        ([HEAD, *OWN, HEAD, "  <no Python frame>"], 1, False, True),
        (["a line"], 2, False, False),
        ([], 2, False, False),
    ],
)
def test_stack_tells_whose_fault_a_standstill_is(tail, patience, has_place, is_over):
    found = Standstill.of(tail)
    assert found.patience == patience
    assert ("train.py:30 in step" in found.description, "code is over" in found.description) == (has_place, is_over)


STALLS = """
import sys, time
from tfhet.cluster import environment
from tfhet.messages import inherited, rank
from tfhet.process import answer_with_stack
answer_with_stack()
channel = inherited(environment())
send = lambda: channel.send(rank.Progress(steps=1))
send()
"""


@pytest.fixture
def start(assignment_of, tmp_path) -> Callable:
    """`await start(code, *arguments, on_line=..., ranks=1)`: the running script `mine.py` of rank 0."""

    async def begin(code: str, *arguments: object, on_line=lambda line: None, ranks: int = 1) -> Script:
        (tmp_path / "mine.py").write_text(code)
        assignment = assignment_of("t1", 0, "--train_script", "mine.py", *arguments, ranks=ranks)
        one = Script(assignment, ScriptOutput(on_line), lambda line: None)
        await one.start([sys.executable, str(tmp_path / "mine.py")], dict(os.environ))
        return one

    return begin


@pytest.mark.parametrize(
    ("in_package", "ranks", "least_s"), [(False, 2, 0.0), (True, 1, 0.0), (True, 2, 1.0)], ids=["own", "alone", "waits"]
)
@in_event_loop
async def test_possible_wait_for_a_rank_is_reported_late(start, monkeypatch, tmp_path, in_package, ranks, least_s):
    monkeypatch.setattr(script, "_PATIENCE_S", 0.5)
    monkeypatch.setattr(script, "_STACK_S", 0.1)
    package = tmp_path / "site-packages" if in_package else tmp_path
    package.mkdir(exist_ok=True)
    (package / "waiting.py").write_text("import time\ndef wait(): time.sleep(50)\n")
    code = f"{STALLS}sys.path.append({str(package)!r})\nimport waiting\nwaiting.wait()\n"
    now, times = asyncio.get_running_loop().time, list[float]()
    one = await start(code, "--stall_timeout_s", 0.5, on_line=lambda line: times.append(now()), ranks=ranks)
    with pytest.raises(JobFailed, match="rank 0 on t1 .*" + ("mine.py:12" if in_package else "waiting.py:2")):
        await one.ended()
    assert least_s <= now() - times[0]


@in_event_loop
async def test_script_that_takes_a_late_step_continues(start, monkeypatch, tmp_path):
    monkeypatch.setattr(script, "_PATIENCE_S", 2.0)
    monkeypatch.setattr(script, "_STACK_S", 0.1)
    (tmp_path / "site-packages").mkdir()
    (tmp_path / "site-packages" / "waiting.py").write_text("import time\ndef wait(): time.sleep(2)\n")
    code = f"{STALLS}sys.path.append({str(tmp_path / 'site-packages')!r})\nimport waiting\nwaiting.wait()\nsend()\n"
    assert (await (await start(code, "--stall_timeout_s", 1.0, ranks=2)).ended()).code == 0


@in_event_loop
async def test_stop_that_a_library_blocks_is_repeated(start):
    code = "from signal import *; import time; signal(SIGTERM, SIG_IGN); print('deaf', flush=True); time.sleep(0.5)\n"
    code += "signal(SIGTERM, SIG_DFL); print('reads', flush=True); time.sleep(60)"
    printed = {"deaf": asyncio.Event(), "reads": asyncio.Event()}
    one = await start(code, on_line=lambda line: printed[line].set())
    await printed["deaf"].wait()
    one.request_stop()
    await printed["reads"].wait()
    one.has_begun_to_read()
    assert (await one.ended()).code == 143


@pytest.mark.parametrize(("is_asked", "code"), [(True, 143), (False, 15)])
@in_event_loop
async def test_exit_with_the_signals_number(start, is_asked, code):
    """As Ray's signal handler does; without a request to stop it is a code like any other."""
    text = "import signal, sys, time; signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(number))\n"
    text += "print('waits', flush=True); time.sleep(60)" if is_asked else "print('waits', flush=True); sys.exit(15)"
    waits = asyncio.Event()
    one = await start(text, on_line=lambda line: waits.set())
    await waits.wait()
    if is_asked:
        one.request_stop()
    assert (await one.ended()).code == code


@in_event_loop
async def test_script_that_ignores_a_stop_is_killed(start, monkeypatch):
    monkeypatch.setattr(script, "SCRIPT_GRACE_S", 0.2)
    code = "from signal import *; import time; signal(SIGTERM, SIG_IGN); print('x', flush=True); time.sleep(9)"
    deaf = asyncio.Event()
    one = await start(code, on_line=lambda line: deaf.set())
    await deaf.wait()
    one.request_stop()
    result = await one.ended()
    assert result.code == 137 and result.headline.startswith("mine.py ended on t1, rank 0") and "0.2 s" in result.cause


@pytest.mark.parametrize(
    ("kills", "expected"), [((3, 4), "(out of memory): out of memory"), ((3, 3), "(out of memory?)")]
)
@in_event_loop
async def test_kill_for_lack_of_memory_is_named(start, monkeypatch, kills, expected):
    counts = iter(kills)
    monkeypatch.setattr(script, "oom_kills", lambda: next(counts))
    one = await start("import os, signal; print('step 1', flush=True); os.kill(os.getpid(), signal.SIGKILL)")
    result = await one.ended()
    assert result.code == 137 and f"SIGKILL {expected}" in result.headline and "step 1" in result.headline
