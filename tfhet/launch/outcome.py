"""The outcome: what the chief adds to the trainer's record when the job is over."""

from __future__ import annotations

import dataclasses

from tfhet.clock import SYSTEM
from tfhet.errors import TfhetError
from tfhet.launch.chief import Chief
from tfhet.launch.place import Place
from tfhet.launch.verdict import Verdict
from tfhet.record import RunFolder, RunSummary, machine, versions


def write_outcome(folder: RunFolder, place: Place, chief: Chief, verdict: Verdict, began_s: float) -> RunSummary:
    """Completes `summary.json`, or begins it when training never came so far."""
    try:
        summary = folder.read_summary()
    except TfhetError:
        summary = RunSummary()
    groups = {}
    for group in place.identity.cluster.groups:
        is_dnn = group.name == place.roles.dnn.name
        workers = place.settings.dnn_host_workers if is_dnn else place.settings.data_host_workers
        groups[group.name] = {
            "hosts": list(group.hosts),
            "instance_type": group.instance_type,
            "role": "dnn" if is_dnn else "data",
            "workers_per_host": workers,
            "ranks_per_host": place.rank.local_size if is_dnn and place.rank else 0,
        }
    now_s = SYSTEM.wall()
    summary = dataclasses.replace(
        summary,
        mode=place.mode,
        started=began_s,
        duration_s=now_s - began_s,
        machine=machine(),
        versions=versions(),
        cluster=groups,
        exit_codes={place.member: verdict.code, **chief.exit_codes},
        exit_code=verdict.code,
        cause=verdict.headline if verdict.code else None,
        restarts=chief.restarts,
        lost_hosts=chief.lost_hosts,
        teardown_s=None if chief.trained_s is None else SYSTEM.monotonic() - chief.trained_s,
    )
    folder.create().write_summary(summary)
    return summary
