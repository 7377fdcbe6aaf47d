"""The addresses at which a job on this machine listens: none that another machine reaches."""

from __future__ import annotations

import json
import signal
import time

import psutil
import pytest
from sockets import Listening, is_local, listening_below

from tfhet.cluster import free_ports

pytestmark = [pytest.mark.horovod, pytest.mark.timeout(120)]

JOB = ["--model", "emulated", "--step_ms", "50", "--batch_size", "8", "--chain", "none", "--validation", "none"]
JOB += ["--export", "false", "--data", "synthetic:4000:16"]


@pytest.mark.slow
@pytest.mark.parametrize("start", ["ranks", "alone"])
def test_local_job_listens_on_the_loopback(started, start):
    (metrics,) = free_ports(1)
    job = started(*JOB, "--metrics_port", metrics, how=["--start", start])
    found: set[Listening] = set()
    while " step=10 " not in job.log.read_text() and job.process.poll() is None:  # Gloo's ranks listen for moments only
        found |= listening_below(job.process.pid)
        time.sleep(0.02)
    found |= listening_below(job.process.pid)
    control = {json.loads(psutil.Process(pid).environ()["TFHET_PORTS"])["control"] for pid in job.launchers().values()}
    assert len(control) == 1

    def ports_of(words: str) -> set[int]:
        return {one.port for one in found if words in one.command}

    assert control <= ports_of("launcher.py"), "the link"
    assert {metrics, metrics + 1} <= ports_of("launcher.py"), "the metrics of two ranks and a data host"
    rendezvous = ports_of("tfhet simulate") if start == "ranks" else ports_of("launcher.py") - control - {metrics}
    assert rendezvous, "Horovod's rendezvous"
    every = psutil.Process(job.process.pid).children(recursive=True)
    for rank in (one for one in every if "tfhet.trainer" in one.cmdline()):
        assert all(is_local(each.laddr.ip) for each in rank.net_connections(kind="inet")), "Gloo's connections"
    assert ports_of("tfhet.planes.tf_service.server"), "dispatcher and worker"
    assert [one for one in found if not is_local(one.address)] == []
    job.process.send_signal(signal.SIGTERM)
    assert job.wait() != 0
