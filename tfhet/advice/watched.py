"""Advice for a script that `tfhet watch` ran: settings of its loader first, then its own code, then machines."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from tfhet.advice.finding import Finding, counted
from tfhet.record import RunSummary, StepTime, Waiting

LEAST_STEPS = 20
"""Number of measured steps below which a watched run has no verdict."""
BOUND_PCT, APART_PCT = 10.0, 10.0
"""Share of the steps' time from which a block of steps is input-bound; difference between ranks that is named."""
BLOCKS, LEAST_BLOCK = 10, 8
"""Maximum number of blocks in which the beginning of the waiting is looked for, and steps in each."""
LEAST_SAMPLES = 30
"""Number of samples of stacks below which no function is named."""
MATTERS_PCT = 3.0
"""Share of the time from which epoch starts and stalls are worth a setting."""


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
    """Returns since when the run waits, which ranks wait, and which function costs the time."""
    cut = "a process read more batches than it records: its last steps are not in this verdict"
    is_cut = bool(run.watched.get("is_cut"))
    return [*[Finding("cut", cut)] * is_cut, *_since(waits.entries), *_ranks(run), *_where(run)]


def _since(steps: Sequence[StepTime]) -> Iterator[Finding]:
    """Yields the step at which the waiting began, if earlier steps did not wait."""
    size = max(LEAST_BLOCK, math.ceil(len(steps) / BLOCKS))
    blocks = [steps[at : at + size] for at in range(0, len(steps) - size + 1, size)]
    bound = [_share(block) >= BOUND_PCT for block in blocks]
    first = len(bound)
    while first and bound[first - 1]:
        first -= 1
    if 0 < first < len(bound) and not any(bound[:first]):
        step = blocks[first][0]
        before, after = _share(steps[: first * size]), _share(steps[first * size :])
        where = f"step {step.step}" if step.step else f"measured step {first * size + 1}"
        yield Finding("waits_since", f"it waits from about {where} on: {before:.1f} % before, then {after:.1f} %")


def _share(steps: Sequence[StepTime]) -> float:
    whole_s = sum(each.times * each.dur_s for each in steps)
    return 100.0 * sum(each.times * each.wait_s for each in steps) / whole_s if whole_s else 0.0


def _ranks(run: RunSummary) -> Iterator[Finding]:
    shares = {each["rank"]: each["wait_pct"] for each in run.by_rank}
    if len(shares) > 1 and max(shares.values()) - min(shares.values()) >= APART_PCT:
        most, least = max(shares, key=shares.__getitem__), min(shares, key=shares.__getitem__)
        yield Finding(
            "ranks_apart",
            f"rank {most} waits most, {shares[most]:.1f} % of its step, and rank {least} least, {shares[least]:.1f} %:"
            " ranks that exchange gradients are as slow as the slowest one",
        )


def _where(run: RunSummary) -> Iterator[Finding]:
    found = _named(run)
    if found:
        of = "worker time" if run.watched.get("where_role") == "worker" else "the time in which the script waits"
        named = "; ".join(f"{each['what']}: {each['pct']:.0f} %" for each in found[:3])
        yield Finding("where", f"samples of stacks name, of {of}: {named}")


def _named(run: RunSummary) -> list[dict[str, object]]:
    found = list(run.watched.get("where") or ())
    return found if sum(int(each["samples"]) for each in found) >= LEAST_SAMPLES else []


def levers(run: RunSummary, waits: Waiting) -> list[Finding]:
    """Returns changes for the steady state of an input-bound run, in the order of effort."""
    found = [*_settings(run, waits), *_code(run)]
    return [Finding(each.kind, f"{'then' if at else 'first'} {each.clause}") for at, each in enumerate(found)]


def _settings(run: RunSummary, waits: Waiting) -> Iterator[Finding]:
    settings = run.watched.get("settings") or {}
    workers = settings.get("num_workers")
    if not isinstance(workers, int):
        return
    hosts = max((int(group.get("ranks_per_host") or 1) for group in run.cluster.values()), default=1)
    cpus = max(1, int(settings.get("cpus") or 1) // hosts)
    if workers == 0:
        more = min(cpus, _needed(waits))
        yield Finding(
            "no_workers",
            f"set num_workers={more} in the DataLoader: with 0 the training process prepares each batch itself, while"
            f" the model waits ({counted(cpus, 'CPU')} per rank)",
        )
    elif workers < cpus:
        yield Finding("few_workers", f"raise num_workers from {workers} to {cpus}, the number of CPUs per rank")
    elif workers > 2 * cpus:
        yield Finding("many_workers", f"lower num_workers from {workers} to {cpus}, the number of CPUs per rank")
    if workers and waits.epoch_starts.share_pct >= MATTERS_PCT and not settings.get("persistent_workers"):
        yield Finding("restarted_workers", "set persistent_workers=True: the workers start again in each epoch")
    if workers and waits.stalls.share_pct >= MATTERS_PCT:
        ahead = settings.get("prefetch_factor") or 2
        yield Finding("little_prefetch", f"raise prefetch_factor from {ahead} to {4 * ahead}, which bridges stalls")
    if settings.get("has_gpu") and not settings.get("pin_memory"):
        yield Finding("not_pinned", "set pin_memory=True, and copy to the GPU with non_blocking=True")
    opencv = int(settings.get("opencv_threads") or 0)
    if workers and opencv > 1 and opencv * workers > cpus:
        yield Finding("opencv_threads", f"call cv2.setNumThreads(0) in each worker: {opencv} threads in each compete")
    threads = int(settings.get("torch_threads") or 0)
    if hosts > 1 and threads * hosts > int(settings.get("cpus") or 1):
        yield Finding("torch_threads", f"set OMP_NUM_THREADS={cpus}: {hosts} ranks use {threads} threads each")


def _needed(waits: Waiting) -> int:
    """Number of workers that would hide the steady wait, if the time to prepare a batch is the wait without workers."""
    steps = [each for each in waits.entries if each.dur_s > 0]
    wait_s = sum(each.times * each.wait_s for each in steps)
    compute_s = sum(each.times * (each.dur_s - each.wait_s) for each in steps)
    return max(1, min(64, math.ceil(1.25 * wait_s / compute_s))) if compute_s > 0 else 64


def _code(run: RunSummary) -> Iterator[Finding]:
    named = _named(run)
    if named:
        first = named[0]
        yield Finding("cheaper_code", f"make {first['what']} cheaper, {first['pct']:.0f} % of the samples")
        yield Finding("cache", "store what each epoch reads and decodes again in the form in which the model takes it")
    else:
        yield Finding("cheaper_stages", "make the stages of the input cheaper, or store what each epoch decodes again")
    yield Finding("more_cpus", "move to an instance with more CPUs per GPU, or add CPU hosts (docs/plan.md)")
