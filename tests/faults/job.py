"""A job on a simulated cluster with faults: how it is run, and what is known of it afterwards."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from faults.leftovers import PATIENCE_S, left_behind
from tfhet.cluster import LISTEN_VARIABLE, environment
from tfhet.container import kernel
from tfhet.record import RunSummary
from tfhet.simulate import ClusterFile, Fault, GroupFile, Simulation, load
from tfhet.simulate.fault import CUTS, NETWORK
from tfhet.simulate.host import hosts_named
from tfhet.simulate.training_job import STOPPED_ON_REQUEST

ROOT = Path(__file__).resolve().parents[2]
WITNESS = "tests/faults/scripts/witness_train.py"
READER = "tests/faults/scripts/witness_reads.py"
LEASE_S, READY_S = 4.0, 40.0
"""Seconds of the lease and of the wait for all hosts: short, so that a job takes seconds."""
EPOCHS = 2
MAX_RUN_S = 200.0
"""Deadline of a job: the simulator ends it then."""
KILLED = (None, -9, 137)
"""Exit codes of a launcher that a fault, or the simulator at the end, killed."""
CHANNELS = {"training": "digits/train"}
CLUSTERS = {
    "one-and-one": {"data_group": GroupFile(1), "dnn_group": GroupFile(1, ranks=2)},
    "two-and-two": {"data_group": GroupFile(2), "dnn_group": GroupFile(2, ranks=1)},
}
"""Two ranks on one host, and on two hosts with one launcher each."""


def cluster_named(name: str) -> ClusterFile:
    """Returns one of CLUSTERS, or a preset of the package."""
    return ClusterFile(name, CLUSTERS[name], CHANNELS) if name in CLUSTERS else load(name)


def allowance() -> float:
    """The factor by which limits in seconds grow on a machine that has more to do than one simulated job."""
    return max(1.0, os.getloadavg()[0] / (2 * len(os.sched_getaffinity(0))))


def lacking(hosts: str, faults: Sequence[Fault]) -> list[str]:
    """Names of the features that this machine lacks for such hosts and faults."""
    if hosts != "namespace":
        return []
    purposes = ["namespace", *(NETWORK[fault.kind] for fault in faults if fault.kind in NETWORK)]
    return sorted({feature.name for purpose in purposes for feature in kernel.missing(purpose)})


def second_job_variables(faults: Sequence[Fault]) -> dict[str, str]:
    """Variables of the launchers of a job: it listens everywhere if a second job starts on its leader's host. That job
    is alone and would listen at the loopback address only, so that neither would notice the other."""
    beside_the_leader = any(fault.kind == "second-job" and fault.host == "dnn-1" for fault in faults)
    return {LISTEN_VARIABLE: "0.0.0.0"} if beside_the_leader else {}


@dataclass(frozen=True)
class FinishedJob:
    """What is known of a job that has ended."""

    faults: tuple[Fault, ...]
    """All that were planned."""
    summary: RunSummary
    hosts: Mapping[str, str]
    """Name of each host by `data-1`, `dnn-2` and so on."""
    ranks: int = 1
    events: Sequence[Mapping[str, Any]] = ()
    left: Sequence[str] = ()
    """Descriptions of the things that it left behind."""
    folder: Path = Path()
    checkpoints: Path = Path()
    struck: tuple[Fault, ...] = field(init=False)
    """The faults that were done."""

    def __post_init__(self) -> None:
        lines = [str(event["fault"]) for event in self.named("fault.injected")]
        struck = [fault for fault in self.faults if any(line.split(": ")[0] == str(fault) for line in lines)]
        object.__setattr__(self, "struck", tuple(struck))

    def named(self, name: str) -> list[Mapping[str, Any]]:
        """The events of that name."""
        return [event for event in self.events if event["event"] == name]

    def hosts_of(self, fault: Fault) -> set[str]:
        """Names of the hosts that a fault harms."""
        role = fault.host.removesuffix("_group")
        return {name for place, name in self.hosts.items() if fault.host in ("", place, name) or place[:-2] == role}

    @property
    def out_of_reach(self) -> set[str]:
        """Names of the hosts that may rightly not know how the job ended: those that the job continued without, those
        cut off for more than half a lease, and those frozen for ever. A host that was frozen and thaws has to know."""
        found = set(self.summary.lost_hosts)
        for host in self.hosts.values():
            cuts = [fault for fault in self.struck if fault.kind in CUTS and host in self.hosts_of(fault)]
            if any(cut.for_s is None for cut in cuts) or sum(cut.for_s or 0.0 for cut in cuts) > LEASE_S / 2:
                found.add(host)
        return found

    @property
    def codes(self) -> dict[str, int | None]:
        """Exit codes by label of the launchers that were neither killed nor out of reach."""
        codes = self.summary.exit_codes
        return {
            label: code
            for label, code in codes.items()
            if (host := label.split("/")[0]) not in self.out_of_reach and not (code in KILLED and host in self.killed)
        }

    @property
    def killed(self) -> set[str]:
        """Names of the hosts with a launcher that a fault killed, or froze for ever."""
        ends = [f for f in self.struck if f.kind in ("kill", "hang") and f.process in ("launcher", "host")]
        return {host for fault in ends if fault.for_s is None for host in self.hosts_of(fault)}


def run_job(
    cluster: ClusterFile,
    arguments: Sequence[str],
    place: Path,
    faults: Sequence[Fault] = (),
    *,
    checkpoints: Path | None = None,
    variables: Mapping[str, str] | None = None,
    max_run_s: float = MAX_RUN_S,
    patience_s: float = PATIENCE_S,
    while_running: Callable[[Simulation], contextlib.AbstractContextManager[Any]] = contextlib.nullcontext,
    **how: Any,
) -> FinishedJob:
    """Runs a job to its end.

    Args:
        cluster: The cluster.
        arguments: Arguments of the launcher.
        place: A new folder for the run, its temporary files and, if `checkpoints` is None, its checkpoints.
        faults: The faults.
        checkpoints: Folder of the checkpoints.
        variables: More variables of the environment of all launchers.
        max_run_s: Deadline of the job in seconds.
        patience_s: See `left_behind`.
        while_running: A context for the run.
        how: See `Simulation`.
    """
    (place / "tmp").mkdir(parents=True)
    env = {**environment(), **second_job_variables(faults), **(variables or {}), "TMPDIR": str(place / "tmp")}
    if how.get("hosts") != "namespace":  # a folder that no fault fills; containers see only their own folders
        env["TFHET_WITNESS"] = str(place / "run" / "witness")
    lines: list[str] = []
    job = Simulation(
        cluster,
        ["scripts/launcher.py", *arguments],
        place / "run",
        max_run_s=max_run_s,
        faults=faults,
        on_line=lines.append,
        env=env,
        code=ROOT,
        checkpoints=checkpoints or place / "checkpoints",
        **how,
    )
    since_s = time.time()
    with while_running(job):
        summary = job.run()
    if summary.cause == STOPPED_ON_REQUEST:  # Ctrl-C ends the session, not one job of it
        raise KeyboardInterrupt
    print("\n".join(lines))  # pytest shows it if the test fails
    hosts = {
        f"{kind}-{number}": found[0].name
        for kind in ("data", "dnn")
        for number in range(1, 10)
        if (found := hosts_named(job.hosts, f"{kind}-{number}"))
    }
    ended = FinishedJob(
        tuple(faults),
        summary,
        hosts,
        job.targets.ranks,
        list(job.folder.events()),
        folder=job.folder.path,
        checkpoints=checkpoints or place / "checkpoints",
    )
    return dataclasses.replace(ended, left=left_behind(job, since_s, ended.killed, patience_s))
