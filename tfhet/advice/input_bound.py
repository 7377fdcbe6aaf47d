"""When a measured, predicted or paid run counts as input-bound, what to do first, and the next commands."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

from tfhet.advice import watched
from tfhet.advice.finding import Finding, counted, sentences
from tfhet.advice.no_reads import unread
from tfhet.record import Figure, RunFolder, RunSummary, Waiting, WaitPart

JOB_FILE = "job.yaml"
INPUT_BOUND_PCT = 10.0
"""Share of a step that waits for data from which a run is input-bound; without it, it is 1.1 times faster."""
INPUT_KEEPS_UP_PCT = 3.0
"""Share of a step below which the wait is only the hand-over of a batch."""
LEAST_STEPS = 10
"""Number of measured steps below which a run says nothing about its input."""
BUSY_PCT = 80.0
"""Utilisation from which a resource is used up; one-minute means of bursty work do not reach 100 %."""
IDLE_PCT = 50.0
"""Utilisation below which most of a resource is unused."""
STALLS_NAMED = 3
AROUND_S = 5.0
"""Seconds before a stall in which an event may be its cause: a server's end is noticed after the wait."""
SHORTEN_STEP = Finding(
    "shorten_step", "first shorten the training step itself: neither cheaper stages nor more CPUs do that"
)


class InputState(Enum):
    """Whether training waits for its input."""

    BOUND = "input-bound"
    HARDLY = "hardly input-bound"
    NOT = "not input-bound"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Diagnosis:
    """Whether a run waits for its input, the evidence, and changes to make."""

    state: InputState
    verdict: Finding
    evidence: tuple[Finding, ...] = ()
    levers: tuple[Finding, ...] = ()
    """Changes to make, the most important first."""
    next_run: tuple[Finding, ...] = ()
    """Settings with which the next run shows more."""


def paragraph(found: Diagnosis) -> str:
    return " ".join(sentences([found.verdict, *found.levers]))


def state_by_wait(wait_pct: float | None) -> InputState:
    """Returns the state of a run whose ranks wait for `wait_pct` of a step, 0 to 100; UNKNOWN for None and NaN."""
    if wait_pct is None or not math.isfinite(wait_pct):
        return InputState.UNKNOWN
    if wait_pct >= INPUT_BOUND_PCT:
        return InputState.BOUND
    return InputState.HARDLY if wait_pct >= INPUT_KEEPS_UP_PCT else InputState.NOT


def state_by_use(gpu_pct: float | None, cpus_are_busy: bool) -> InputState:
    """Returns the state of a run by its utilisation alone: GPUs busy for `gpu_pct` of the time, 0 to 100."""
    if gpu_pct is None:
        return InputState.UNKNOWN
    if gpu_pct >= BUSY_PCT:
        return InputState.NOT
    return InputState.HARDLY if gpu_pct >= IDLE_PCT and not cpus_are_busy else InputState.BOUND


def waiting(wait_pct: float, reason: str = "", waits: Waiting | None = None) -> Finding:
    """Returns how long a run waits, how much faster it would be without the wait, and the reason. wait_pct: share of
    the steady state. waits: all parts of the wait; expensive parts are named."""
    parts = peaks(waits)
    share, where = min(100.0, max(0.0, wait_pct)), " in the steady state" if parts else ""
    middle = f" (median {waits.median_pct:.1f} %)" if waits and waits.median_pct is not None else ""
    why = "".join(f"; {name} cost {cost_of(part)}" for name, part in parts.items()) + (f"; {reason}" if reason else "")
    some = f"{share:.1f} % of the step{middle}"
    state = state_by_wait(wait_pct)
    if share >= 99.95:
        return Finding("only_waiting", f"input-bound{where}: {some} is waiting for data, all of it{why}")
    faster = f"{100.0 / (100.0 - share):.2f} times faster{why}"
    if state is InputState.BOUND:
        clause = f"{state.value}{where}: {some} is waiting for data, without which it would be {faster}"
        return Finding("input_bound", clause)
    return Finding(
        "hardly_input_bound" if state is InputState.HARDLY else "keeps_up",
        f"{state.value}{where}: waiting for data is {some}, so a perfect input would make it {faster}",
    )


def cost_of(part: WaitPart) -> str:
    """Returns the cost of epoch starts or stalls in words."""
    cost = f"{part.share_pct:.1f} % of the time ({counted(len(part.waits_s), 'wait')}, {part.total_s:.3g} s)"
    return f"{cost}, without which the run would be {part.faster:.2f} times faster"


def peaks(waits: Waiting | None) -> dict[str, WaitPart]:
    """Returns epoch starts and stalls that cost something, the more expensive first."""
    parts = {"epoch starts": waits.epoch_starts, "stalls": waits.stalls} if waits else {}
    dear = [(name, part) for name, part in parts.items() if part.share_pct >= INPUT_KEEPS_UP_PCT]
    return dict(sorted(dear, key=lambda item: -item[1].share_pct))


def peak_levers(waits: Waiting | None, events: Sequence[tuple[float, str]] = ()) -> Iterator[Finding]:
    """Yields advice for epoch starts and stalls. events: time in seconds since 1970, and words."""
    for name, part in peaks(waits).items():
        if waits and name == "stalls":
            longest = sorted(zip(part.waits_s, part.steps, strict=True), reverse=True)[:STALLS_NAMED]
            named = ", ".join(_moment(wait_s, at, waits, events) for wait_s, at in longest)
            yield Finding(
                "look_at_stalls",
                f"for the stalls look at their moments, the longest first: {named}. Where nothing happened then, look"
                " for a file that is slow to open or large, or a shuffle buffer of tf.data that fills again; more"
                " workers do not help, batches prefetched for that long do",
            )
        else:
            yield Finding(
                "bridge_epochs",
                "for the epoch starts read on over the end of the epoch, so that the pipeline need not fill again:"
                " repeat the data, keep one iterator, and count epochs in steps (`steps_per_epoch`); then cache what"
                " each epoch reads and decodes again, make shuffle buffers smaller, or have the next epoch made ready",
            )


def in_order(
    state: InputState, steady: Sequence[Finding], waits: Waiting | None, events: Sequence[tuple[float, str]] = ()
) -> list[Finding]:
    """Returns all advice, the most expensive cause first. steady: advice for the steady state."""
    for_peaks = list(peak_levers(waits, events))
    if waits is None or not for_peaks:
        return list(steady)
    if state is InputState.NOT:
        return for_peaks
    if waits.steady.share_pct >= max(waits.epoch_starts.share_pct, waits.stalls.share_pct):
        return [*steady, *for_peaks]
    then = [replace(each, clause=f"then {each.clause.removeprefix('first ').removeprefix('then ')}") for each in steady]
    return [*for_peaks, *then]


def _moment(wait_s: float, at: int, waits: Waiting, events: Sequence[tuple[float, str]]) -> str:
    step = waits.entries[at]
    known = events if step.at_s else ()
    before = [words for time_s, words in known if -AROUND_S <= time_s - step.at_s < 0]
    during = [words for time_s, words in known if 0 <= time_s - step.at_s <= step.dur_s]
    meanwhile = f" during {', '.join(dict.fromkeys(during))}" if during else ""
    meanwhile += f" soon after {', '.join(dict.fromkeys(before))}" if before else ""
    where = "metric line" if waits.stretch > 1 else "measured step"
    return f"{wait_s:.3g} s at {where} {at + 1}{meanwhile}"


def of_run(
    summary: RunSummary,
    costs: Sequence[tuple[str, Figure]] = (),
    busiest_data_host: tuple[str, float] | None = None,
    choice: str = "",
    *,
    waits: Waiting | None = None,
    events: Sequence[tuple[float, str]] = (),
) -> Diagnosis:
    """Returns the diagnosis of a run. costs: CPU time per example of the pipeline's parts, the source first; by
    default those that the run measured.
    busiest_data_host: name, and share of used CPUs, 0 to 100. choice: of a plan, as a sentence. waits: by default from
    the summary. events: times in seconds since 1970, and words."""
    waits = waits or Waiting.of_run(summary)
    of = "CPU" if costs or not summary.part_us else "time"
    costs = costs or [(name, Figure.single(part_us, unit="us")) for name, part_us in summary.part_us.items()]
    state = state_by_wait(waits.steady_pct)
    if waits.steady_pct is None or state is InputState.UNKNOWN:
        no_steps = "whether this run waited for its input is not known: no step of it was measured"
        reason = watched.without_steps(summary) if summary.watched else no_steps
        return Diagnosis(state, unread(summary) or Finding("no_steps", reason))
    lever = SHORTEN_STEP if state is InputState.NOT else _cheaper(costs, of)
    if busiest_data_host and busiest_data_host[1] < IDLE_PCT:
        since = f"since the busiest data host, {busiest_data_host[0]}, used {busiest_data_host[1]:.1f} % of"
        if state is InputState.NOT:
            lever = Finding("fewer_data_cpus", f"first try fewer data CPUs, {since} them")
        elif state is InputState.BOUND:
            lever = Finding("find_the_wait", f"first find out why, {since} its CPUs")
    says = f"the plan says: {choice[:1].lower()}{choice[1:].removesuffix('.')}"
    plan = (Finding("plan_says", says),) if choice else ()
    few = f"{counted(len(waits.entries), 'step')} are too few to tell stalls and epoch starts from the steady state"
    is_few = state is not InputState.NOT and waits.entries and not waits.is_divided
    if summary.watched:
        found = watched.levers(summary, waits, state is not InputState.NOT, list(peak_levers(waits, events)))
        levers = (*(found or [SHORTEN_STEP]), *plan)
    else:
        levers = (*in_order(state, [lever], waits, events), *plan)
    taken = round(sum(step.times for step in waits.entries) * waits.stretch)
    least = watched.LEAST_STEPS if summary.watched else LEAST_STEPS
    if 0 < taken < least:
        share = f"{waits.steady_pct:.1f} % of the time of {counted(taken, 'measured step')} is waiting for data"
        verdict = Finding("few_steps", f"too few steps for a verdict, which needs {least}: {share}")
        if summary.watched:
            return Diagnosis(InputState.UNKNOWN, verdict)
    else:
        slowest = watched.slowest(summary) if summary.watched else ""
        verdict = waiting(waits.steady_pct, "; ".join(filter(None, [few if is_few else "", slowest])), waits)
    return Diagnosis(state, verdict, tuple(watched.evidence(summary, waits)) if summary.watched else (), levers)


def _cheaper(costs: Sequence[tuple[str, Figure]], of: str) -> Finding:
    whole = sum(max(0.0, figure.value) for _, figure in costs)
    if not 0 < whole < math.inf:
        first = "first measure the pipeline with `tfhet profile`: cheaper stages come before more machines"
        return Finding("measure_the_pipeline", first)
    at, (part, figure) = max(enumerate(costs), key=lambda item: item[1][1].value)
    share = f"which is {100.0 * figure.value / whole:.0f} % of the pipeline's {of}"
    if at:
        return Finding("cheaper_part", f"first make {part} cheaper, {share}")
    return Finding("dear_source", f"first look at {part}, {share}")


def next_commands(found: Diagnosis, run: RunSummary, folder: RunFolder) -> list[str]:
    """Returns the commands after a run, in order, without finished ones.

    A run that waits for its input or has data hosts is profiled, planned and submitted, another one submitted as it is;
    submitting needs a job file in the working directory. A failed run, or one without steps, is examined.
    """
    if run.watched:
        return []
    if found.state is InputState.UNKNOWN or run.exit_code:
        script = _script(folder)
        return [f"tfhet doctor --brief --script {shlex.quote(script[0])}"] if script else []
    has_job = Path(JOB_FILE).is_file()
    submit, at = [f"tfhet submit --dry_run {JOB_FILE}"] if has_job else [], shlex.quote(str(folder.path))
    if found.state is InputState.NOT and run.mode != "heterogeneous":
        return submit
    write = f" --write {JOB_FILE}" if has_job else ""
    plan = f"tfhet plan --run {at} --json {shlex.quote(str(folder.plan_path))}{write}"
    todo = {folder.profile_path: profile_command(folder, run), folder.plan_path: plan}
    return [*(command for path, command in todo.items() if not path.is_file()), *submit]


def profile_command(folder: RunFolder | None = None, run: RunSummary | None = None) -> str:
    """Returns the command that profiles the pipeline of a run into its folder, with placeholders if unknown."""
    script = (folder and _script(folder)) or ["SCRIPT.py"]
    to = shlex.quote(str(folder.profile_path)) if folder else "FILE"
    run = run or (folder.read_summary() if folder else None)
    if folder and run and run.stages_where and not run.by_rank:  # of the built-in trainer
        channels = sorted(path for path in folder.path.glob("hosts/*/input/data/*") if path.name.startswith("train"))
        stages = "; ".join(stage.partition(" at ")[0] for stage in run.stages_where)
        data = [str(channels[0] if channels else Path("DATA")), "--stages", stages, "--batch_size", str(run.batch_size)]
        return f"tfhet profile {shlex.join(data)} --json {to}"
    arguments = f" -- {shlex.join(script[1:])}" if script[1:] else ""
    variables = _channels(folder, script[0]) if folder else ""
    return f"{variables}tfhet profile --script {shlex.quote(script[0])} --json {to}{arguments}"


def _channels(folder: RunFolder, script: str) -> str:
    """Returns the channels of a simulated run as assignments in a shell, if its script reads their variables."""
    try:
        is_read = "SM_CHANNEL_" in Path(script).read_text(encoding="utf-8", errors="replace")
    except OSError:
        is_read = False
    paths = {path.name: path for path in sorted(folder.path.glob("hosts/*/input/data/*"), reverse=True) if is_read}
    return "".join(
        f"SM_CHANNEL_{name.upper()}={shlex.quote(str(paths[name]))} " for name in sorted(paths) if name.isidentifier()
    )


def _script(folder: RunFolder) -> list[str]:
    """Returns the script of a run, as a path from here, and its arguments; [] if unknown."""
    commands = (event.get("command") for event in folder.events() if event.get("event") == "training.started")
    words = [str(word) for word in next(commands, None) or ()][1:]
    if not words or words[0] == "-m":
        return []
    return [words[0] if Path(words[0]).is_file() else Path(words[0]).name, *words[1:]]
