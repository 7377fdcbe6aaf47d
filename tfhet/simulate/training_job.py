"""The training job as SageMaker would tell of it: status, reason, times, and what it collected from the hosts."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from tfhet.process import describe_exit
from tfhet.simulate.host import SimulatedHost
from tfhet.simulate.submission import Submission

COMPLETED, FAILED, STOPPED = "Completed", "Failed", "Stopped"
OUT_OF_TIME = "MaxRuntimeExceeded"
"""The secondary status of a job that was stopped because it ran too long."""
REASON_CHARACTERS = 1024
"""Of a failure file so many become the reason."""
FILE = "job.json"


def status(codes: Mapping[str, int], stopped: bool) -> str:
    """One of the three, from the exit codes of all that was started: a container that ended badly fails the job."""
    if stopped:
        return STOPPED
    return FAILED if any(codes.values()) or not codes else COMPLETED


def failure_reason(hosts: Sequence[SimulatedHost], codes: Mapping[str, int]) -> str:
    """Of the failure files of hosts that ended badly the one that was written first; else who ended how.

    codes: by `host`, or by `host/rank`.
    """
    bad = {label.split("/")[0]: code for label, code in codes.items() if code}
    files = [(host.paths.failure, bad[host.name]) for host in hosts if host.name in bad]
    written = sorted((path.stat().st_mtime, path, code) for path, code in files if path.is_file())
    if written:
        _, path, code = written[0]
        text = path.read_text(encoding="utf-8", errors="replace")[:REASON_CHARACTERS]
        return f"AlgorithmError: {text}, exit code: {code}"
    told = ", ".join(f"{name}: {describe_exit(code)}" for name, code in sorted(bad.items()))
    return f"AlgorithmError: , {told}"


def collect(hosts: Sequence[SimulatedHost], folder: Path) -> dict[str, Path]:
    """Packs what lies in the hosts' model and output/data directories into model.tar.gz and output.tar.gz in `folder`.

    Of two files of one name the first host's stays. Nothing to pack makes no archive.
    """
    collected = {}
    for name, places in (
        ("model.tar.gz", [host.paths.model for host in hosts]),
        ("output.tar.gz", [host.paths.output_data for host in hosts]),
    ):
        members: dict[str, Path] = {}
        for place in places:
            for path in sorted(place.rglob("*")) if place.is_dir() else ():
                if path.is_file():
                    members.setdefault(str(path.relative_to(place)), path)
        if members:
            collected[name] = folder / name
            with tarfile.open(collected[name], "w:gz", compresslevel=1) as archive:
                for member, path in sorted(members.items()):
                    archive.add(path, member)
    return collected


def describe(
    job: Submission,
    folder: Path,
    *,
    began: float,
    ended: float,
    status: str,
    secondary: str | None = None,
    reason: str | None,
    collected: Mapping[str, Path],
) -> dict[str, Any]:
    """Writes job.json, in the shape of the answer of DescribeTrainingJob, and gives its content.

    began, ended: seconds since 1970. secondary: what SecondaryStatus says where that is more than the status.
    """
    groups = [
        {"InstanceGroupName": name, "InstanceType": group.instance_type, "InstanceCount": group.hosts}
        for name, group in job.cluster.groups.items()
    ]
    content: dict[str, Any] = {
        "TrainingJobName": job.job,
        "TrainingJobStatus": status,
        "SecondaryStatus": secondary or status,
        "ResourceConfig": {"InstanceGroups": groups},
        "InputDataConfig": [{"ChannelName": name, "InputMode": job.mode(name)} for name in job.cluster.channels],
        "CreationTime": _time(began),
        "TrainingStartTime": _time(began),
        "TrainingEndTime": _time(ended),
        "TrainingTimeInSeconds": round(ended - began),
    }
    if reason is not None:
        content["FailureReason"] = reason
    if "model.tar.gz" in collected:
        content["ModelArtifacts"] = {"S3ModelArtifacts": collected["model.tar.gz"].name}
    (folder / FILE).write_text(json.dumps(content, indent=1), encoding="utf-8")
    return content


def _time(wall_s: float) -> str:
    return datetime.fromtimestamp(wall_s, timezone.utc).isoformat(timespec="milliseconds")
