"""The training job as SageMaker would describe it: status, reason, times, and files collected from the hosts."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from tfhet.errors import TfhetError
from tfhet.process import describe_exit
from tfhet.record import RunFolder, RunSummary
from tfhet.simulate.host import SimulatedHost
from tfhet.simulate.submission import Submission

COMPLETED, FAILED, STOPPED = "Completed", "Failed", "Stopped"
STOPPED_ON_REQUEST = "stopped on request"
NO_REASON = "no launcher said why"


def completed(
    hosts: Sequence[SimulatedHost],
    codes: Mapping[str, int],
    leader: RunFolder,
    cause: str | None,
    never_began: str | None,
) -> RunSummary:
    """The leader's summary with exit codes, cause, status and failure reason.

    codes: by `host` or `host/rank`. cause: why the simulator stopped the job. never_began: why a host was not made.
    """
    try:
        summary = leader.read_summary()
    except TfhetError:
        # A launcher that is not ours leaves none; one of ours always does.
        ended_well = bool(codes) and not any(codes.values()) and not leader.path.exists()
        summary = RunSummary(exit_code=0 if ended_well else None)
    state = status(codes, is_stopped=cause is not None)
    reason = failure_reason(hosts, codes) if state == FAILED else cause
    exit_code = summary.exit_code if summary.exit_code is not None else max([1, *codes.values()])
    if never_began:
        exit_code, cause, reason, state = 1, never_began, never_began, FAILED
    bad = {label: code for label, code in codes.items() if code and label not in summary.lost_hosts}
    if bad and not exit_code:
        exit_code, cause = 1, _exits(bad)
    if exit_code or cause:
        cause = cause or summary.cause or _first_failure(hosts, codes)
        exit_code = exit_code or 1
    codes = dict(sorted(codes.items()))
    return replace(summary, exit_codes=codes, exit_code=exit_code, cause=cause, status=state, failure_reason=reason)


def _first_failure(hosts: Sequence[SimulatedHost], codes: Mapping[str, int]) -> str:
    for host in hosts:
        if host.paths.failure.is_file():
            return host.paths.failure.read_text(encoding="utf-8", errors="replace").split("\n")[0]
    return f"{NO_REASON} ({_exits(codes)})"


def _exits(codes: Mapping[str, int], between: str = "; ") -> str:
    return between.join(f"{label}: {describe_exit(code)}" for label, code in sorted(codes.items()))


def status(codes: Mapping[str, int], is_stopped: bool) -> str:
    """COMPLETED, FAILED or STOPPED, from all exit codes: a single bad one fails the job."""
    if is_stopped:
        return STOPPED
    return FAILED if any(codes.values()) or not codes else COMPLETED


def failure_reason(hosts: Sequence[SimulatedHost], codes: Mapping[str, int]) -> str:
    """The oldest failure file of the hosts that ended badly; without one, how each of them ended.

    codes: by `host`, or by `host/rank`.
    """
    bad = {label.split("/")[0]: code for label, code in codes.items() if code}
    files = [(host.paths.failure, bad[host.name]) for host in hosts if host.name in bad]
    written = sorted((path.stat().st_mtime, path, code) for path, code in files if path.is_file())
    if written:
        _, path, code = written[0]
        text = path.read_text(encoding="utf-8", errors="replace")[:1024]  # as the platform does
        return f"AlgorithmError: {text}, exit code: {code}"
    return f"AlgorithmError: , {_exits(bad, ', ')}"


def collect(hosts: Sequence[SimulatedHost], folder: Path) -> dict[str, Path]:
    """Packs the hosts' model and output/data directories into model.tar.gz and output.tar.gz in `folder`.

    The first host's file wins over others of its name. Empty directories make no archive.
    """
    collected = {}
    for name, places in (
        ("model.tar.gz", [host.paths.model for host in hosts]),
        ("output.tar.gz", [host.paths.output_data for host in hosts]),
    ):
        files = [(path, place) for place in places for path in sorted(place.rglob("*")) if path.is_file()]
        members = {str(path.relative_to(place)): path for path, place in reversed(files)}
        if members:
            collected[name] = folder / name
            with tarfile.open(collected[name], "w:gz", compresslevel=1) as archive:
                for member, path in sorted(members.items()):
                    archive.add(path, member)
    return collected


def describe(
    job: Submission,
    folder: Path,
    summary: RunSummary,
    began: float,
    ended: float,
    secondary: str | None,
    model: Path | None,
) -> None:
    """Writes job.json, in the shape of the answer of DescribeTrainingJob.

    began, ended: seconds since 1970. secondary: SecondaryStatus. model: the archive of the model.
    """
    groups = [
        {"InstanceGroupName": name, "InstanceType": group.instance_type, "InstanceCount": group.hosts}
        for name, group in job.cluster.groups.items()
    ]
    content: dict[str, Any] = {
        "TrainingJobName": job.job,
        "TrainingJobStatus": summary.status,
        "SecondaryStatus": secondary,
        "ResourceConfig": {"InstanceGroups": groups},
        "InputDataConfig": [{"ChannelName": name, "InputMode": job.mode(name)} for name in job.cluster.channels],
        "CreationTime": _time(began),
        "TrainingStartTime": _time(began),
        "TrainingEndTime": _time(ended),
        "TrainingTimeInSeconds": round(ended - began),
    }
    if summary.failure_reason is not None:
        content["FailureReason"] = summary.failure_reason
    if model is not None:
        content["ModelArtifacts"] = {"S3ModelArtifacts": model.name}
    (folder / "job.json").write_text(json.dumps(content, indent=1), encoding="utf-8")


def _time(wall_s: float) -> str:
    return datetime.fromtimestamp(wall_s, timezone.utc).isoformat(timespec="milliseconds")
