"""The status and the failure reason that SageMaker would report for a training job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tfhet.errors import TfhetError
from tfhet.process import describe_exit
from tfhet.record import RunFolder, RunSummary
from tfhet.simulate.host import SimulatedHost

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
    """The leader's summary with exit codes, cause, status and failure reason. codes: by `host` or `host/rank`. cause:
    why the simulator stopped the job, or None. never_began: why a host could not be made, or None."""
    try:
        summary = leader.read_summary()
    except TfhetError:
        # A launcher that is not tfhet's writes no record; tfhet's always does.
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
    """COMPLETED, FAILED or STOPPED: a single non-zero exit code fails the job."""
    if is_stopped:
        return STOPPED
    return FAILED if any(codes.values()) or not codes else COMPLETED


def failure_reason(hosts: Sequence[SimulatedHost], codes: Mapping[str, int]) -> str:
    """The oldest failure file of the hosts that failed; without one, how each ended. codes: as in `completed`."""
    bad = {label.split("/")[0]: code for label, code in codes.items() if code}
    files = [(host.paths.failure, bad[host.name]) for host in hosts if host.name in bad]
    written = sorted((path.stat().st_mtime, path, code) for path, code in files if path.is_file())
    if written:
        _, path, code = written[0]
        text = path.read_text(encoding="utf-8", errors="replace")[:1024]  # like SageMaker
        return f"AlgorithmError: {text}, exit code: {code}"
    return f"AlgorithmError: , {_exits(bad, ', ')}"
