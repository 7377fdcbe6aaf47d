"""Whole jobs whose batches any Python makes on the data hosts, and what becomes of them when something is lost."""

from __future__ import annotations

import json
import re

import pytest

pytestmark = [pytest.mark.timeout(240)]
EXAMPLES = 400
FEED = ("--data_plane", "feed", "--data_host_processes", 2, "--lease_s", 4)


def read(run) -> dict:
    """The results that the script wrote at its end."""
    assert run.summary.exit_code == 0, run.summary.cause
    (path,) = run.output("feed.json")
    return json.loads(path.read_text())


def test_a_script_reads_every_example_once_without_tensorflow_though_a_process_and_a_host_are_lost(simulated, script):
    faults = ("kill:feed@data-1:from=scripts:after=1.0", "kill:host@data-2:from=scripts:after=1.5")
    epochs = 16  # of half a second: it reads on when the lease of the lost host is over
    words = ("--train_script", script("feed_reads"), "--epochs", epochs)
    run = simulated(*FEED, *words, data=2, ranks=1, channels={}, faults=faults)
    found = read(run)
    assert [sorted(epoch) for epoch in found["epochs"]] == [list(range(EXAMPLES))] * epochs
    assert found["epochs"][0] != found["epochs"][1], "shuffled anew"
    assert sorted(found["held_out"]) == sorted(f"{shard}/{number}" for shard in range(4) for number in range(10))
    assert not found["tensorflow"] and found["left"] == 0
    assert run.summary.restarts == 1 and list(run.summary.lost_hosts) == ["algo-3"]
    for epoch in run.summary.epochs[:epochs]:
        assert (epoch["expected"], epoch["once"], epoch["missing"], epoch["repeated"]) == (EXAMPLES, EXAMPLES, 0, 0)
    assert run.summary.steps and run.summary.wait_pct is not None and run.summary.batch_size == 8


def test_a_frozen_host_is_given_up_by_every_rank_once_its_lease_is_over(simulated, script):
    words = ("--strategy", "torch", "--train_script", script("feed_reads"), "--epochs", 8)
    faults = ("hang:host@data-2:after=0.5",)  # while both ranks read, however long their scripts took to begin
    run = simulated(*FEED, *words, data=2, ranks=2, channels={}, faults=faults)
    assert run.summary.exit_code == 0, run.summary.cause
    assert list(run.summary.lost_hosts) == ["algo-3"]
    given_up = run.found(r"the feed has lost \S+ \(its host was lost\); others make what it had( \(2 ranks\))?")
    assert sum(2 if both else 1 for (both,) in given_up) == 4, "two processes, by each of two ranks"
    for epoch in run.summary.epochs[:8]:
        assert (epoch["once"], epoch["missing"], epoch["repeated"]) == (EXAMPLES, 0, 0)


@pytest.mark.slow
def test_an_encrypted_feed_on_the_hosts_that_train_reads_alike(simulated, script):
    words = ("--dnn_host_processes", 1, "--data_plane_encryption", "true", "--train_script", script("feed_reads"))
    found = read(simulated("--data_plane", "feed", *words, data=0, ranks=1, channels={}))
    assert [sorted(epoch) for epoch in found["epochs"]] == [list(range(EXAMPLES))] * 2


@pytest.mark.slow
def test_without_any_process_of_a_feed_the_rank_makes_its_batches(simulated, script):
    found = read(
        simulated("--data_plane", "feed", "--train_script", script("feed_reads"), data=0, ranks=1, channels={})
    )
    assert [sorted(epoch) for epoch in found["epochs"]] == [list(range(EXAMPLES))] * 2


@pytest.mark.slow
def test_what_the_users_code_raises_on_a_data_host_is_the_cause_of_the_jobs_end(simulated, script):
    words = ("--train_script", script("feed_reads"), "--raises_at", 77)
    run = simulated(*FEED, *words, data=1, ranks=1, channels={})
    assert run.summary.exit_code == 1
    assert "the picture 77 is upside down" in (run.summary.cause or "")
    assert any("in __getitem__" in line for line in run.lines), "the traceback of the data host"


@pytest.mark.slow
def test_the_loss_of_the_only_data_host_ends_the_job_and_is_the_cause(simulated, script):
    words = ("--train_script", script("feed_reads"), "--epochs", 40)
    run = simulated(*FEED, *words, data=1, ranks=1, channels={}, faults=("kill:host@data-1:from=scripts:after=1",))
    assert run.summary.exit_code == 1
    assert "was lost" in (run.summary.cause or "")


def test_python_in_a_tf_data_pipeline_runs_on_the_data_hosts(simulated, script):
    run = simulated(*FEED, "--train_script", script("feed_tf_reads"), data=2, ranks=1, channels={})
    found = read(run)
    for epoch in (*found["epochs"], found["held_out"]):
        assert sorted(number for number, _ in epoch) == list(range(240))
        assert {place.split("/")[0] for _, place in epoch} == {"algo-1", "algo-3"}
        assert len({place for _, place in epoch}) == 4, "all processes that serve"
    assert [number for number, _ in found["epochs"][0]] != [number for number, _ in found["epochs"][1]]
    assert found["fits"] == 2
    assert run.summary.batch_size == 8 and [epoch["examples"] for epoch in run.summary.epochs[:2]] == [240, 240]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("plane", "says"),
    [
        ("feed", r"give tfhet.distribute a function at the top level of its module, which takes a shard"),
        ("tf_service", r"runs Python code \(from_generator, tf.numpy_function\).*--data_plane feed"),
    ],
)
def test_a_data_set_with_python_that_cannot_be_served_says_how_it_could(simulated, script, plane, says):
    run = simulated("--data_plane", plane, "--train_script", script("feed_tf_reads"), "dataset", ranks=1, channels={})
    assert run.summary.exit_code == 1 and re.search(says, run.summary.cause or "")
