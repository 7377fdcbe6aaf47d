"""Whole jobs whose batches any Python makes on the data hosts, and what becomes of them when something is lost."""

from __future__ import annotations

import json
import re

import pytest
from PIL import Image

pytestmark = [pytest.mark.timeout(240)]
EXAMPLES = 400
FEED = ("--data_plane", "feed", "--data_host_processes", 2, "--lease_s", 4)


def read(run) -> dict:
    """The results that the script wrote at its end."""
    assert run.summary.exit_code == 0, run.summary.cause
    (path,) = run.output("feed.json")
    return json.loads(path.read_text())


def test_feed_is_exact_despite_lost_servers(simulated, script):
    faults = ("kill:feed@data-1:from=scripts:after=1.0", "kill:host@data-2:from=scripts:after=1.5")
    epochs = 16  # of half a second: it reads on when the lease of the lost host is over
    words = ("--train_script", script("feed_reads"), "--epochs", epochs)
    run = simulated(*FEED, *words, data=2, ranks=1, channels={}, faults=faults)
    found = read(run)
    assert [sorted(epoch) for epoch in found["epochs"]] == [list(range(EXAMPLES))] * epochs
    assert found["epochs"][0] != found["epochs"][1], "shuffled again"
    assert sorted(found["held_out"]) == sorted(f"{shard}/{number}" for shard in range(4) for number in range(10))
    assert not (found["tensorflow"] or found["shares_memory"]) and found["left"] == 0
    assert run.summary.restarts == 1 and list(run.summary.lost_hosts) == ["algo-3"]
    for epoch in run.summary.epochs[:epochs]:
        assert (epoch["expected"], epoch["once"], epoch["missing"], epoch["repeated"]) == (EXAMPLES, EXAMPLES, 0, 0)
    assert run.summary.steps and run.summary.wait_pct is not None and run.summary.batch_size == 8


@pytest.mark.slow
def test_killed_process_of_own_host_is_replaced(simulated, script):
    words = ("--data_plane", "feed", "--dnn_host_processes", 2, "--train_script", script("feed_reads"), "--epochs", 8)
    run = simulated(*words, data=0, ranks=1, channels={}, faults=("kill:feed@dnn-1:from=scripts:after=1.0",))
    found = read(run)
    assert [sorted(epoch) for epoch in found["epochs"]] == [list(range(EXAMPLES))] * 8
    assert found["shares_memory"] and run.summary.restarts == 1


@pytest.mark.slow
def test_frozen_host_is_given_up_by_every_rank(simulated, script):
    words = ("--strategy", "torch", "--train_script", script("feed_reads"), "--epochs", 8)
    faults = ("hang:host@data-2:after=0.5",)  # while both ranks read, however long their scripts took to begin
    run = simulated(*FEED, *words, data=2, ranks=2, channels={}, faults=faults)
    assert run.summary.exit_code == 0, run.summary.cause
    assert list(run.summary.lost_hosts) == ["algo-3"]
    given_up = run.found(r"the feed has lost \S+ .*host was lost.*?( \(2 ranks\))?$")
    assert sum(2 if both else 1 for (both,) in given_up) == 4, "two processes, by each of two ranks"
    for epoch in run.summary.epochs[:8]:
        assert (epoch["once"], epoch["missing"], epoch["repeated"]) == (EXAMPLES, 0, 0)


@pytest.mark.slow
def test_epoch_continues_after_losses_on_other_ranks(simulated, script, tmp_path):
    Image.new("RGB", (8, 8)).save(tmp_path / "image.png")
    examples, state, seen = 3600, None, list[int]()
    faults = ("kill:host@data-1:from=steps:after=1", "sigterm:launcher@dnn-1:from=steps:after=10")
    for data, ranks, batch_size, injected in ((2, 3, 4, faults), (1, 2, 16, ())):
        folder = tmp_path / f"{ranks} ranks"
        words = {"image": tmp_path / "image.png", "examples": examples, "batch_size": batch_size, "folder": folder}
        arguments = [part for name, value in words.items() for part in (f"--{name}", value)]
        arguments += [] if state is None else ["--state", json.dumps(state)]
        feed = (*FEED, "--strategy", "torch", "--train_script", script("feed_elastic"))
        run = simulated(*feed, *arguments, data=data, ranks=ranks, channels={}, faults=injected)
        assert list(run.summary.lost_hosts) == (["algo-1"] if injected else [])
        steps = [[json.loads(line) for line in path.read_text().splitlines()] for path in folder.iterdir()]
        common = list(zip(*steps, strict=False))  # steps of all ranks: the last saved state
        assert len(steps) == ranks and all(step["state"] == each[0]["state"] for each in common for step in each)
        state = common[-1][0]["state"]
        assert state["epoch"] == (0 if injected else 1), run.summary.cause
        seen += [label for each in common for step in each for label in step["labels"]]
    assert sorted(seen) == list(range(examples))


@pytest.mark.slow
@pytest.mark.parametrize("servers", [("--dnn_host_processes", 1, "--data_plane_encryption", "true"), ()])
def test_feed_without_data_hosts(simulated, script, servers):
    words = ("--data_plane", "feed", *servers, "--train_script", script("feed_reads"))
    found = read(simulated(*words, data=0, ranks=1, channels={}))
    assert [sorted(epoch) for epoch in found["epochs"]] == [list(range(EXAMPLES))] * 2
    assert found["shares_memory"] == bool(servers)


@pytest.mark.slow
def test_exception_on_a_data_host_is_the_cause(simulated, script):
    words = ("--train_script", script("feed_reads"), "--raises_at", 77)
    run = simulated(*FEED, *words, data=1, ranks=1, channels={})
    assert run.summary.exit_code == 1
    assert "the picture 77 is upside down" in (run.summary.cause or "")
    assert any("in __getitem__" in line for line in run.lines), "the traceback of the data host"


def test_python_in_tf_data_runs_on_data_hosts(simulated, script):
    words = ("--data_plane", "feed", "--lease_s", 4, "--data_host_processes", 1)
    run = simulated(*words, "--train_script", script("feed_tf_reads"), data=2, ranks=1, channels={})
    found = read(run)
    for epoch in (*found["epochs"], found["held_out"]):
        assert sorted(number for number, _ in epoch) == list(range(240))
        assert {place.split("/")[0] for _, place in epoch} == {"algo-1", "algo-3"}
        assert len({place for _, place in epoch}) == 2, "all processes that serve"
    assert [number for number, _ in found["epochs"][0]] != [number for number, _ in found["epochs"][1]]
    assert found["fits"] == 2
    assert run.summary.batch_size == 8 and [epoch["examples"] for epoch in run.summary.epochs[:2]] == [240, 240]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("plane", "says"),
    [
        ("feed", "tfhet.distribute a function"),
        ("tf_service", r"\(from_generator, tf.numpy_function\).*--data_plane feed"),
    ],
)
def test_unservable_python_gets_advice(simulated, script, plane, says):
    run = simulated("--data_plane", plane, "--train_script", script("feed_tf_reads"), "dataset", ranks=1, channels={})
    assert run.summary.exit_code == 1 and re.search(says, run.summary.cause or "")
