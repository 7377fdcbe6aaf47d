"""Jobs of tf.distribute under faults: a rank is killed, hangs or fails, a host is lost, the job is stopped."""

from __future__ import annotations

import pytest
from keras_version import IS_KERAS_3, keras_2

from tfhet.simulate import GroupFile

pytestmark = [pytest.mark.slow, pytest.mark.matrix, pytest.mark.timeout(300)]
MULTI_WORKER = "multi_worker_loop" if IS_KERAS_3 else "multi_worker_fit"
"""`fit` of Keras 3 is refused."""
TWO_HOSTS = {"dnn_group": GroupFile(hosts=2, ranks=2)}
JOBS = {
    "multi_worker": (MULTI_WORKER, TWO_HOSTS, 1, ()),
    "mirrored": ("multi_worker_fit", {"dnn_group": GroupFile()}, 0, ("--mirrored",)),
    "parameter_server": ("parameter_server_fit", {**TWO_HOSTS, "ps_group": GroupFile()}, 2, ()),
}
"""The script of a strategy, its groups, the rank that something happens to, and arguments of the script."""
STRATEGIES = ["multi_worker", "mirrored", pytest.param("parameter_server", marks=keras_2)]


@pytest.fixture
def broken(simulated, script):
    """`broken(strategy, *arguments, fault=...)`: the run of a job that would train for long."""

    def run(strategy: str, *arguments: object, fault: str = ""):
        name, groups, rank, more = JOBS[strategy]
        words = ["--strategy", strategy, "--train_script", script(name), "--lease_s", 4, *more, "--epochs", 500]
        faults = [fault.format(rank=rank)] if fault else []
        run = simulated(*words, "--rank", rank, *arguments, groups=groups, faults=faults)
        assert all(code != 0 for code in run.summary.exit_codes.values())
        return run.summary

    return run


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_killed_rank_is_the_cause(broken, strategy):
    summary = broken(strategy, fault="kill:rank={rank}")
    assert summary.exit_code == 137, summary.cause
    assert f"rank {JOBS[strategy][2]}: SIGKILL" in summary.cause
    assert set(summary.exit_codes.values()) == {137}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_code_of_a_rank_is_returned(broken, strategy):
    summary = broken(strategy, "--how", "exit")
    assert summary.exit_code == 3, summary.cause
    assert f"rank {JOBS[strategy][2]}: exit code 3" in summary.cause
    assert set(summary.exit_codes.values()) == {3}


@pytest.mark.parametrize("strategy", STRATEGIES[:2])
def test_hanging_rank_is_named(broken, strategy):
    summary = broken(strategy, "--how", "hang", "--stall_timeout_s", 15)
    assert summary.exit_code == 1, summary.cause
    assert f"rank {JOBS[strategy][2]} on" in summary.cause and "took no step for 15 s; it hangs at" in summary.cause


@pytest.mark.parametrize(
    ("strategy", "fault"),
    [
        ("multi_worker", "kill:host@dnn-2"),
        ("multi_worker", "hang:host@dnn-2"),
        pytest.param("parameter_server", "kill:host@dnn-2", marks=keras_2),
        pytest.param("parameter_server", "kill:host@ps-1", marks=keras_2),
    ],
)
def test_lost_host_is_the_cause(broken, strategy, fault):
    summary = broken(strategy, fault=fault)
    assert summary.exit_code == 1, summary.cause
    assert "was lost" in summary.cause


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_job_stops_on_request(broken, strategy):
    summary = broken(strategy, fault="sigterm:launcher@dnn-1")
    assert summary.exit_code == 143, summary.cause
    assert set(summary.exit_codes.values()) == {143}


def test_stop_before_the_data_are_defined(simulated, script):
    words = ("--strategy", "multi_worker", "--train_script", script(MULTI_WORKER), "--epochs", 500)
    fault = "sigterm:launcher@dnn-1:from=scripts:after=12"
    summary = simulated(*words, "--pause_s", 10, data=0, faults=[fault]).summary
    assert summary.exit_code == 143, summary.cause
    assert set(summary.exit_codes.values()) == {143}
