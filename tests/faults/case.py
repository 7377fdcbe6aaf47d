"""One case of the table of faults: what is done to which job, and how the job has to end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from faults.invariants import audited_epochs, lost_its_only_checkpoint, total
from faults.job import EPOCHS, LEASE_S, READY_S, WITNESS, FinishedJob, allowance
from faults.judge import Run
from tfhet.simulate import Fault

CONTINUES, FAILS, STOPS = "continues", "fails", "stops"
NEVER_JOINS, REFUSES = "never joins", "refuses"
LIMITS_S = {CONTINUES: None, FAILS: LEASE_S + 5.0, STOPS: 30.0, NEVER_JOINS: 25.0, REFUSES: LEASE_S + 5.0}
"""How a job ends, and seconds to the last exit: from the fault; of NEVER_JOINS from the start; of REFUSES, where the
job itself finds what is wrong, from its decision. None: as without faults."""
BUSY = "busy:"
"""In `before`, with `control`, `dispatcher` or `worker`: another process listens at that port."""
DAMAGES = ("truncated", "corrupt")
"""In `before`: damage of one of the data files."""
STOPPED = {129, 130, 143}
"""Codes of jobs that were asked to stop."""
EARLY = ("same-base", "half-checkpoint")
"""Faults before the start of a job and after its end."""


@dataclass(frozen=True)
class FaultCase:
    """One row of the table."""

    faults: tuple[str, ...]
    end: str
    """A key of LIMITS_S."""
    named: tuple[str, ...] = ()
    """Words that the cause must contain; `data-1` stands for the name of that host, `data-` for any data host's."""
    cluster: str = "demo"
    hosts: str = "process"
    arguments: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    """Data hosts that the job continues without, and says so."""
    before: str = ""
    """Damage before the job starts: one of DAMAGES, or BUSY with a port."""
    bad: int = 0
    """Records that are skipped in each epoch."""
    resumes: bool = False
    """Whether a second job resumes from the checkpoints of this one, which is stopped."""
    code: int | None = None
    """Exit code of all launchers; None: any that fits `end`."""
    is_linked: bool = True
    """Whether the launchers can reach each other, and so end with the same code."""

    @property
    def name(self) -> str:
        """The id of its test."""
        words = [self.before, *self.faults, *self.arguments, "resumed" * self.resumes]
        words += [f"({word})" for word in (self.cluster, self.hosts) if word not in ("demo", "process")]
        return " ".join(filter(None, words)) or "nothing"

    @property
    def parsed(self) -> tuple[Fault, ...]:
        return tuple(map(Fault.parse, self.faults))

    @property
    def limit_s(self) -> float | None:
        """Seconds to the last exit. A frozen launcher can only end when it thaws."""
        limit_s = LIMITS_S[self.end]
        frozen_s = [fault.for_s + 5.0 for fault in self.parsed if fault.kind == "hang" and fault.for_s is not None]
        return None if limit_s is None else max([limit_s, *frozen_s])

    @property
    def ready_s(self) -> float:
        """Seconds that the launchers wait for all hosts."""
        return 20.0 if self.end == NEVER_JOINS else READY_S

    def command(self, *, resumes: bool = False) -> list[str]:
        """Arguments of the launcher, or of the launcher of the job that resumes."""
        epochs = EPOCHS if self.end == CONTINUES or resumes else 50  # a job must not end before it is stopped
        return [
            *f"--model emulated --step_ms 50 --batch_size 8 --epochs {epochs} --shuffle 0 --chain none".split(),
            *f"--validation none --export false --log_every 5 --lease_s {LEASE_S:g}".split(),
            *f"--ready_timeout_s {self.ready_s:g} --train_script {WITNESS}".split(),
            *self.arguments,
        ]


def unexpected(case: FaultCase, job: FinishedJob, resumed: FinishedJob | None) -> list[str]:
    """Descriptions of the ways in which a job did not end as its case says."""
    summary, cause = job.summary, job.summary.cause or ""
    found = _codes(case, job)
    if len(job.named("fault.injected")) < sum(fault.kind != "late-join" for fault in job.faults):
        found.append("a fault was not done")
    if case.limit_s is not None:
        exit_s, limit_s = seconds_to_exit(case, job), case.limit_s * allowance()
        if exit_s is None or exit_s > limit_s:
            found.append(f"the last exit came after {exit_s} s, the limit is {limit_s:.3g} s")
        found += [f"the cause does not name {word!r}: {cause}" for word in case.named if not _is_named(word, job)]
    elif set(summary.lost_hosts) != {job.hosts[place] for place in case.lost}:
        found.append(f"lost hosts: {dict(summary.lost_hosts)}")
    if case.end == CONTINUES and total(summary.epochs, "bad") != case.bad * EPOCHS:
        found.append(f"{total(summary.epochs, 'bad')} records were skipped")
    can_save = not any(fault.kind in ("full-disk", "failing-write") for fault in job.faults)
    if case.end == STOPS and can_save and Run.read(job.folder).steps and not list(job.checkpoints.glob("checkpoint-*")):
        found.append("no checkpoint was written")
    if resumed is not None and not lost_its_only_checkpoint(job, resumed):
        found += [] if total(audited_epochs(job, resumed), "before") else ["the job that resumed began its epoch again"]
    if case.before == "truncated" and summary.steps:
        found.append(f"{summary.steps} steps were taken on a truncated file")
    return found


def _codes(case: FaultCase, job: FinishedJob) -> list[str]:
    codes = set(job.codes.values())
    if len(codes) > 1 and case.is_linked:
        return [f"the launchers end with different codes: {job.codes}"]
    wanted = 0 if case.end == CONTINUES else case.code
    if codes == {wanted} or (wanted is None and codes and not codes & {0, *STOPPED}):
        return []
    return [f"exit codes {job.summary.exit_codes}: {job.summary.cause}"]


def _is_named(word: str, job: FinishedJob) -> bool:
    names = [name for place, name in job.hosts.items() if place == word or (word == "data-" and place[:5] == word)]
    return any(name in (job.summary.cause or "") for name in names or [word])


def seconds_to_exit(case: FaultCase, job: FinishedJob) -> float | None:
    """Seconds from the moment that counts for a case to the exit of the last launcher."""
    if case.end == NEVER_JOINS:
        begins = [job.summary.started or 0.0]
    elif case.end == REFUSES:
        begins = _times(job.named("job.decided"))
    else:
        harm = [event for event in job.named("fault.injected") if not any(word in event["fault"] for word in EARLY)]
        begins = _times(harm)
    ends = _times(job.named("launchers.gone"))
    return max(ends) - min(begins) if ends and begins else None


def _times(events: Sequence[dict]) -> list[float]:
    return [float(event["time_s"]) for event in events]
