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

from tfhet.process import Child, describe_exit, lives, stack_of_last_thread

pytestmark = pytest.mark.timeout(60)


class Told:
    """A child's lines, and a wait for one of them."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._news = asyncio.Event()

    def __call__(self, line: str) -> None:
        self.lines.append(line)
        self._news.set()

    async def line(self, number: int = 0) -> str:
        while len(self.lines) <= number:
            self._news.clear()
            await asyncio.wait_for(self._news.wait(), 20)
        return self.lines[number]


async def start(code: str, told: Callable[[str], None], **how: Any) -> Child:
    return await Child.start("child", [sys.executable, "-u", "-c", code], env=os.environ, on_line=told, **how)


def finish(code: str) -> tuple[int, list[str], Child]:
    """Exit code and lines of a child that runs `code` to its end, and the child."""

    async def run() -> tuple[int, list[str], Child]:
        told = Told()
        child = await start(code, told)
        return await asyncio.wait_for(child.wait(), 30), told.lines, child

    return asyncio.run(run())


def ended(pid: int) -> bool:
    """Whether a process is gone, or goes within moments."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        with contextlib.suppress(psutil.Error):
            if psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
                time.sleep(0.02)
                continue
        return True
    return False


def test_stdout_and_stderr_come_line_by_line_in_order():
    code = "import sys; print('one'); print('two', file=sys.stderr); sys.stdout.write('three\\r\\nfour')"
    assert finish(code)[:2] == (0, ["one", "two", "three", "four"])


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


def test_a_child_whose_output_is_not_read_waits_until_it_is(tmp_path: Path):
    go, full = tmp_path / "go", tmp_path / "full"

    async def run() -> tuple[int, list[str]]:
        told = Told()
        child = await start(FILLS % (str(go), str(full)), told)
        await told.line()
        child.read_output(False)
        go.touch()
        while not full.exists() and child.code is None:
            await asyncio.sleep(0.02)
        await asyncio.sleep(0.1)
        assert told.lines == ["up"] and child.code is None
        child.read_output()
        return await asyncio.wait_for(child.wait(), 30), told.lines

    code, lines = asyncio.run(run())
    assert code == 0 and lines[-1] == "last" and len(lines) > 2 and full.exists()


def test_what_was_not_read_is_read_once_the_child_has_ended():
    async def run() -> list[str]:
        told = Told()
        child = await start("import time; print('up'); time.sleep(0.3); print('last')", told)
        await told.line()
        child.read_output(False)
        await asyncio.wait_for(child.wait(), 30)
        return told.lines

    assert asyncio.run(run()) == ["up", "last"]


def test_the_output_of_a_child_that_has_closed_it_may_be_held_up():
    async def run() -> int:
        told = Told()
        child = await start("import os, time; print('up', flush=True); os.close(1); os.close(2); time.sleep(0.5)", told)
        await told.line()
        await asyncio.sleep(0.2)
        child.read_output(False)
        child.read_output()
        return await asyncio.wait_for(child.wait(), 30)

    assert asyncio.run(run()) == 0


def test_noise_does_not_drive_the_last_words_out():
    async def run() -> list[str]:
        code, told = "print('Error: why')\nfor n in range(99): print('noise', n)", Told()
        child = await start(code, told, is_noise=lambda line: line.startswith("noise"))
        await child.wait()
        assert len(told.lines) == 100
        return list(child.tail)

    assert asyncio.run(run()) == ["Error: why"]


def test_bytes_that_are_no_text_are_replaced():
    assert finish("import os; os.write(1, b'\\xff\\xfe ok\\n')")[1] == ["\ufffd\ufffd ok"]


def test_a_line_without_end_comes_in_pieces_and_whole():
    code, lines, child = finish("import sys; sys.stdout.write('x' * 3_000_000 + '\\nend\\n')")
    assert code == 0
    assert lines[-1] == "end"
    assert len(lines) > 2
    assert "".join(lines[:-1]) == "x" * 3_000_000


def test_much_output_just_before_the_end_is_not_lost():
    code, lines, child = finish("print('\\n'.join(map(str, range(50_000))))")
    assert lines == [str(i) for i in range(50_000)]
    assert list(child.tail) == [str(i) for i in range(49_980, 50_000)]


@pytest.mark.parametrize(
    ("code", "exit_code"),
    [
        ("pass", 0),
        ("raise SystemExit(3)", 3),
        ("import os; os.kill(os.getpid(), 9)", -9),
        ("import os; os.abort()", -6),
    ],
)
def test_the_exit_code_is_the_childs_and_negative_for_a_signal(code, exit_code):
    found, _, child = finish(code)
    assert found == exit_code
    assert child.code == exit_code


def test_its_end_can_be_waited_for_by_several_and_again():
    async def run() -> None:
        child = await start("raise SystemExit(5)", Told())
        assert child.code is None
        assert await asyncio.gather(child.wait(), child.wait(), child.stop()) in ([5, 5, 5], [-15, -15, -15])
        assert await child.wait() == child.code == await child.stop()

    asyncio.run(run())


def test_stop_asks_first():
    async def run() -> tuple[int, list[str]]:
        told = Told()
        code = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: (print('asked'), sys.exit(7)))
print('here')
time.sleep(60)
"""
        child = await start(code, told)
        await told.line()
        return await child.stop(20), told.lines

    assert asyncio.run(run()) == (7, ["here", "asked"])


def test_stop_kills_what_takes_no_notice():
    async def run() -> int:
        told = Told()
        child = await start(
            "import signal, time; signal.signal(15, signal.SIG_IGN); print('here'); time.sleep(60)", told
        )
        await told.line()
        return await child.stop(0.1)

    assert asyncio.run(run()) == -signal.SIGKILL


def test_stop_ends_a_process_that_is_frozen():
    async def run() -> int:
        child = await start("import os, signal, time; os.kill(os.getpid(), signal.SIGSTOP); time.sleep(60)", Told())
        while psutil.Process(child.pid).status() != psutil.STATUS_STOPPED:
            await asyncio.sleep(0.01)
        return await child.stop(0.1)

    assert asyncio.run(run()) == -signal.SIGKILL


def test_what_a_child_has_started_ends_with_it():
    code = """
import subprocess, sys
print(subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']).pid)
"""
    exit_code, lines, _ = finish(code)
    assert exit_code == 0
    assert ended(int(lines[0]))


def test_a_grandchild_that_ignores_the_signal_ends_with_the_group():
    async def run() -> int:
        told = Told()
        grandchild = "import signal, time; signal.signal(15, signal.SIG_IGN); print('deaf', flush=True); time.sleep(60)"
        code = f"""
import subprocess, sys, time
print(subprocess.Popen([sys.executable, '-c', {grandchild!r}]).pid)
time.sleep(60)
"""
        child = await start(code, told)
        await told.line(1)
        assert await child.stop(10) == -signal.SIGTERM
        return next(int(line) for line in told.lines if line.isdigit())

    assert ended(asyncio.run(run()))


def test_a_daemon_that_holds_the_pipe_does_not_hide_the_end():
    code = """
import subprocess, sys
command = [sys.executable, '-c', 'import time; time.sleep(60)']
print(subprocess.Popen(command, start_new_session=True).pid)
"""
    exit_code, lines, _ = finish(code)
    assert exit_code == 0
    os.kill(int(lines[0]), signal.SIGKILL)  # it is in a session of its own, which is its own affair


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="the kernel tells a child of its parent's death on Linux"
)
@pytest.mark.parametrize("when_orphaned", ["SIGKILL", "SIGTERM"])
def test_a_child_ends_when_its_parent_is_killed(when_orphaned):
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
    assert ended(child)


def test_a_command_that_is_not_there_is_an_error():
    async def run() -> None:
        await Child.start("child", ["/nowhere/at-all"], env={}, on_line=print)

    with pytest.raises(OSError, match="No such file"):
        asyncio.run(run())


@pytest.mark.parametrize("turns", range(5))
def test_a_start_that_is_cancelled_leaves_no_process(turns):
    async def run() -> None:
        task = asyncio.create_task(start("import time; time.sleep(60)", Told()))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        result = (await asyncio.gather(task, return_exceptions=True))[0]
        if isinstance(result, Child):  # it was quicker
            await result.stop(0)

    before = {child.pid for child in psutil.Process().children()}
    asyncio.run(run())
    assert all(ended(child.pid) for child in psutil.Process().children() if child.pid not in before)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (0, "exit code 0"),
        (3, "exit code 3"),
        (-signal.SIGTERM, "SIGTERM"),
        (-signal.SIGKILL, "SIGKILL (out of memory?)"),
        (-40, "signal 40"),
    ],
)
def test_an_exit_code_is_said_in_words(code, words):
    assert describe_exit(code) == words


@pytest.mark.parametrize(
    ("code", "line", "words"),
    [
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
def test_memory_is_named_where_the_last_lines_name_it(code, line, words):
    assert describe_exit(code, ["before", line, "after"]) == words


def test_a_process_lives_until_it_is_a_zombie_or_its_number_is_another_ones():
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
def test_at_the_end_of_a_process_the_thread_that_it_waits_for_is_known(begins, name):
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


def test_who_looks_for_a_last_thread_keeps_no_object_of_the_threads_that_it_looks_at():
    held, may_end = [], threading.Event()

    def holds() -> None:
        own = Told()
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
