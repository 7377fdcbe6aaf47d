"""The status and the failure reason that SageMaker would report for a training job."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tfhet.errors import TfhetError
from tfhet.messages import JobResultLine, parse_line
from tfhet.process import describe_exit
from tfhet.record import RunFolder, RunSummary
from tfhet.report import place_of, printable
from tfhet.simulate.host import SimulatedHost

COMPLETED, FAILED, STOPPED = "Completed", "Failed", "Stopped"
STOPPED_ON_REQUEST = "stopped on request"
NO_REASON = "no launcher said why"
_LOG_LINES = 400


def completed(
    hosts: Sequence[SimulatedHost],
    codes: Mapping[str, int],
    leader: RunFolder,
    cause: str | None,
    never_began: str | None,
    logs: RunFolder,
) -> RunSummary:
    """The leader's summary with exit codes, cause, status and failure reason. codes: by `host` or `host/rank`. cause:
    why the simulator stopped the job, or None. never_began: why a host could not be made, or None. logs: the record
    with the output of all hosts."""
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
        cause = cause or summary.cause or _first_failure(hosts, codes, logs)
        exit_code = exit_code or 1
    codes = dict(sorted(codes.items()))
    return replace(summary, exit_codes=codes, exit_code=exit_code, cause=cause, status=state, failure_reason=reason)


def _first_failure(hosts: Sequence[SimulatedHost], codes: Mapping[str, int], logs: RunFolder) -> str:
    """The first line of a failure file; on full disks the last job result that a launcher printed; else the last line
    of the log of a host that failed."""
    for host in hosts:
        with contextlib.suppress(OSError):
            if cause := host.paths.failure.read_text(encoding="utf-8", errors="replace").split("\n")[0]:
                return printable(cause)
    lines = [place_of(line)[1] for name in logs.hosts() for line in logs.log_tail(name, _LOG_LINES)]
    for line in map(parse_line, reversed(lines)):
        if isinstance(line, JobResultLine) and line.code:
            return line.cause
    bad = {label.split("/")[0] for label, code in codes.items() if code}
    ends = [f"{name} printed last: {line}" for name in sorted(bad) for line in logs.log_tail(name, 1)]
    return "; ".join([f"{NO_REASON} ({_exits(codes)})", *map(printable, ends[:1])])


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
