"""The launchers of one host's ranks, with small scripts in the place of launchers, in their own processes."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tfhet.cluster import Rank
from tfhet.errors import ClusterError
from tfhet.launch import LaunchSettings
from tfhet.launch.entry import LocalLaunchers, ranks_to_start

pytestmark = pytest.mark.timeout(60)

LAUNCHER = """
import os, signal, sys, time
rank = os.environ["TFHET_RANK"]
place = [os.environ["TFHET_" + name] for name in ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE")]
print("place", *place, *sys.argv[1:], flush=True)
print("and on stderr", file=sys.stderr, flush=True)
"""
STARTER = """
import asyncio, json, os, sys
from tfhet.launch import LaunchSettings, entry
entry.PATIENCE_S = 0.5
entry.STOP_GRACE_S = float(os.environ.get("GRACE_S", 20))
settings, rest = LaunchSettings.parse(sys.argv[2:])
env = dict(os.environ)
ranks = entry.ranks_to_start(env, settings)
one = entry.LocalLaunchers(ranks, [sys.executable, sys.argv[1], *rest], env, settings)
sys.exit(asyncio.run(entry.then_ignore_stops(one.run())))
"""


def to_start(env: dict[str, str], *arguments: object) -> list[tuple[int, int, int, int]]:
    settings, _ = LaunchSettings.parse([str(argument) for argument in arguments])
    ranks = ranks_to_start({"CUDA_VISIBLE_DEVICES": "", **env}, settings)
    return [(rank.rank, rank.size, rank.local_rank, rank.local_size) for rank in ranks]


def test_ranks_are_numbered_host_by_host(environment_of):
    hosts = {"dnn": ("algo-3", "algo-1"), "data": ("algo-2",)}
    words = ("--processes_per_host", 2)
    assert to_start(environment_of("algo-3", **hosts), *words) == [(0, 4, 0, 2), (1, 4, 1, 2)]
    assert to_start(environment_of("algo-1", **hosts), *words) == [(2, 4, 0, 2), (3, 4, 1, 2)]
    assert to_start(environment_of("algo-2", **hosts), *words) == []


def test_host_starts_a_rank_per_gpu(environment_of):
    env = environment_of("t1", dnn=("t1", "t2"))
    assert to_start(env) == [(0, 2, 0, 1)]
    assert len(to_start({**env, "CUDA_VISIBLE_DEVICES": "0,1,2,3"})) == 4
    assert len(to_start({**env, "CUDA_VISIBLE_DEVICES": "0,1,2,3"}, "--processes_per_host", 3)) == 3
    assert to_start(environment_of("t1")) == [], "a single process is the rank itself"


def test_started_rank_starts_no_other(environment_of):
    env = environment_of("t1", 0, dnn=("t1", "t2"), ranks=2)
    ours = environment_of("t1", dnn=("t1", "t2")) | Rank(0, 4, 0, 2, "tfhet").to_env()
    for one in (env, ours):
        assert to_start(one) == to_start(one, "--processes_per_host", 2) == []
    with pytest.raises(ClusterError, match="horovodrun"):
        to_start(env, "--processes_per_host", 3)


def test_host_alone_gets_a_fresh_secret(environment_of):
    def secret(env: dict[str, str]) -> str:
        settings, _ = LaunchSettings.parse(["--processes_per_host", "2"])
        return LocalLaunchers(ranks_to_start(env, settings), [], env, settings)._env.get("TFHET_SECRET", "")

    alone, several = environment_of("t1", data=()), environment_of("t1")
    assert secret(alone) == alone.pop("TFHET_SECRET") and secret(several) == several.pop("TFHET_SECRET")
    assert len({secret(alone), secret(alone)}) == 2 and len(secret(alone)) > 32
    assert secret(several) == ""


class Started:
    """A starter with its output."""

    def __init__(self, process: subprocess.Popen[str], failure: Path):
        self.process = process
        self.failure = failure

    def wait_for(self, *beginnings: str) -> list[str]:
        """Reads lines until one starts with each of these beginnings."""
        lines: list[str] = []
        for line in self.process.stdout or ():
            lines.append(line.rstrip("\n"))
            if all(any(each.startswith(start) for each in lines) for start in beginnings):
                return lines
        raise AssertionError(f"{beginnings} not in {lines}")

    def end(self) -> tuple[int, list[str]]:
        """Its exit code and the rest of its output."""
        assert self.process.stdout is not None
        lines = self.process.stdout.read().splitlines()
        return self.process.wait(30), lines


@pytest.fixture
def start(environment_of, tmp_path) -> Iterator[Callable[..., Started]]:
    """`start(code, *arguments)`: a host with two of four ranks, whose launchers are `code`."""
    begun: list[Started] = []

    def begin(code: str, *arguments: str, host: str = "t2", **extra: str) -> Started:
        (script := tmp_path / "launcher_like.py").write_text(LAUNCHER + code)
        env = {**os.environ, **environment_of(host, dnn=("t1", "t2")), **extra}
        words = [str(script), "--processes_per_host", "2", "--lease_s", "0.5", *arguments]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        process = subprocess.Popen([sys.executable, "-c", STARTER, *words], env=env, **pipes)
        begun.append(Started(process, tmp_path / host / "output" / "failure"))
        return begun[-1]

    yield begin
    for one in begun:
        one.process.kill()
        one.process.communicate()


def all_end(pids: list[int]) -> bool:
    _, alive = psutil.wait_procs([psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)], timeout=10)
    return not alive


def test_launchers_get_places_and_arguments(start):
    code, lines = start("sys.exit(5 if rank == '3' else 0)", "--epochs", "3").end()
    assert code == 5, "the worst exit code"
    places = [f"place {rank} 4 {local} 2 --epochs 3" for local, rank in enumerate((2, 3))]
    assert sorted(lines[1:]) == ["and on stderr", "and on stderr", *places]


def test_killed_launcher_ends_the_host(start):
    one = start("if rank == '3': os.kill(os.getpid(), 9)\ntime.sleep(60)")
    code, lines = one.end()
    assert code == 137 and any("rank 3 on t2" in line and "SIGKILL" in line for line in lines)
    assert "rank 3 on t2" in one.failure.read_text()


def test_remaining_launchers_are_ended(start):
    one = start("if rank == '3': sys.exit(3)\nsignal.signal(15, lambda *_: sys.exit(4))\ntime.sleep(60)")
    assert one.end()[0] == 4 and not one.failure.exists()


def test_leader_may_wait_for_late_hosts(start):
    code = "if rank == '1': sys.exit(3)\nsignal.signal(15, lambda *_: sys.exit(9))\ntime.sleep(2)\nsys.exit(3)"
    assert start(code, "--ready_timeout_s", "30", host="t1").end()[0] == 3


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_stop_is_passed_on(start, number):
    code = "signal.signal(15, lambda *_: (print('told', rank, flush=True), sys.exit(143)))\n"
    one = start(code + "print('ready', rank, flush=True)\nwhile True: time.sleep(0.1)")
    one.wait_for("ready 2", "ready 3")
    one.process.send_signal(number)
    code_, lines = one.end()
    assert code_ == 143 and {"told 2", "told 3"} <= set(lines) and not one.failure.exists()


@pytest.mark.parametrize("is_killed", [False, True])
def test_no_launcher_is_left(start, is_killed):
    code = "signal.signal(15, signal.SIG_DFL if IS_KILLED else signal.SIG_IGN)\n"
    code += "print('ready', rank, os.getpid(), flush=True)\ntime.sleep(60)"
    one = start(code.replace("IS_KILLED", str(is_killed)), GRACE_S="0.5")
    lines = one.wait_for("ready 2", "ready 3")
    pids = [int(line.split()[2]) for line in lines if line.startswith("ready")]
    if is_killed:
        one.process.kill()
    else:
        one.process.terminate()
        assert one.end()[0] == 137
    assert len(pids) == 2 and all_end(pids)


def test_launcher_that_cannot_be_started(environment_of, tmp_path):
    env = environment_of("t2", dnn=("t1", "t2"))
    ranks = ranks_to_start({"CUDA_VISIBLE_DEVICES": "", **env}, LaunchSettings())
    one = LocalLaunchers(ranks, [str(tmp_path / "nothing")], env, LaunchSettings())
    assert asyncio.run(one.run()) == 1
    assert "rank 1" in (tmp_path / "t2" / "output" / "failure").read_text()
