"""PID 1 of a container, in its own process; launchers are processes that have only the name of one."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tfhet.launch.init import LAUNCHER_NAME

pytestmark = [
    pytest.mark.timeout(60),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="PID 1 of a container is for Linux"),
]

PYTHON = sys.executable
INIT = [PYTHON, "-m", "tfhet.launch.init"]
KILLED, TERMINATED = 128 + signal.SIGKILL, 128 + signal.SIGTERM

# A process with a name. It records the signals that it receives, and ends `grace` seconds after the first, with code 5.
NAMED = """
import ctypes, os, signal, sys, time
name, file, grace, *below = sys.argv[1:]
ctypes.CDLL(None).prctl(15, name.encode(), 0, 0, 0)
received = []
def on_signal(number, frame):
    received.append(number)
    with open(file, "a") as notes:
        notes.write(f"{signal.Signals(number).name}\\n")
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, on_signal)
if below:
    import subprocess
    child = subprocess.Popen([sys.executable, __file__, *below])
open(file + ".ready", "w").close()
while not received:
    time.sleep(0.01)
time.sleep(float(grace))
open(file + ".ended", "w").close()
sys.exit(5)
"""


class Running:
    """A running init, and the folder in which its descendants record signals."""

    def __init__(self, process: subprocess.Popen[str], folder: Path):
        self.process = process
        self.folder = folder

    def wait_for(self, *files: str) -> None:
        until = time.monotonic() + 20
        while not all((self.folder / file).exists() for file in files):
            assert time.monotonic() < until, f"{files} missing: {list(self.folder.iterdir())}"
            assert self.process.poll() is None, "init has ended"
            time.sleep(0.01)

    def signals(self, name: str) -> list[str]:
        path = self.folder / name
        return path.read_text().split() if path.exists() else []

    def ended_ns(self, name: str) -> int:
        return (self.folder / f"{name}.ended").stat().st_mtime_ns

    def code(self) -> int:
        return self.process.wait(30)


@pytest.fixture
def named(tmp_path: Path) -> Callable[..., list[str]]:
    """`named(name, file, grace, ...)`: the command of a process with a name, or of several below each other."""
    (tmp_path / "named.py").write_text(NAMED)
    return lambda *words: [PYTHON, str(tmp_path / "named.py"), *words]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    """`start(command, SETTLE_S=...)`: a running init, with other constants."""
    begun: list[subprocess.Popen[str]] = []

    def run(command: list[str], *before: str, **constants: float) -> Running:
        init = INIT
        if constants:
            changes = "; ".join(f"init.{name} = {value}" for name, value in constants.items())
            code = f"import sys, tfhet.launch.init as init; {changes}; sys.exit(init.main(sys.argv[1:]))"
            init = [PYTHON, "-c", code]
        process = subprocess.Popen([*before, *init, *command], text=True, stdin=subprocess.DEVNULL, cwd=tmp_path)
        begun.append(process)
        return Running(process, tmp_path)

    yield run
    for process in begun:
        if process.poll() is None:
            for child in psutil.Process(process.pid).children(recursive=True):
                child.kill()
            process.kill()
            process.wait(10)


def run(*command: str, **how: object) -> subprocess.CompletedProcess[str]:
    given = {"capture_output": True, "text": True, "timeout": 30, "check": False, **how}
    return subprocess.run([*INIT, *command], **given)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["sh", "-c", "exit 7"], 7),
        (["sh", "-c", "kill -TERM $$"], TERMINATED),
        (["sh", "-c", "kill -KILL $$"], KILLED),
        (["no-such-command"], 127),
        ([os.devnull], 126),
        ([], 2),
    ],
)
def test_exit_code_is_the_commands(words, code):
    done = run(*words)
    assert done.returncode == code and bool(done.stderr) == (code in (2, 126, 127))


def test_command_runs_as_without_init(tmp_path):
    done = run("sh", "-c", 'cat; pwd; echo "$1|$2"; echo wrong >&2', "sh", "a b", "--c", input="asked\n", cwd=tmp_path)
    assert done.stdout.splitlines() == ["asked", str(tmp_path), "a b|--c"]
    assert done.stderr == "wrong\n"
    status = run("cat", "/proc/self/status").stdout.splitlines()
    masks = {line.split(":")[0]: int(line.split()[1], 16) for line in status if line.startswith(("SigBlk", "SigIgn"))}
    assert masks["SigBlk"] & (1 << (signal.SIGTERM - 1)) == 0
    assert masks["SigIgn"] & (1 << (signal.SIGPIPE - 1)) == 0


def test_init_imports_little():
    code = "import sys, tfhet.launch.init; print(*[n for n in ('asyncio', 'numpy', 'tensorflow') if n in sys.modules])"
    done = subprocess.run([PYTHON, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == []


@pytest.mark.parametrize("name", ["train", "mpirun"])
def test_stop_reaches_launchers_before_others(start, named, name):
    """The toolkit's `train` would die of it, and mpirun below the command would end its ranks within a second."""
    command = named(name, name, "0", LAUNCHER_NAME, "launcher", "0.3")
    code = f"import subprocess; subprocess.run({command!r})"
    init = start(command if name == "train" else [PYTHON, "-c", code], SETTLE_S=0.3)
    init.wait_for("launcher.ready", f"{name}.ready")
    init.process.terminate()
    assert init.code() == (5 if name == "train" else TERMINATED)
    assert init.signals("launcher") == ["SIGTERM"] and (name != "train" or init.signals(name) == ["SIGTERM"])
    assert (init.folder / name).stat().st_mtime_ns >= init.ended_ns("launcher")


@pytest.mark.parametrize("is_stopped", [True, False])
def test_launchers_are_stopped_if_the_command_dies(start, named, is_stopped):
    """With a stop, it dies when its launcher has received it, before the launcher has ended."""
    code = (
        "import os, signal, subprocess, sys\n"
        f"subprocess.Popen({named(LAUNCHER_NAME, 'launcher', '0.5')!r})\n"
        f"while not os.path.exists({'launcher' if is_stopped else 'launcher.ready'!r}): pass\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    init = start([PYTHON, "-c", code])
    if is_stopped:
        init.wait_for("launcher.ready")
        init.process.terminate()
    assert init.code() == KILLED
    assert init.signals("launcher") == ["SIGTERM"] and init.ended_ns("launcher")


def test_launcher_below_a_launcher_gets_no_signal(start, named):
    init = start(named(LAUNCHER_NAME, "upper", "0.3", LAUNCHER_NAME, "lower", "0"))
    init.wait_for("upper.ready", "lower.ready")
    init.process.terminate()
    init.wait_for("upper")
    assert init.signals("lower") == []
    # The upper one is also the command, and gets one signal; after its end no launcher is above the lower one.
    assert init.code() == 5
    assert init.signals("upper") == init.signals("lower") == ["SIGTERM"]


def test_launcher_that_starts_after_the_stop_gets_it(start, named):
    code = (
        "import signal, subprocess, time\n"
        "received = []\n"
        "signal.signal(signal.SIGTERM, lambda *_: received.append(1))\n"
        "open('ready', 'w').close()\n"
        "while not received: time.sleep(0.01)\n"
        f"subprocess.run({named(LAUNCHER_NAME, 'late', '0')!r})\n"
    )
    init = start([PYTHON, "-c", code])
    init.wait_for("ready")
    init.process.terminate()
    assert init.code() == 0 and init.signals("late") == ["SIGTERM"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_other_signals_are_passed_on(start, named, tmp_path, number):
    foreign = subprocess.Popen(named(LAUNCHER_NAME, str(tmp_path / "foreign"), "0"))
    try:
        init = start(named("command", "command", "0"))
        init.wait_for("foreign.ready", "command.ready")
        init.process.send_signal(number)
        assert init.code() == 5
        assert init.signals("command") == [signal.Signals(number).name]
        assert init.signals("foreign") == [], "a launcher that is not a descendant of init"
    finally:
        foreign.kill()
        foreign.wait()


def test_command_that_ignores_the_stop_is_killed(start):
    init = start(["sh", "-c", "trap '' TERM; : >ready; while :; do sleep 0.1; done"], STOP_S=0.3, LEFT_S=0.3)
    init.wait_for("ready")
    init.process.terminate()
    assert init.code() == KILLED


def test_remaining_processes_are_ended(start, tmp_path):
    (tmp_path / "deaf.sh").write_text("trap '' TERM; echo $$ >deaf; while :; do sleep 0.1; done")
    code = "setsid sh deaf.sh & sleep 100 & echo $! >plain; while ! test -s deaf; do sleep 0.05; done; exit 4"
    assert start(["sh", "-c", code], LEFT_S=0.5).code() == 4
    assert not [name for name in ("deaf", "plain") if psutil.pid_exists(int((tmp_path / name).read_text()))]


def test_orphans_are_reaped(start):
    # Each inner shell dies at once and leaves a child that ends later.
    init = start(["sh", "-c", "for i in 1 2 3 4 5; do (sleep 0.05 &); done; sleep 0.5; : >ready; sleep 100"])
    init.wait_for("ready")
    states = [child.status() for child in psutil.Process(init.process.pid).children(recursive=True)]
    assert psutil.STATUS_ZOMBIE not in states


def test_command_ends_if_init_is_killed(start):
    init = start(["sh", "-c", "echo $$ >pid.new; mv pid.new pid; exec sleep 100"])
    init.wait_for("pid")
    command = psutil.Process(int((init.folder / "pid").read_text()))
    init.process.kill()
    init.process.wait(10)
    _, alive = psutil.wait_procs([command], timeout=10)
    assert all(process.status() == psutil.STATUS_ZOMBIE for process in alive)


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("unshare"), reason="needs root and unshare (util-linux)")
def test_pid_1_stops_all_launchers_of_its_container(start, named):
    launcher = named(LAUNCHER_NAME, "launcher", "0.2")
    command = [PYTHON, "-c", f"import subprocess; subprocess.run({launcher!r})"]
    init = start(command, "unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
    init.wait_for("launcher.ready")
    (pid_1,) = psutil.Process(init.process.pid).children()
    # Entered from outside, like with `docker exec`: it has no parent in the container.
    enter = ["nsenter", "-t", str(pid_1.pid), "-p", "-m"]
    entered = subprocess.Popen([*enter, *named(LAUNCHER_NAME, str(init.folder / "entered"), "0")])
    try:
        init.wait_for("entered.ready")
        pid_1.terminate()
        assert init.code() == 0  # the command saw its launcher end
    finally:
        entered.kill()
        entered.wait(10)
    assert init.signals("launcher") == init.signals("entered") == ["SIGTERM"] and init.ended_ns("launcher")
