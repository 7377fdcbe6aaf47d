from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tfhet.errors import UsageError
from tfhet.simulate import fault
from tfhet.simulate.fault import HostFaults, library

pytestmark = pytest.mark.timeout(120)
AN_HOUR_MS = 3_600_000
LIMIT_S = 60.0
# Prints each way to write below a folder, with its error. Some files are open, or exist, before the fault.
WRITES = """
import ctypes, errno, os, sys, time
folder, libc = sys.argv[1], ctypes.CDLL(None, use_errno=True)
libc.fopen.restype, libc.fopen.argtypes = ctypes.c_void_p, [ctypes.c_char_p, ctypes.c_char_p]
for name in ("fwrite", "fputs", "fflush", "fclose", "ferror"):
    getattr(libc, name).argtypes = {"fwrite": [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_void_p],
                                    "fputs": [ctypes.c_char_p, ctypes.c_void_p]}.get(name, [ctypes.c_void_p])
file = os.open(f"{folder}/file", os.O_RDWR | os.O_CREAT)
written, waiting = (libc.fopen(f"{folder}/{name}".encode(), b"w") for name in ("written", "waiting"))
assert libc.fwrite(b"first", 1, 5, waiting) == 5
print("up", flush=True)
sys.stdin.readline()

def see(name, call, failed=None):
    ctypes.set_errno(0)
    try:
        code = ctypes.get_errno() if call() == failed else 0
    except OSError as error:
        code = error.errno
    print(name, errno.errorcode.get(code, "-"), flush=True)

see("write", lambda: os.write(file, b"x"))
see("pwrite", lambda: os.pwrite(file, b"x", 0))
see("writev", lambda: os.writev(file, [b"x"]))
see("fsync", lambda: os.fsync(file))
see("new", lambda: open(f"{folder}/new", "w").close())
see("there", lambda: os.close(os.open(f"{folder}/file", os.O_RDWR | os.O_CREAT)))
see("mkdir", lambda: os.mkdir(f"{folder}/made"))
see("fopen", lambda: libc.fopen(f"{folder}/opened".encode(), b"w"))
see("fwrite", lambda: libc.fwrite(b"x" * 10_000, 1, 10_000, written), 0)
see("fputs", lambda: libc.fputs(b"x", written), -1)
see("fflush", lambda: libc.fflush(waiting), -1)
see("fclose", lambda: libc.fclose(waiting), -1)
see("ferror", lambda: os.strerror(5) and (ctypes.set_errno(errno.EIO) or bool(libc.ferror(written))), True)
"""
CLOCKS = """
import sys, threading, time, datetime
def look():
    wall, steady = time.time(), time.monotonic()
    print(round(wall), round(steady), int(datetime.datetime.now().timestamp()), time.time_ns() // 10**9, flush=True)
look()
sys.stdin.readline()
look()
began = time.monotonic()
threading.Event().wait(0.2)
print(time.monotonic() - began < 30)
"""


@pytest.fixture
def faults(tmp_path: Path) -> HostFaults:
    """The faults of a host that reads and writes below `tmp_path`/channel, reached by a link."""
    for folder in ("channel", "channel-2"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "file").write_text("data")
    made = HostFaults(tmp_path / "algo-1.faults")
    made.open([tmp_path / "elsewhere", tmp_path / "channel"], [tmp_path / "elsewhere", tmp_path / "channel"])
    return made


def run(faults: HostFaults, code: str, *arguments: object, meanwhile: Callable[[], None] = lambda: None) -> list[str]:
    """The lines of a process with the library. meanwhile: called when it waits for its input."""
    command = [sys.executable, "-u", "-c", code, *map(str, arguments)]
    env = {**os.environ, **faults.variables(os.environ)}
    with subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            first = process.stdout.readline()
            meanwhile()
            rest, _ = process.communicate("\n", timeout=LIMIT_S)
        finally:
            process.kill()
    assert process.returncode == 0
    return [first.strip(), *rest.splitlines()]


@pytest.mark.parametrize(
    ("kind", "code"), [("slow-disk", "assert os.read(file, 4) == b'data'"), ("slow-write", "os.write(file, b'new!')")]
)
def test_slow_files_take_longer(faults, tmp_path, monkeypatch, kind, code):
    file = tmp_path / "channel" / "file"
    timed = f"import os, sys, time\nfile = os.open(sys.argv[1], os.O_RDWR)\nbegan = time.monotonic()\n{code}\n"
    timed += "print(time.monotonic() - began)"
    for name in ("READ_MS", "WRITE_MS"):
        monkeypatch.setattr(fault, name, 200)
    faults.set(kind)
    assert float(run(faults, timed, file)[0]) >= 0.2
    file.write_text("data")
    for name in ("READ_MS", "WRITE_MS"):
        monkeypatch.setattr(fault, name, AN_HOUR_MS)
    faults.set(kind)
    run(faults, timed, tmp_path / "channel-2" / "file")  # files elsewhere are not affected
    faults.set(kind, is_on=False)
    run(faults, timed, file)


EVERY = ("write", "pwrite", "writev", "fsync", "new", "mkdir", "fopen", "fwrite", "fputs", "fflush", "fclose", "ferror")


@pytest.mark.parametrize(("kind", "error"), [("full-disk", "ENOSPC"), ("failing-write", "EIO")])
def test_every_way_to_write_fails(faults, tmp_path, kind, error):
    lines = run(faults, WRITES, tmp_path / "channel", meanwhile=lambda: faults.set(kind))
    results = dict(line.split() for line in lines[1:])
    expected = {name: error if name != "ferror" else "EIO" for name in EVERY}
    assert results == {**expected, "there": "-"}
    assert sorted(path.name for path in (tmp_path / "channel").iterdir()) == ["file", "waiting", "written"]
    assert (tmp_path / "channel" / "file").read_text() == "data"
    assert (tmp_path / "channel" / "waiting").read_text() == ""


@pytest.mark.parametrize("end", ["elsewhere", "off", "no file"])
def test_writes_succeed_without_the_fault(faults, tmp_path, end):
    faults.set("full-disk")
    if end == "off":
        faults.set("full-disk", is_on=False)
    elif end == "no file":
        faults.path.rename(tmp_path / "gone")
    lines = run(faults, WRITES, tmp_path / ("channel-2" if end == "elsewhere" else "channel"))
    assert {line.split()[1] for line in lines[1:]} == {"-"}


def test_name_look_up_takes_longer(faults):
    code = "import socket, time\nbegan = time.monotonic()\nsocket.getaddrinfo('127.0.0.1', 80)\n"
    faults.set("slow-dns", 0.3)
    assert float(run(faults, code + "print(time.monotonic() - began)")[0]) >= 0.3


@pytest.mark.parametrize("jump_s", [600.0, -600.0, 1e8])
def test_wall_clock_jumps_and_waits_do_not(faults, jump_s):
    before, after, waited = run(faults, CLOCKS, meanwhile=lambda: faults.set("clock", jump_s))
    (wall, steady, *_), (jumped, steady_later, *others) = (list(map(int, line.split())) for line in (before, after))
    assert 0 <= jumped - wall - jump_s < 60 and 0 <= steady_later - steady < 60
    assert all(abs(other - jumped) <= 2 for other in others)
    assert waited == "True"


def test_clock_jumps_back_at_the_end(faults):
    faults.set("clock", 600.0)
    before, after, _ = run(faults, CLOCKS, meanwhile=lambda: faults.set("clock", is_on=False))
    assert 540 < int(before.split()[0]) - int(after.split()[0]) <= 600


WAITS = """
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
struct timespec until(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  now.tv_nsec += 100000000;
  if (now.tv_nsec >= 1000000000) now.tv_sec += 1, now.tv_nsec -= 1000000000;
  return now;
}
double steady() {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec + now.tv_nsec / 1e9;
}
#define TIMES_OUT(clock, wait) { \\
  struct timespec t = until(clock); \\
  double began = steady(); \\
  fine += (wait) && steady() - began > 0.09; \\
}
int main() {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t real = PTHREAD_COND_INITIALIZER, counting;
  pthread_condattr_t how;
  sem_t semaphore;
  int futex = 0, fine = 0, operation = FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME;
  pthread_condattr_init(&how);
  pthread_condattr_setclock(&how, CLOCK_MONOTONIC);
  pthread_cond_init(&counting, &how);
  sem_init(&semaphore, 0, 0);
  pthread_mutex_lock(&mutex);
  TIMES_OUT(CLOCK_REALTIME, pthread_cond_timedwait(&real, &mutex, &t) == ETIMEDOUT)
  TIMES_OUT(CLOCK_MONOTONIC, pthread_cond_timedwait(&counting, &mutex, &t) == ETIMEDOUT)
  TIMES_OUT(CLOCK_REALTIME, sem_timedwait(&semaphore, &t) != 0 && errno == ETIMEDOUT)
  TIMES_OUT(CLOCK_REALTIME, syscall(SYS_futex, &futex, operation, 0, &t, NULL, ~0u) != 0 && errno == ETIMEDOUT)
  printf("%d\\n", fine);
  return 0;
}
"""


@pytest.mark.parametrize("jump_s", [600.0, -600.0])
def test_waits_for_wall_clock_times_keep_their_length(faults, tmp_path, jump_s):
    (tmp_path / "waits.c").write_text(WAITS)
    subprocess.run(["g++", "-x", "c++", "-o", tmp_path / "waits", tmp_path / "waits.c", "-pthread"], check=True)
    faults.set("clock", jump_s)
    env = {**os.environ, **faults.variables(os.environ)}
    done = subprocess.run([tmp_path / "waits"], env=env, capture_output=True, text=True, timeout=LIMIT_S, check=True)
    assert done.stdout == "4\n"


def test_earlier_preload_stays(faults):
    variables = faults.variables({**os.environ, "LD_PRELOAD": "/lib/other.so"})
    assert re.fullmatch(r"/.*host_faults.*\.so:/lib/other\.so", variables["LD_PRELOAD"])


def test_library_is_built_once_in_a_private_folder(tmp_path: Path):
    env = {"XDG_CACHE_HOME": str(tmp_path)}
    for compiler in (str(tmp_path / "none"), "false"):
        with pytest.raises(UsageError):
            library({**env, "CXX": compiler})
    assert not list((tmp_path / "tfhet" / "programs").iterdir())
    built = library(env)
    made = built.stat().st_mtime_ns
    assert library(env) == built and built.stat().st_mtime_ns == made
    (tmp_path / "tfhet").chmod(0o777)
    with pytest.raises(UsageError):
        library(env)


def test_kinds_have_different_numbers(faults):
    for kind in fault.PRELOADED:
        faults.set(kind, 1.0)
    content = faults.path.read_bytes()
    assert all(any(content[8 * place : 8 * place + 8]) for place in range(len(fault.PRELOADED)))
