"""Memory that runs out, hosts that are cut off, slow disks, and schedules of faults that are drawn."""

from __future__ import annotations

import pytest

pytestmark = [pytest.mark.horovod, pytest.mark.timeout(280)]

JOB = "--model emulated --step_ms 60 --batch_size 16 --shuffle 0 --chain none --validation none --export false"
LONG = [*JOB.split(), "--lease_s", "4", "--epochs", "30"]


def moments(run, event: str) -> list[float]:
    return [found["time_s"] for found in run.folder.events() if found["event"] == event]


@pytest.mark.slow
def test_slow_reads_and_a_short_partition_are_survived_and_a_rank_without_memory_is_named(simulated):
    faults = ["slow-disk:data-1:after=0.2", "partition:data-1:after=1:for=1", "oom:rank=1:after=5"]
    run = simulated(*LONG, faults=faults)
    assert run.summary.exit_code not in (0, None)
    assert "rank 1" in run.summary.cause, run.summary.cause
    assert set(run.summary.exit_codes.values()) == {run.summary.exit_code}
    told = [event["fault"] for event in run.folder.events() if event["event"] == "fault.injected"]
    assert [line.split(": ")[0] for line in told] == [f"fault {text}" for text in [*faults, faults[-1]]]
    assert not moments(run, "link.member_lost")
    assert [control.name for control in run.hosts.glob("*.faults")] == ["algo-1.faults"]


@pytest.mark.slow
def test_a_data_host_that_is_cut_off_ends_itself_and_with_the_last_one_the_job_ends(simulated):
    run = simulated(*LONG, faults=["partition:data-1:after=0.5"])
    assert set(run.summary.exit_codes.values()) == {1}
    assert len(run.found(r"lost its lease")) >= 1
    assert "was lost" in run.summary.cause
    (cut,), (gone,) = moments(run, "fault.injected"), moments(run, "launchers.gone")
    assert gone - cut < 4 + 5
