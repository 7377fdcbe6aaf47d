"""The starter with small scripts in the place of launchers, in processes of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
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
print(f"rank {rank} of {os.environ['TFHET_SIZE']}, {os.environ['TFHET_LOCAL_RANK']} of "
      f"{os.environ['TFHET_LOCAL_SIZE']} here, {sys.argv[1:]}", flush=True)
print("and on stderr", file=sys.stderr, flush=True)
"""
STARTER = """
import asyncio, json, os, sys
from tfhet.launch import LaunchSettings, entry
from tfhet.cluster import Rank
entry.PATIENCE_S = 0.5
entry.STOP_GRACE_S = float(os.environ.get("GRACE_S", 20))
settings, rest = LaunchSettings.parse(sys.argv[2:])
env = dict(os.environ)
ranks = entry.ranks_to_start(env, settings)
one = entry.LocalLaunchers(ranks, [sys.executable, sys.argv[1], *rest], env, settings)
sys.exit(asyncio.run(entry.then_ignore_stops(one.run())))
"""


def numbers(rank: Rank) -> tuple[int, int, int, int]:
    return (rank.rank, rank.size, rank.local_rank, rank.local_size)


def test_launchers_of_a_host_alone_get_a_fresh_secret_and_others_what_they_were_given(environment_of):
    def given(env: dict[str, str]) -> str:
        settings, _ = LaunchSettings.parse(["--processes_per_host", "2"])
        return LocalLaunchers(ranks_to_start(env, settings), [], env, settings)._env.get("TFHET_SECRET", "")

    alone, several = environment_of("t1", data=()), environment_of("t1")
    assert given(alone) == alone["TFHET_SECRET"] and given(several) == several["TFHET_SECRET"]
    del alone["TFHET_SECRET"], several["TFHET_SECRET"]
    assert len({given(alone), given(alone)}) == 2 and len(given(alone)) > 32
    assert given(several) == ""


def to_start(env: dict[str, str], *arguments: object) -> list[tuple[int, int, int, int]]:
    settings, _ = LaunchSettings.parse([str(argument) for argument in arguments])
    return [numbers(rank) for rank in ranks_to_start({"CUDA_VISIBLE_DEVICES": "", **env}, settings)]


def test_ranks_are_numbered_host_by_host_in_the_order_of_the_group(environment_of):
    hosts = {"dnn": ("algo-3", "algo-1"), "data": ("algo-2",)}
    words = ("--processes_per_host", 2)
    assert to_start(environment_of("algo-3", **hosts), *words) == [(0, 4, 0, 2), (1, 4, 1, 2)]
    assert to_start(environment_of("algo-1", **hosts), *words) == [(2, 4, 0, 2), (3, 4, 1, 2)]
    assert to_start(environment_of("algo-2", **hosts), *words) == []


def test_a_host_starts_as_many_as_it_has_gpus_and_at_least_one(environment_of):
    env = environment_of("t1", dnn=("t1", "t2"))
    assert to_start(env) == [(0, 2, 0, 1)]
    assert len(to_start({**env, "CUDA_VISIBLE_DEVICES": "0,1,2,3"})) == 4
    assert len(to_start({**env, "CUDA_VISIBLE_DEVICES": "0,1,2,3"}, "--processes_per_host", 3)) == 3


def test_one_process_on_the_only_dnn_host_is_the_rank_itself(environment_of):
    assert to_start(environment_of("t1")) == []
    assert to_start(environment_of("t1"), "--processes_per_host", 1) == []


def test_a_rank_that_something_started_starts_nobody(environment_of):
    env = environment_of("t1", 0, dnn=("t1", "t2"), ranks=2)
    assert to_start(env) == to_start(env, "--processes_per_host", 2) == []
    ours = environment_of("t1", dnn=("t1", "t2")) | Rank(0, 4, 0, 2, "tfhet").to_env()
    assert to_start(ours) == to_start(ours, "--processes_per_host", 2) == []
    with pytest.raises(ClusterError, match="--processes_per_host 3, and horovodrun started 2 on t1; omit it"):
        to_start(env, "--processes_per_host", 3)


class Started:
    """A starter with its output."""

    def __init__(self, process: subprocess.Popen[str], failure: Path):
        self.process = process
        self.failure = failure

    def wait_for(self, *beginnings: str) -> list[str]:
        """The lines up to where there was one with each of these beginnings."""
        assert self.process.stdout is not None
        lines: list[str] = []
        for line in self.process.stdout:
            lines.append(line.rstrip("\n"))
            if all(any(said.startswith(start) for said in lines) for start in beginnings):
                return lines
        raise AssertionError(f"{beginnings} not in {lines}")

    def end(self) -> tuple[int, list[str]]:
        """Its exit code and the rest of what it says."""
        assert self.process.stdout is not None
        lines = self.process.stdout.read().splitlines()
        return self.process.wait(30), lines


@pytest.fixture
def start(environment_of, tmp_path) -> Iterator:
    """`start(code, *arguments)`: a host with two of four ranks, whose launchers are `code`."""
    begun: list[Started] = []

    def begin(code: str, *arguments: str, host: str = "t2", **extra: str) -> Started:
        script = tmp_path / "launcher_like.py"
        script.write_text(LAUNCHER + code)
        env = {**os.environ, **environment_of(host, dnn=("t1", "t2")), **extra}
        process = subprocess.Popen(
            [sys.executable, "-c", STARTER, str(script), "--processes_per_host", "2", "--lease_s", "0.5", *arguments],
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        begun.append(Started(process, tmp_path / host / "output" / "failure"))
        return begun[-1]

    yield begin
    for one in begun:
        one.process.kill()
        one.process.wait()
        assert one.process.stdout is not None
        one.process.stdout.close()


def gone(pids: list[int]) -> bool:
    """Whether none of these processes runs any more."""
    _, alive = psutil.wait_procs([psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)], timeout=10)
    return not alive


def test_every_launcher_gets_its_place_and_the_same_arguments_and_its_lines_come_through(start):
    code, lines = start("", "--epochs", "3").end()
    assert code == 0
    assert lines[0] == "[t2] starts the launchers of ranks 2, 3 of 4"
    assert sorted(lines[1:]) == [
        "and on stderr",
        "and on stderr",
        "rank 2 of 4, 0 of 2 here, ['--epochs', '3']",
        "rank 3 of 4, 1 of 2 here, ['--epochs', '3']",
    ]


def test_the_exit_code_is_the_worst_of_its_launchers(start):
    assert start("sys.exit(3 if rank == '2' else 1)").end()[0] == 3
    assert start("sys.exit(5 if rank == '3' else 0)").end()[0] == 5


def test_a_launcher_that_is_killed_is_told_in_the_failure_file_and_takes_the_others_with_it(start):
    one = start("if rank == '3': os.kill(os.getpid(), 9)\ntime.sleep(60)")
    code, lines = one.end()
    assert code == 137
    cause = "the launcher of rank 3 on t2 ended by SIGKILL (out of memory?)"
    assert f"[t2] {cause}" in lines
    assert one.failure.read_text().startswith(cause)


def test_launchers_that_do_not_follow_the_first_one_are_ended(start):
    one = start("if rank == '3': sys.exit(3)\nsignal.signal(15, lambda *_: sys.exit(4))\ntime.sleep(60)")
    assert one.end()[0] == 4
    assert not one.failure.exists()


def test_a_chief_that_stays_for_late_hosts_may(start):
    code = "if rank == '1': sys.exit(3)\nsignal.signal(15, lambda *_: sys.exit(9))\ntime.sleep(3)\nsys.exit(3)"
    assert start(code, "--ready_timeout_s", "30", host="t1").end()[0] == 3


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_the_wish_to_stop_is_passed_on(start, number):
    code = "signal.signal(15, lambda *_: (print('told', rank, flush=True), sys.exit(143)))\n"
    one = start(code + "print('ready', rank, flush=True)\nwhile True: time.sleep(0.1)")
    one.wait_for("ready 2", "ready 3")
    one.process.send_signal(number)
    code_, lines = one.end()
    assert code_ == 143
    assert {"told 2", "told 3"} <= set(lines)
    assert not one.failure.exists()


def test_a_launcher_that_does_not_hear_the_wish_to_stop_is_killed(start):
    code = "signal.signal(15, signal.SIG_IGN)\nprint('deaf', rank, os.getpid(), flush=True)\ntime.sleep(60)"
    one = start(code, GRACE_S="0.5")
    pids = [int(line.split()[2]) for line in one.wait_for("deaf 2", "deaf 3") if line.startswith("deaf")]
    one.process.terminate()
    assert one.end()[0] == 137
    assert gone(pids)


def test_nothing_is_left_of_a_starter_that_is_killed(start):
    one = start("print('ready', rank, os.getpid(), flush=True)\ntime.sleep(60)")
    lines = one.wait_for("ready 2", "ready 3")
    pids = [int(line.split()[2]) for line in lines if line.startswith("ready")]
    one.process.kill()
    assert len(pids) == 2
    assert gone(pids)


def test_a_launcher_that_cannot_be_started_is_a_failure_that_is_told(environment_of, tmp_path, capfd):
    import asyncio

    from tfhet.launch.entry import LocalLaunchers

    env = environment_of("t2", dnn=("t1", "t2"))
    ranks = ranks_to_start({"CUDA_VISIBLE_DEVICES": "", **env}, LaunchSettings())

    async def scenario() -> int:
        return await LocalLaunchers(ranks, [str(tmp_path / "nothing")], env, LaunchSettings()).run()

    assert asyncio.run(scenario()) == 1
    assert "[t2] t2 cannot start the launcher of rank 1: [Errno 2]" in capfd.readouterr().out
    assert (tmp_path / "t2" / "output" / "failure").read_text().startswith("t2 cannot start the launcher of rank 1")
