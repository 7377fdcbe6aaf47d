from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from event_loop import in_event_loop, until

from tfhet.process import Child, describe_exit, lives, stack_of_last_thread

pytestmark = pytest.mark.timeout(60)


class Lines(list[str]):
    """The lines of a child."""

    async def first(self, number: int = 1) -> list[str]:
        """Waits for so many lines."""
        await until(lambda: len(self) >= number)
        return self[:number]


async def start(code: str, on_line: Callable[[str], None] = lambda line: None, **how: Any) -> Child:
    return await Child.start("child", [sys.executable, "-u", "-c", code], env=os.environ, on_line=on_line, **how)


def finish(code: str, **how: Any) -> tuple[int, list[str], Child]:
    """Exit code and lines of a child that runs `code` to its end, and the child."""

    async def run() -> tuple[int, list[str], Child]:
        lines: list[str] = []
        child = await start(code, lines.append, **how)
        return await asyncio.wait_for(child.wait(), 30), lines, child

    return asyncio.run(run())


def ends(pid: int) -> bool:
    """Whether a process is gone within some seconds."""
    with contextlib.suppress(psutil.NoSuchProcess):
        _, alive = psutil.wait_procs([process := psutil.Process(pid)], timeout=10)
        return not alive or process.status() == psutil.STATUS_ZOMBIE
    return True


@pytest.mark.parametrize(
    ("code", "lines"),
    [
        (
            "import sys; print('one'); print('two', file=sys.stderr); sys.stdout.write('three\\r\\nfour')",
            ["one", "two", "three", "four"],
        ),
        ("import os; os.write(1, b'\\xff\\xfe ok\\n')", ["\ufffd\ufffd ok"]),
        ("print('\\n'.join(map(str, range(50_000))))", [str(i) for i in range(50_000)]),
    ],
    ids=["both streams", "no text", "many lines"],
)
def test_output_arrives_line_by_line(code, lines):
    exit_code, found, child = finish(code)
    assert (exit_code, found) == (0, lines)
    assert list(child.tail) == lines[-20:]


def test_long_line_arrives_in_pieces():
    code, lines, _ = finish("import sys; sys.stdout.write('x' * 3_000_000 + '\\nend\\n')")
    assert code == 0 and lines[-1] == "end" and len(lines) > 2
    assert "".join(lines[:-1]) == "x" * 3_000_000


def test_noise_is_not_in_the_tail():
    code = "print('Error: why')\nfor n in range(99): print('noise', n)"
    _, lines, child = finish(code, is_noise=lambda line: line.startswith("noise"))
    assert len(lines) == 100 and list(child.tail) == ["Error: why"]


FILLS = """
import os, pathlib, sys, time
go, full = map(pathlib.Path, (%r, %r))
print("up", flush=True)
while not go.exists():
    time.sleep(0.01)
os.set_blocking(1, False)
try:
    for _ in range(20_000):
        os.write(1, b"x" * 99 + b"\\n")
except BlockingIOError:
    full.touch()
os.set_blocking(1, True)
print("x" * 5000 + "\\nlast", flush=True)
"""


@in_event_loop
async def test_unread_output_blocks_the_child(tmp_path: Path):
    go, full, lines = tmp_path / "go", tmp_path / "full", Lines()
    child = await start(FILLS % (str(go), str(full)), lines.append)
    await lines.first()
    child.read_output(False)
    go.touch()
    await until(lambda: full.exists() or child.code is not None)
    await asyncio.sleep(0.1)
    assert lines == ["up"] and child.code is None
    child.read_output()
    assert await child.wait() == 0
    assert lines[-1] == "last" and len(lines) > 2


@pytest.mark.parametrize("closes", [False, True])
@in_event_loop
async def test_unread_output_is_read_at_the_end(closes):
    code, lines = "import os, time; print('up'); time.sleep(0.3); print('last')", Lines()
    if closes:
        code = "import os, time; print('up', flush=True); os.close(1); os.close(2); time.sleep(0.5)"
    child = await start(code, lines.append)
    await lines.first()
    if closes:
        await asyncio.sleep(0.2)
    child.read_output(False)
    assert await child.wait() == 0
    assert lines == ["up"] + ["last"] * (not closes)


@pytest.mark.parametrize(
    ("code", "exit_code"), [("pass", 0), ("raise SystemExit(3)", 3), ("import os; os.kill(os.getpid(), 9)", -9)]
)
def test_exit_code_is_the_childs(code, exit_code):
    found, _, child = finish(code)
    assert found == child.code == exit_code


@in_event_loop
async def test_end_can_be_awaited_again():
    child = await start("raise SystemExit(5)")
    assert await asyncio.gather(child.wait(), child.wait(), child.stop()) in ([5, 5, 5], [-15, -15, -15])
    assert await child.wait() == child.code == await child.stop()


@pytest.mark.parametrize(
    ("code", "grace_s", "expected"),
    [
        ("signal.signal(15, lambda *_: (print('asked'), sys.exit(7)))", 20, 7),
        ("signal.signal(15, signal.SIG_IGN)", 0.1, -signal.SIGKILL),
    ],
    ids=["asks", "kills"],
)
@in_event_loop
async def test_stop_asks_then_kills(code, grace_s, expected):
    lines = Lines()
    child = await start(f"import signal, sys, time\n{code}\nprint('here')\ntime.sleep(60)", lines.append)
    await lines.first()
    assert await child.stop(grace_s) == expected
    assert lines == ["here"] + ["asked"] * (expected == 7)


@in_event_loop
async def test_stop_ends_a_frozen_process():
    child = await start("import os, signal, time; os.kill(os.getpid(), signal.SIGSTOP); time.sleep(60)")
    await until(lambda: psutil.Process(child.pid).status() == psutil.STATUS_STOPPED)
    assert await child.stop(0.1) == -signal.SIGKILL


@pytest.mark.parametrize("is_stopped", [False, True])
@in_event_loop
async def test_grandchildren_end_with_the_child(is_stopped):
    grandchild = "import signal, time; signal.signal(15, signal.SIG_IGN); print('deaf', flush=True); time.sleep(60)"
    code = "import subprocess, sys, time\n"
    code += f"print(subprocess.Popen([sys.executable, '-c', {grandchild!r}]).pid, flush=True)\n"
    code += "time.sleep(60)" if is_stopped else "time.sleep(0.1)"
    lines = Lines()
    child = await start(code, lines.append)
    if is_stopped:
        await lines.first(2)
        assert await child.stop(10) == -signal.SIGTERM
    else:
        assert await child.wait() == 0
    assert ends(next(int(line) for line in lines if line.isdigit()))


def test_daemon_does_not_hide_the_end():
    code = """
import subprocess, sys
command = [sys.executable, '-c', 'import time; time.sleep(60)']
print(subprocess.Popen(command, start_new_session=True).pid)
"""
    exit_code, lines, _ = finish(code)
    assert exit_code == 0
    os.kill(int(lines[0]), signal.SIGKILL)  # it has its own session, so it is left alone


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux signals the death of a parent")
@pytest.mark.parametrize("when_orphaned", ["SIGKILL", "SIGTERM"])
def test_child_ends_with_its_parent(when_orphaned):
    code = f"""
import asyncio, os, signal, sys
from tfhet.process import Child

async def run():
    deaf = "signal.signal(15, signal.SIG_IGN)" if {when_orphaned == "SIGKILL"} else "pass"
    code = f'import os, signal, time; {{deaf}}; print(os.getpid(), flush=True); time.sleep(60)'
    told = lambda line: print(line, flush=True)
    command = [sys.executable, '-c', code]
    await Child.start('child', command, env=os.environ, on_line=told, when_orphaned=signal.{when_orphaned})
    await asyncio.sleep(60)

asyncio.run(run())
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert psutil.pid_exists(child)
        parent.kill()
    assert ends(child)


def test_missing_command_is_an_error():
    with pytest.raises(OSError, match="No such file"):
        asyncio.run(Child.start("child", ["/nowhere/at-all"], env={}, on_line=print))


@pytest.mark.parametrize("turns", range(5))
def test_cancelled_start_leaves_no_process(turns):
    async def run() -> None:
        task = asyncio.create_task(start("import time; time.sleep(60)"))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        result = (await asyncio.gather(task, return_exceptions=True))[0]
        if isinstance(result, Child):  # it has started
            await result.stop(0)

    before = {child.pid for child in psutil.Process().children()}
    asyncio.run(run())
    assert all(ends(child.pid) for child in psutil.Process().children() if child.pid not in before)


@pytest.mark.parametrize(
    ("code", "line", "words"),
    [
        (3, "", "exit code 3"),
        (-signal.SIGTERM, "", "SIGTERM"),
        (-signal.SIGKILL, "", "SIGKILL (out of memory?)"),
        (-40, "", "signal 40"),
        (-signal.SIGABRT, "  what():  std::bad_alloc", "SIGABRT (out of memory)"),
        (1, "MemoryError", "exit code 1 (out of memory)"),
        (1, "ResourceExhaustedError: OOM when allocating tensor with shape[9]", "exit code 1 (out of memory)"),
        (1, "tensorflow.python.framework.errors_impl.ResourceExhaustedError: x", "exit code 1 (out of memory?)"),
        (1, "errors_impl.ResourceExhaustedError: /opt/ml/x; No space left on device", "exit code 1 (disk full)"),
        (-signal.SIGABRT, "Thread x creation via pthread_create() failed.", "SIGABRT (out of memory?)"),
        (-signal.SIGKILL, "OSError: [Errno 12] Cannot allocate memory", "SIGKILL (out of memory)"),
        (-signal.SIGABRT, "Aborted", "SIGABRT"),
        (0, "MemoryError", "exit code 0"),
    ],
)
def test_description_of_an_exit_code(code, line, words):
    assert describe_exit(code, ["before", line, "after"]) == words


def test_zombie_and_reused_number_do_not_live():
    child = subprocess.Popen(["sleep", "60"])
    process, another = psutil.Process(child.pid), psutil.Process(child.pid)
    another._ident = (child.pid, another.create_time() - 1.0)
    try:
        assert lives(process) and not lives(another)
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert process.status() == psutil.STATUS_ZOMBIE and not lives(process)
    finally:
        child.kill()
        child.wait()
    assert not lives(process)


@pytest.mark.parametrize(
    ("begins", "name"),
    [
        ("threading.Thread(target=works, name='own').start()", "own"),
        ("concurrent.futures.ThreadPoolExecutor(1, 'pool').submit(works)", "pool_0"),
    ],
)
def test_last_thread_of_a_process_is_known(begins, name):
    code = f"""
import concurrent.futures, threading, time
from tfhet.process import stack_of_last_thread

is_found = threading.Event()

def works():
    is_found.wait()

def looks():
    while not (found := stack_of_last_thread()):
        time.sleep(0.01)
    print(found, flush=True)
    is_found.set()

threading.Thread(target=looks, daemon=True).start()
{begins}
print([stack_of_last_thread()], flush=True)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=50, check=True)
    before, head, *frames = done.stdout.splitlines()
    assert before == "['']"
    assert head == f"thread {name} (most recent call first):"
    assert '  File "<string>", line 8 in works' in frames


def test_look_for_a_last_thread_keeps_no_object():
    held, may_end = [], threading.Event()

    def holds() -> None:
        own = Lines()
        held.append(weakref.ref(own))
        may_end.wait()

    holder, looker = threading.Thread(target=holds), threading.Thread(target=stack_of_last_thread)
    gc.disable()
    try:
        holder.start()
        while not held:
            time.sleep(0.01)
        looker.start()
        looker.join()
        may_end.set()
        holder.join()
        assert held[0]() is None
    finally:
        gc.enable()


BAR = """
import pathlib, sys, time
sys.stdout.write("\\r1/2"); sys.stdout.flush()
until_s = time.monotonic() + 30
while not pathlib.Path(%r).exists() and time.monotonic() < until_s:
    time.sleep(0.01)
sys.stdout.write("\\r2/2\\nend\\n")
"""


def test_progress_bar_is_shown_while_it_runs(tmp_path, monkeypatch):
    monkeypatch.setattr("tfhet.process_output.REDRAWN_S", 0.01)
    lines: list[str] = []

    def on_line(line: str) -> None:
        lines.append(line)
        (tmp_path / "go").touch()

    async def run() -> tuple[int, list[str]]:
        child = await Child.start("bar", [sys.executable, "-c", BAR % str(tmp_path / "go")], env={}, on_line=on_line)
        return await child.wait(), list(child.tail)

    code, tail = asyncio.run(run())
    assert (code, lines[0], lines[-2:]) == (0, "1/2", ["2/2", "end"])
    assert tail == ["2/2", "end"], "a state replaces the one before"
