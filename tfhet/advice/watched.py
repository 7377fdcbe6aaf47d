"""Advice for a script that `tfhet watch` ran: settings of its loader first, then its own code, then machines."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tfhet.advice.change import BOUND_PCT, Change
from tfhet.advice.finding import Finding, counted
from tfhet.record import RunSummary, Waiting, median

LEAST_STEPS = 20
"""Number of measured steps below which a watched run has no verdict."""
APART_PCT = 10.0
"""Difference between the waits of ranks that is named."""
LEAST_SAMPLES = 30
"""Number of samples of stacks below which no function is named."""
EACH_READS_ALL = (
    "; each worker reads all of an IterableDataset that does not divide itself by torch.utils.data.get_worker_info()"
)
MATTERS_PCT = 3.0
"""Share of the time from which epoch starts and stalls are worth a setting."""
SAMPLED_S = 0.02
"""Seconds between two samples of a worker's stack."""
IDLE_PCT = 50.0
"""Share of a function's time without use of a CPU from which the function waits, and does not compute."""
MOST_AHEAD = 32
"""Maximum `prefetch_factor` that is proposed: each batch ahead needs memory."""
PER_CPU = 8
"""Maximum number of workers per CPU, for workers that wait."""
SETTING, CODE, STORE, MACHINE = range(4)
"""Effort of a change."""


def without_steps(run: RunSummary) -> str:
    """Returns the reason why a watched run has no step, and what to do, as a clause."""
    others = int(run.watched.get("other_batches") or 0)
    if run.exit_code and not others:
        return f"the command ended with exit code {run.exit_code} before a reader was seen"
    ended = f"the command ended with exit code {run.exit_code}, and " if run.exit_code else ""
    if run.watched.get("hidden_passes"):
        return (
            f"{ended}whether it waited for its input is not known: another thread than the training reads the loader,"
            " and its waits are hidden from the training; mark what the training loop reads with tfhet.watch(iterable)"
        )
    if others:
        return (
            f"{ended}whether it waited for its input is not known: {others} batches were read, but none for training"
            " (no optimizer stepped after one); mark the training data with tfhet.watch(iterable)"
        )
    return (
        f"{ended}whether it waited for its input is not known: no reader was seen; docs/watch.md lists those that are"
        " seen, tfhet.watch(iterable) marks any other one, and `python -I`, `-E` or `-S` keeps the hooks out"
    )


def evidence(run: RunSummary, waits: Waiting) -> list[Finding]:
    """Returns when the run waits, which ranks wait, which function costs the time, and the cost of validation."""
    cut = "a process read more batches than it records: its last steps are not in this verdict"
    found = [Finding("cut", cut)] if run.watched.get("is_cut") else []
    since, until = Change.since(waits.entries), Change.until(waits.entries)
    if since:
        words = f"it waits from about {since.where} on: {since.before_pct:.1f} % before, then {since.after_pct:.1f} %"
        found.append(Finding("waits_since", words))
    if until:
        words = f"it waits mostly until {until.where}: {until.before_pct:.1f} % before, then {until.after_pct:.1f} %"
        found.append(Finding("waited_until", words))
    validation = run.watched.get("validation") or {}
    if (validation.get("pct") or 0.0) >= BOUND_PCT:
        times = f"{counted(validation['count'], 'time')}, {validation['total_s']:.3g} s"
        words = f"validation costs {validation['pct']:.1f} % of the time ({times}), which is in no step"
        found.append(Finding("validation", f"{words}; it waits for its data for {validation['wait_pct']:.0f} % of it"))
    return [*found, *_ranks(run), *_where(run)]


def _apart(run: RunSummary) -> tuple[int, int, dict[int, float]] | None:
    """Returns the rank that waits most, the one that waits least, and the shares of all; None if they are alike."""
    shares = {each["rank"]: each["wait_pct"] for each in run.by_rank}
    if len(shares) < 2 or max(shares.values()) - min(shares.values()) < APART_PCT:
        return None
    return max(shares, key=shares.__getitem__), min(shares, key=shares.__getitem__), shares


def slowest(run: RunSummary) -> str:
    """Returns whose figures the verdict has, as a clause: of the rank that waits most; "" if the ranks are alike."""
    apart = _apart(run)
    return f"the figures are of rank {apart[0]}, which waits most" if apart else ""


def _ranks(run: RunSummary) -> Iterator[Finding]:
    apart = _apart(run)
    if apart:
        most, least, shares = apart
        yield Finding(
            "ranks_apart",
            f"rank {most} waits most, {shares[most]:.1f} % of its step, and rank {least} least, {shares[least]:.1f} %:"
            " ranks that exchange gradients are as slow as the slowest one",
        )


def _where(run: RunSummary) -> Iterator[Finding]:
    found = _named(run)
    if found:
        role = run.watched.get("where_role")
        of = "worker time" if role == "worker" else "the time in which the script waits"
        named = "; ".join(
            f"{each['what']}: {each['pct']:.0f} %{', without use of a CPU' if _is_idle(each) else ''}"
            for each in found[:3]
        )
        words = "the parts of the pipeline cost" if role == "core" else f"samples of stacks name, of {of}"
        yield Finding("where", f"{words}: {named}")


def _named(run: RunSummary) -> list[Mapping[str, Any]]:
    found = list(run.watched.get("where") or ())
    return found if sum(int(each["samples"]) for each in found) >= LEAST_SAMPLES else []


def _is_idle(function: Mapping[str, Any]) -> bool:
    return (function.get("idle_pct") or 0.0) >= IDLE_PCT


def _waits(run: RunSummary) -> Mapping[str, Any] | None:
    """Returns the function that costs the most time, if it waits for files or a network."""
    named = _named(run)
    return named[0] if named and _is_idle(named[0]) else None


def levers(run: RunSummary, waits: Waiting, is_bound: bool, for_peaks: Sequence[Finding]) -> list[Finding]:
    """Returns all changes in the order of effort; for the same effort, the most expensive part of the wait first.

    Args:
        run: The run.
        waits: Its waits.
        is_bound: Whether its steady state waits.
        for_peaks: Advice of `input_bound` for epoch starts and stalls that matter.
    """
    until = Change.until(waits.entries)
    replaced = {"look_at_stalls"} if until else set[str]()
    replaced |= {"bridge_epochs"} if "num_workers" in _settings_of(run) else set()
    parts = [
        (waits.epoch_starts.share_pct, _for_epoch_starts(run, waits)),
        (waits.stalls.share_pct, _for_stalls(run, waits)),
        (waits.stalls.share_pct, ((CODE, each) for each in for_peaks if each.kind not in replaced)),
        (waits.steady.share_pct, itertools.chain(_settings(run, waits), _code(run, waits)) if is_bound else ()),
        (0.0, _for_validation(run)),
    ]
    ordered = sorted(
        ((effort, -share_pct, each) for share_pct, part in parts for effort, each in part), key=lambda each: each[:2]
    )
    found = [each for *_, each in ordered]
    if until:
        words = (
            f"judge a longer run by the steps after {until.where}: a cache was filled until then, or files were cold"
        )
        found.insert(0, Finding("warm_up", f"{words}; fill it before the training, and keep it between runs"))
    return [Finding(each.kind, f"{'then' if at else 'first'} {each.clause}") for at, each in enumerate(found)]


def _settings_of(run: RunSummary) -> Mapping[str, Any]:
    return run.watched.get("settings") or {}


def _for_epoch_starts(run: RunSummary, waits: Waiting) -> Iterator[tuple[int, Finding]]:
    settings = _settings_of(run)
    if "num_workers" not in settings or waits.epoch_starts.share_pct < MATTERS_PCT:
        return
    if settings["num_workers"] and not settings.get("persistent_workers"):
        words = "set persistent_workers=True in the DataLoader: its workers start again in each epoch"
        yield SETTING, Finding("restarted_workers", words)
    words = "for the epoch starts make what a pass does first cheaper (`__iter__` of dataset and sampler, and the start"
    longer = "of workers), or use fewer and longer passes: a sampler that repeats the data"
    yield CODE, Finding("longer_passes", f"{words} {longer}")


def _for_stalls(run: RunSummary, waits: Waiting) -> Iterator[tuple[int, Finding]]:
    settings, stalls = _settings_of(run), waits.stalls.share_pct
    if settings.get("num_workers") and stalls >= max(MATTERS_PCT, waits.steady.share_pct):
        ahead, workers = settings.get("prefetch_factor") or 2, settings["num_workers"]
        step_s = median([each.dur_s - each.wait_s for each in waits.entries])
        batches = waits.stalls.mean_s / step_s / workers if step_s > 0 else MOST_AHEAD
        more = max(2 * ahead, min(MOST_AHEAD, math.ceil(batches) + 1))
        words = f"raise prefetch_factor from {ahead} to {more}: {more * workers} batches ahead bridge most stalls"
        yield SETTING, Finding("little_prefetch", words)


def _for_validation(run: RunSummary) -> Iterator[tuple[int, Finding]]:
    found = run.watched.get("validation") or {}
    if (found.get("pct") or 0.0) < BOUND_PCT:
        return
    if found.get("num_workers") == 0 and found["wait_pct"] >= IDLE_PCT:
        words = "set num_workers in the DataLoader of the validation, too: it waits for its data"
        yield SETTING, Finding("shorten_validation", f"{words}{_if_undivided(found)}")
    else:
        yield CODE, Finding("shorten_validation", "validate less often, or with fewer or larger batches")


def _if_undivided(settings: Mapping[str, Any]) -> str:
    """Returns the warning for advice about more workers: with them, a stream that is not divided delivers each example
    several times, without an error. settings: of the reader that gets more workers."""
    return EACH_READS_ALL if settings.get("is_iterable") else ""


def _settings(run: RunSummary, waits: Waiting) -> Iterator[tuple[int, Finding]]:
    """Yields settings for the steady state. What is set for all ranks does not explain a slow one."""
    settings, apart, idle = _settings_of(run), _apart(run), _waits(run)
    workers = settings.get("num_workers")
    if apart and workers != 0:
        words = f"find out why rank {apart[0]} prepares its batches more slowly than rank {apart[1]}"
        yield SETTING, Finding("slow_rank", f"{words}: its share of the data, its disk, the CPUs of its host")
    if not isinstance(workers, int):
        return
    hosts = max((int(group.get("ranks_per_host") or 1) for group in run.cluster.values()), default=1)
    cpus = max(1, int(settings.get("cpus") or 1) // hosts)
    divided = _if_undivided(settings)
    if workers == 0:
        more = min(cpus * (PER_CPU if idle else 1), _needed(waits))
        yield (
            SETTING,
            Finding(
                "no_workers",
                f"set num_workers={more} in the DataLoader: with 0 the training process prepares each batch itself,"
                f" while the model waits ({counted(cpus, 'CPU')} per rank){divided}",
            ),
        )
    elif idle and workers < PER_CPU * cpus:
        more = min(PER_CPU * cpus, workers + _needed(waits, workers))
        words = f"raise num_workers from {workers} to {more}, also above the number of CPUs: {idle['what']} waits"
        words = f"{words}, for files or a network, and uses no CPU meanwhile{divided}"
        yield SETTING, Finding("wait_in_parallel", words)
    elif workers < cpus:
        words = f"raise num_workers from {workers} to {cpus}, the number of CPUs per rank{divided}"
        yield SETTING, Finding("few_workers", words)
    elif workers > 2 * cpus and not idle:
        words = f"lower num_workers from {workers} to {cpus}, the number of CPUs per rank"
        yield SETTING, Finding("many_workers", words)
    if settings.get("has_gpu") and not settings.get("pin_memory"):
        yield SETTING, Finding("not_pinned", "set pin_memory=True, and copy to the GPU with non_blocking=True")
    opencv, threads = (int(settings.get(name) or 0) for name in ("opencv_threads", "torch_threads"))
    if workers and opencv > 1 and opencv * workers > cpus:
        words = f"call cv2.setNumThreads(0) in each worker: {opencv} threads in each compete"
        yield SETTING, Finding("opencv_threads", words)
    if hosts > 1 and threads * hosts > int(settings.get("cpus") or 1):
        words = f"set OMP_NUM_THREADS={cpus}: {hosts} ranks use {threads} threads each"
        yield SETTING, Finding("torch_threads", words)


def _needed(waits: Waiting, workers: int = 1) -> int:
    """Number of workers that would hide the steady wait in addition to those that exist. workers: number of workers
    that prepared batches during the wait."""
    steps = [each for each in waits.entries if each.dur_s > 0]
    wait_s = sum(each.times * each.wait_s for each in steps)
    compute_s = sum(each.times * (each.dur_s - each.wait_s) for each in steps)
    return max(1, min(64, math.ceil(1.25 * workers * wait_s / compute_s))) if compute_s > 0 else 64


def _is_hand_over(run: RunSummary, waits: Waiting) -> bool:
    """Whether the workers prepared batches in a small part only of the time for which the script waited."""
    samples = sum(int(each["samples"]) for each in run.watched.get("where") or ())
    is_of_workers = run.watched.get("where_role") == "worker" and samples > 0
    return is_of_workers and samples * SAMPLED_S < waits.steady.total_s / 4


def _code(run: RunSummary, waits: Waiting) -> Iterator[tuple[int, Finding]]:
    named = _named(run)
    if _is_hand_over(run, waits):
        words = "hand over fewer bytes (uint8 instead of float32), or fewer and larger batches: the workers are idle"
        yield CODE, Finding("hand_over", f"{words}, so the script waits for the hand-over of batches")
        return
    if named and _is_idle(named[0]):
        words = f"shorten the waits in {named[0]['what']}, {named[0]['pct']:.0f} % of the samples"
        yield CODE, Finding("shorter_waits", f"{words}: a copy of the data on a local disk, or fewer and larger files")
    elif named:
        what, of = named[0]["what"], "samples"
        if run.watched.get("where_role") == "core":
            what, of = f"the part {what!r} of the pipeline", "pipeline's time"
        yield CODE, Finding("cheaper_code", f"make {what} cheaper, {named[0]['pct']:.0f} % of the {of}")
    else:
        words = "make the stages of the input cheaper, or store what each epoch decodes again"
        yield CODE, Finding("cheaper_stages", words)
    if named:
        words = "store what each epoch reads and decodes again in the form in which the model takes it"
        yield STORE, Finding("cache", words)
    if not _waits(run):
        words = "move to an instance with more CPUs per GPU, or add CPU hosts (docs/plan.md)"
        yield MACHINE, Finding("more_cpus", words)
