"""Faults of a running job, and their consequences."""

from __future__ import annotations

import pytest

pytestmark = [pytest.mark.horovod, pytest.mark.timeout(240)]

# fmt: off
JOB = [
    "--model", "emulated", "--step_ms", "60", "--batch_size", "32", "--shuffle", "0", "--chain", "none",
    "--validation", "none", "--export", "false",
]
# fmt: on


GREETING_BYTES = 200
"""Maximum length of the answer to an unauthenticated client: a number, drawn for this connection."""


def faults_told(run) -> list[dict]:
    return [event for event in run.folder.events() if event["event"] == "fault.injected"]


@pytest.mark.slow
def test_killed_servers_restart_and_lose_no_example(simulated):
    run = simulated(*JOB, "--epochs", 3, faults=["kill:worker@data-1:after=0.5", "kill:dispatcher:after=2"])
    assert run.summary.exit_code == 0, run.summary.cause
    assert set(run.summary.exit_codes.values()) == {0}
    assert run.summary.restarts == 2
    assert len(faults_told(run)) == 2
    run.assert_each_example_once(1437, range(3))
    restarted = [event for event in run.folder.events() if event["event"] == "service.restarted"]
    assert {(event["process"], event["code"]) for event in restarted} == {("worker-0", -9), ("dispatcher", -9)}


@pytest.mark.slow
def test_strangers_and_wrong_clocks_change_nothing(simulated):
    faults = ["stranger:dnn-1", "stranger:data-1", "late-join:data-1:after=3", "second-job:data-1", "same-base:dnn-1"]
    faults += ["clock=+600s:dnn-1:from=scripts", "stall:dnn-1:for=3"]
    run = simulated(*JOB, "--epochs", 4, faults=faults)
    assert run.summary.exit_code == 0, run.summary.cause
    run.assert_each_example_once(1437, range(4))
    assert not run.failures()
    (ended,) = [event["fault"] for event in faults_told(run) if "the second job ended" in event["fault"]]
    assert "exit code 2" in ended and "port" in ended
    visits = [event["fault"] for event in faults_told(run) if " bytes at most" in event["fault"]]
    assert len(visits) == 3  # at the link, the dispatcher and the worker
    assert all(int(visit.split()[-4]) <= GREETING_BYTES for visit in visits), visits
    assert {text for text in faults if any(text in event["fault"] for event in faults_told(run))} == {
        text for text in faults if "late-join" not in text
    }


@pytest.mark.slow
def test_image_files_are_decoded_on_data_hosts(simulated, tmp_path):
    from tfhet.source.photos import photos

    channel = photos(tmp_path / "photos", count=48)
    chain = "decode(); random_resized_crop(32, 32); random_flip(); randaugment(); rescale()"
    arguments = ["--model", "small_cnn", "--batch_size", 8, "--shuffle", 0, "--chain", chain, "--epochs", 2]
    run = simulated(*arguments, channels={"training": str(channel)})
    assert run.summary.exit_code == 0, run.summary.cause
    run.assert_each_example_once(48, [0, 1])
    assert run.summary.stages_where["decode()"] == "data_group"
    run.assert_equal_weights(2)
