"""From the notes of all processes to the record of a run: its summary and its timeline."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tfhet.record import RunFolder, RunSummary, Timeline, UsageSample, machine, versions
from tfhet.steps import Phase, Phases
from tfhet.strategies import JobContext
from tfhet.watching.notes import ProcessNotes

NOTES = "notes-*.jsonl"
STACKS = "stacks-*.json"
ERRORS = "errors.log"
LABELS = 8
"""Number of functions in the record."""
LEAST_TIMED = 10
"""Number of samples of a function from which its use of a CPU is known."""


@dataclass(frozen=True)
class WatchedRank:
    """One process that trained."""

    notes: ProcessNotes
    phase: Phase
    first_batch_s: float | None
    """Seconds from its first request for training data to the first batch."""
    other_batches: int
    """Number of batches that were not for training."""
    reader: tuple[str, Mapping[str, Any]]
    """Name and facts of the reader that it trained with."""
    other_wait_s: float
    """Seconds for which it waited for the batches that were not for training."""

    @classmethod
    def of(cls, notes: ProcessNotes) -> WatchedRank:
        phases, first_s, others, other_wait_s = Phases(1), None, 0, 0.0
        for moment, reader in notes.moments():
            phases.add(moment, reader)
            if reader is None:
                others += moment.examples is not None
                other_wait_s += moment.wait_s
            elif first_s is None and moment.examples is not None:
                first_s = moment.wait_s
        phases.close(notes.ended_s)
        recorded = phases.recorded_key
        facts = notes.readers.get(recorded, ("", {})) if isinstance(recorded, int) else ("", {})
        return cls(notes, phases.recorded, first_s, others, facts, other_wait_s)

    def validation(self) -> dict[str, Any]:
        """Returns the cost of the passes over validation data between the steps; {} if there are none."""
        pauses = [each for each in self.phase.meter.pauses if each.name == "validation"]
        if not pauses:
            return {}
        taken_s, steps = sum(each.dur_s for each in pauses), self.phase.meter.steps
        whole_s = taken_s + sum(each.times * each.dur_s for each in steps)
        others = {reader for number, (reader, _) in self.notes.passes.items()} - {self._reader_number()}
        facts = [self.notes.readers[each][1] for each in others if each in self.notes.readers]
        workers = {each.get("num_workers") for each in facts}
        return {
            "count": len(pauses),
            "total_s": taken_s,
            "pct": _share(taken_s, whole_s),
            "wait_pct": _share(min(self.other_wait_s, taken_s), taken_s),
            "num_workers": workers.pop() if len(workers) == 1 else None,
            "is_iterable": any(each.get("is_iterable") for each in facts),
        }

    def _reader_number(self) -> int | None:
        return next((number for number, each in self.notes.readers.items() if each == self.reader), None)


def ranks_in(folder: Path) -> list[WatchedRank]:
    """Returns the processes that read data, by rank. Of several with one rank, the one with the most steps is the rank;
    the others are omitted, as a process is that only inspected the data."""
    found: dict[tuple[int, int], WatchedRank] = {}
    for path in sorted(folder.glob(NOTES)):
        each = WatchedRank.of(ProcessNotes.read(path))
        key = (each.notes.size, each.notes.rank)
        if each.notes.rows and (key not in found or each.phase.steps > found[key].phase.steps):
            found[key] = each
    largest = max((size for size, _ in found), default=1)
    trained = any(each.phase.steps for (size, _), each in found.items() if size == largest)
    kept = {key: each for key, each in found.items() if key[0] == largest or not trained}
    return [kept[key] for key in sorted(kept)]


def where_time_goes(folder: Path, pids: Sequence[int]) -> tuple[list[dict[str, Any]], str]:
    """Returns the share of each function in the samples of stacks, the largest first, and the processes sampled:
    `worker`, or `main` if these processes prepare their data themselves; `core` if the compiled core does, with the
    parts of a pipeline in place of functions. `idle_pct` is the share of a function's time without use of a CPU,
    None if unknown. pids: of the ranks."""
    counts: dict[str, Counter[str]] = {"core": Counter(), "worker": Counter(), "main": Counter()}
    timed, waited = Counter[str](), Counter[str]()
    for path in folder.glob(STACKS):
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            if content["pid"] in pids or content["parent"] in pids:
                counts[content["role"]].update(content["counts"])
                timed.update(content["timed"])
                waited.update(content["waited"])
        except (OSError, ValueError, KeyError, TypeError):
            continue
    role = next((role for role, found in counts.items() if found), "main")
    total = sum(counts[role].values())
    ranked = counts[role].most_common(LABELS)
    return [
        {
            "what": what,
            "pct": round(100.0 * count / total, 1),
            "samples": count,
            "idle_pct": _share(waited[what], timed[what]) if timed[what] >= LEAST_TIMED else None,
        }
        for what, count in ranked
    ], role


def _share(part: float, whole: float) -> float | None:
    return round(100.0 * part / whole, 1) if whole else None


def summarize(folder: Path, ranks: Sequence[WatchedRank], **more: Any) -> RunSummary:
    """Returns the summary of the run of these ranks. more: other fields of the summary."""
    hidden = sum(len(each.notes.hidden_passes()) for each in ranks)
    watched = {
        "other_batches": sum(each.other_batches for each in ranks),
        "hidden_passes": hidden,
        "is_cut": any(each.notes.is_full for each in ranks),
        **more.pop("watched", {}),
    }
    if not any(each.phase.steps for each in ranks):
        has_read = any(each.other_batches for each in ranks)
        return RunSummary(machine=machine(), versions=versions(), has_read=has_read, steps=0, watched=watched, **more)
    trained = [each for each in ranks if each.phase.steps]
    first, size = trained[0], len(trained)
    where, role = where_time_goes(folder, [each.notes.pid for each in trained])
    name, facts = first.reader
    meters = [each.phase.meter for each in trained]
    shares = [meter.wait_pct() or 0.0 for meter in meters]
    by_rank = [
        {"rank": each.notes.rank, "steps": each.phase.steps, "step_ms": spread.median, "wait_pct": share}
        for each, share in zip(trained, shares, strict=True)
        if (spread := each.phase.meter.step_ms())
    ]
    hosts = list(dict.fromkeys(each.notes.host for each in trained))
    job = JobContext("watch", "local" if size == 1 else "homogeneous", size=size)
    watched |= {"reader": name, "settings": dict(facts), "where": where, "where_role": role}
    watched["validation"] = first.validation()
    found = meters[0].summary(
        job,
        **{"name": "", "batch_size": first.phase.batch_size, "epochs": first.phase.epochs, **more},
        machine=machine(),
        versions=versions(),
        cluster={"script": {"hosts": hosts, "role": "dnn", "ranks_per_host": size // len(hosts)}},
        wait_pct=sum(shares) / size,
        examples_per_s=sum(meter.examples_per_s() or 0.0 for meter in meters),
        by_rank=by_rank,
        first_batch_s=first.first_batch_s,
        has_read=True,
        watched=watched,
    )
    return replace(found, job_id="")


def timeline(ranks: Sequence[WatchedRank], usage: Sequence[UsageSample]) -> Timeline:
    """Returns the timeline of the ranks, and of what their processes used."""
    entries: list[Any] = list(usage)
    for each in ranks:
        notes, meter = each.notes, each.phase.meter
        for entry in (*meter.steps, *meter.pauses):
            entries.append(replace(entry, at_s=entry.at_s + notes.ahead_s, rank=notes.rank, host=notes.host))
    return Timeline.of(entries)


def write(run: RunFolder, notes: Path, usage: Sequence[UsageSample] = (), **more: Any) -> RunSummary:
    """Writes summary and timeline of a run from the notes in a folder; returns the summary. Raises OSError."""
    ranks = ranks_in(notes)
    summary = summarize(notes, ranks, **more)
    run.write_summary(summary)
    if (notes / ERRORS).is_file():
        shutil.copy(notes / ERRORS, run.log_path("watch"))
    found = timeline(ranks, usage)
    if not found.is_empty:
        found.write(run.timeline_path)
    return summary
