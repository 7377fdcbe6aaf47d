"""PID 1 of a container, run as a process of its own; launchers are stand-ins that have only the name."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from tfhet.launch.init import LAUNCHER_NAME, ancestors, processes

pytestmark = [
    pytest.mark.timeout(60),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="PID 1 of a container is for Linux"),
]

INIT = [sys.executable, "-m", "tfhet.launch.init"]
PYTHON = sys.executable
SHORTER = "import sys, tfhet.launch.init as init; {}; sys.exit(init.main(sys.argv[1:]))"
SETTLES_SOON = [PYTHON, "-c", SHORTER.format("init.SETTLE_S = 0.3")]

# A stand-in says in a file which signals it hears; it ends `GRACE` seconds after the first, with its code.
STAND_IN = """
import ctypes, os, signal, sys, time
name, file, grace, *below = sys.argv[1:]
ctypes.CDLL(None).prctl(15, name.encode(), 0, 0, 0)
told = []
def hear(number, frame):
    told.append(number)
    with open(file, "a") as notes:
        notes.write(f"{signal.Signals(number).name}\\n")
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, hear)
if below:
    import subprocess
    child = subprocess.Popen([sys.executable, __file__, *below])
open(file + ".ready", "w").close()
while not told:
    time.sleep(0.01)
time.sleep(float(grace))
open(file + ".ended", "w").close()
sys.exit(5)
"""


class Running:
    """An init that runs, and the folder where what is below it leaves notes."""

    def __init__(self, process: subprocess.Popen[str], folder: Path):
        self.process = process
        self.folder = folder

    def wait_for(self, *files: str) -> None:
        until = time.monotonic() + 20
        while not all((self.folder / file).exists() for file in files):
            assert time.monotonic() < until, f"{files} did not come: {list(self.folder.iterdir())}"
            assert self.process.poll() is None, "init has ended"
            time.sleep(0.01)

    def notes(self, name: str) -> list[str]:
        path = self.folder / name
        return path.read_text().split() if path.exists() else []

    def code(self) -> int:
        return self.process.wait(30)


@pytest.fixture
def stand_in(tmp_path: Path) -> Path:
    path = tmp_path / "stand_in.py"
    path.write_text(STAND_IN)
    return path


@pytest.fixture
def start(tmp_path: Path) -> Iterator:
    """`start(command)`: an init that runs; ended, with all that is below it, after the test."""
    begun: list[subprocess.Popen[str]] = []

    def run(command: list[str], init: list[str] = INIT) -> Running:
        process = subprocess.Popen([*init, *command], text=True, stdin=subprocess.DEVNULL, cwd=tmp_path)
        begun.append(process)
        return Running(process, tmp_path)

    yield run
    for process in begun:
        if process.poll() is None:
            for child in psutil.Process(process.pid).children(recursive=True):
                child.kill()
            process.kill()
            process.wait(10)


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*INIT, *command], capture_output=True, text=True, timeout=30, check=False)


@pytest.mark.parametrize(
    ("script", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -TERM $$", 143), ("kill -KILL $$", 137)]
)
def test_the_exit_code_is_the_commands_and_128_more_than_a_signal(script, code):
    assert run("sh", "-c", script).returncode == code


def test_a_command_that_cannot_be_started_is_said_with_the_codes_of_a_shell(tmp_path):
    missing = run("no-such-command")
    assert missing.returncode == 127 and "no-such-command cannot be started" in missing.stderr
    (tmp_path / "plain").write_text("no program")
    assert run(str(tmp_path / "plain")).returncode == 126


def test_no_command_is_wrong_use():
    told = run()
    assert told.returncode == 2 and "COMMAND" in told.stderr


def test_input_output_arguments_and_folder_are_passed_on(tmp_path):
    told = subprocess.run(
        [*INIT, "sh", "-c", 'cat; pwd; echo "$1|$2"; echo wrong >&2', "sh", "a b", "--c"],
        input="asked\n",
        capture_output=True,
        text=True,
        timeout=30,
        cwd=tmp_path,
        check=True,
    )
    assert told.stdout.splitlines() == ["asked", str(tmp_path), "a b|--c"]
    assert told.stderr == "wrong\n"


def test_the_command_gets_signals_as_if_no_python_had_been_before_it():
    status = run("cat", "/proc/self/status").stdout.splitlines()
    masks = {line.split(":")[0]: int(line.split()[1], 16) for line in status if line.startswith(("SigBlk", "SigIgn"))}
    assert masks["SigBlk"] & (1 << (signal.SIGTERM - 1)) == 0
    assert masks["SigIgn"] & (1 << (signal.SIGPIPE - 1)) == 0


def test_what_loads_is_little():
    code = "import sys, tfhet.launch.init; print(*[n for n in ('asyncio', 'numpy', 'tensorflow') if n in sys.modules])"
    told = subprocess.run([PYTHON, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert told.stdout.split() == []


def test_a_stop_reaches_the_launchers_first_and_the_command_when_they_have_gone(start, stand_in):
    # SageMaker's toolkit would die of it, and with it the pipe that its launchers' lines go through.
    command = [PYTHON, str(stand_in), "train", "train", "0", LAUNCHER_NAME, "launcher", "0.3"]
    init = start(command, SETTLES_SOON)
    init.wait_for("launcher.ready", "train.ready")
    init.process.terminate()
    assert init.code() == 5
    assert init.notes("launcher") == ["SIGTERM"] and init.notes("train") == ["SIGTERM"]
    assert (init.folder / "train").stat().st_mtime_ns >= (init.folder / "launcher.ended").stat().st_mtime_ns


def test_a_command_that_sees_its_launcher_end_ends_by_itself_with_its_own_code(start, stand_in):
    launcher = [PYTHON, str(stand_in), LAUNCHER_NAME, "launcher", "0"]
    code = f"import subprocess, sys; print('heard of'); sys.exit(subprocess.run({launcher!r}).returncode + 1)"
    init = start([PYTHON, "-c", code])
    init.wait_for("launcher.ready")
    init.process.terminate()
    assert init.code() == 6


def test_a_launcher_whose_parent_has_died_is_waited_for_all_the_same(start, stand_in):
    launcher = [PYTHON, str(stand_in), LAUNCHER_NAME, "launcher", "0.5"]
    code = (
        "import os, signal, subprocess, sys\n"
        f"subprocess.Popen({launcher!r})\n"
        "while not os.path.exists('launcher'): pass\n"  # dies when its launcher has heard, before that has ended
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    init = start([PYTHON, "-c", code])
    init.wait_for("launcher.ready")
    init.process.terminate()
    assert init.code() == 128 + signal.SIGKILL
    assert (init.folder / "launcher.ended").exists()


def test_a_command_that_dies_by_itself_is_the_wish_to_stop_for_the_launchers_that_it_had_started(start, stand_in):
    launcher = [PYTHON, str(stand_in), LAUNCHER_NAME, "launcher", "0.5"]
    code = (
        "import os, signal, subprocess\n"
        f"subprocess.Popen({launcher!r})\n"
        "while not os.path.exists('launcher.ready'): pass\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    init = start([PYTHON, "-c", code])
    assert init.code() == 128 + signal.SIGKILL
    assert init.notes("launcher") == ["SIGTERM"]
    assert (init.folder / "launcher.ended").exists()  # it had the time that it took


def test_a_stop_is_not_told_to_who_stands_between_command_and_launcher(start, stand_in):
    # mpirun would end its ranks within a second.
    launcher = [LAUNCHER_NAME, "launcher", "0.2"]
    mpirun = [PYTHON, str(stand_in), "mpirun", "mpirun", "0", *launcher]
    init = start([PYTHON, "-c", f"import subprocess; subprocess.run({mpirun!r})"], SETTLES_SOON)
    init.wait_for("launcher.ready", "mpirun.ready")
    init.process.terminate()
    assert init.code() == 128 + signal.SIGTERM
    ended = (init.folder / "launcher.ended").stat().st_mtime_ns
    assert init.notes("launcher") == ["SIGTERM"]
    assert (init.folder / "mpirun").stat().st_mtime_ns >= ended, "told before the launcher had ended"


def test_a_launcher_below_a_launcher_is_told_by_that_one_only(start, stand_in):
    init = start([PYTHON, str(stand_in), LAUNCHER_NAME, "upper", "0.3", LAUNCHER_NAME, "lower", "0"])
    init.wait_for("upper.ready", "lower.ready")
    init.process.terminate()
    init.wait_for("upper")
    assert init.notes("lower") == []
    # The upper one is the command too, and told once; when it has gone nobody is above the lower one.
    assert init.code() == 5
    assert init.notes("upper") == ["SIGTERM"]
    assert init.notes("lower") == ["SIGTERM"]


def test_a_launcher_that_comes_after_the_stop_is_told_too(start, stand_in):
    late = [PYTHON, str(stand_in), LAUNCHER_NAME, "late", "0"]
    code = (
        "import signal, subprocess, time\n"
        "told = []\n"
        "signal.signal(signal.SIGTERM, lambda *_: told.append(1))\n"
        "open('ready', 'w').close()\n"
        "while not told: time.sleep(0.01)\n"
        f"subprocess.run({late!r})\n"
    )
    init = start([PYTHON, "-c", code])
    init.wait_for("ready")
    init.process.terminate()
    assert init.code() == 0
    assert init.notes("late") == ["SIGTERM"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_other_ways_to_ask_for_the_end_are_passed_on_as_they_are(start, stand_in, number):
    init = start([PYTHON, str(stand_in), "command", "command", "0"])
    init.wait_for("command.ready")
    init.process.send_signal(number)
    assert init.code() == 5
    assert init.notes("command") == [signal.Signals(number).name]


def test_launchers_of_others_on_the_machine_are_left_alone(start, stand_in, tmp_path):
    foreign = subprocess.Popen([PYTHON, str(stand_in), LAUNCHER_NAME, str(tmp_path / "foreign"), "0"])
    try:
        init = start([PYTHON, str(stand_in), "command", "command", "0"])
        init.wait_for("foreign.ready", "command.ready")
        init.process.terminate()
        assert init.code() == 5
        assert init.notes("foreign") == []
    finally:
        foreign.kill()
        foreign.wait()


def test_what_does_not_end_in_time_is_killed_and_the_code_says_so(start, tmp_path):
    deaf = "trap '' TERM; : >ready; while :; do sleep 0.1; done"
    shorter = (
        "import sys, tfhet.launch.init as init; init.STOP_S = init.LEFT_S = 0.3; sys.exit(init.main(sys.argv[1:]))"
    )
    init = start(["sh", "-c", deaf], [PYTHON, "-c", shorter])
    init.wait_for("ready")
    init.process.terminate()
    assert init.code() == 128 + signal.SIGKILL


def test_what_a_command_leaves_is_ended_also_what_hid_in_another_session_and_does_not_listen(tmp_path):
    (tmp_path / "deaf.sh").write_text("trap '' TERM; echo $$ >deaf; while :; do sleep 0.1; done")
    code = "setsid sh deaf.sh & sleep 100 & echo $! >plain; while ! test -s deaf; do sleep 0.05; done; exit 4"
    told = subprocess.run(
        [*INIT, "sh", "-c", code], capture_output=True, text=True, timeout=30, cwd=tmp_path, check=False
    )
    assert told.returncode == 4
    left = [int((tmp_path / name).read_text()) for name in ("deaf", "plain")]
    assert not [pid for pid in left if psutil.pid_exists(pid)]
    assert "SIGTERM to what is left" in told.stderr and "SIGKILL to what is left" in told.stderr


def test_orphans_are_buried_while_the_command_runs(start, tmp_path):
    # Each inner shell dies at once and leaves a child that ends later, to be asked for by init alone.
    init = start(["sh", "-c", "for i in 1 2 3 4 5; do (sleep 0.05 &); done; sleep 0.5; : >ready; sleep 100"])
    init.wait_for("ready")
    states = [child.status() for child in psutil.Process(init.process.pid).children(recursive=True)]
    assert psutil.STATUS_ZOMBIE not in states
    init.process.terminate()
    assert init.code() == 128 + signal.SIGTERM


def test_when_init_is_killed_the_command_is_not_left(start):
    init = start(["sh", "-c", "echo $$ >pid.new; mv pid.new pid; exec sleep 100"])
    init.wait_for("pid")
    pid = int((init.folder / "pid").read_text())
    init.process.kill()
    init.process.wait(10)
    until = time.monotonic() + 10
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < until
        time.sleep(0.01)


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("unshare"), reason="needs root and unshare (util-linux)")
def test_as_pid_1_it_hears_the_stop_and_finds_the_launchers_of_the_whole_container(start, stand_in):
    alone = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
    launcher = [PYTHON, str(stand_in), LAUNCHER_NAME, "launcher", "0.2"]
    init = start([PYTHON, "-c", f"import subprocess; subprocess.run({launcher!r})"], [*alone, *INIT])
    init.wait_for("launcher.ready")
    (pid_1,) = psutil.Process(init.process.pid).children()
    # Entered from outside, as by `docker exec`: nobody's child in there.
    entered = subprocess.Popen(
        ["nsenter", "-t", str(pid_1.pid), "-p", "-m", *launcher[:2], LAUNCHER_NAME, str(init.folder / "entered"), "0"]
    )
    try:
        init.wait_for("entered.ready")
        pid_1.terminate()
        assert init.code() == 0  # the command saw its launcher end
    finally:
        entered.kill()
        entered.wait(10)
    assert init.notes("launcher") == ["SIGTERM"] and init.notes("entered") == ["SIGTERM"]
    assert (init.folder / "launcher.ended").exists()


def test_the_process_table_knows_parents_and_who_lives():
    child = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    try:
        until = time.monotonic() + 10
        assert next(ancestors(processes(), child.pid)) == os.getpid()
        child.stdin.close()
        while child.pid in processes():
            assert time.monotonic() < until
            time.sleep(0.01)
        assert os.getpid() in processes()
    finally:
        child.wait()


def test_ancestors_end_where_the_namespace_does():
    table = {pid: SimpleNamespace(info={"ppid": parent}) for pid, parent in ((1, 0), (5, 1), (9, 5))}
    assert list(ancestors(table, 9)) == [5, 1]
    assert list(ancestors(table, 1)) == []
    assert list(ancestors(table, 77)) == []
