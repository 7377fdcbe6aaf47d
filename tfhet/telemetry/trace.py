"""A timeline as a Chrome trace (Trace Event Format, JSON object form), which Perfetto and chrome://tracing open.

Each host is a process of the trace and each rank a thread of it. Usage samples become counters, and events become marks
across all processes. Times are microseconds since the first entry.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tfhet.record import Pause, StepTime, Timeline, UsageSample, json_value, write_text
from tfhet.units import MIB

JOB = 0
"""Process number of the marks. Hosts are 1, 2, ... in the order of their names; rank r is thread r + 1."""
TraceEvent = dict[str, Any]


def chrome_trace(timeline: Timeline, events: Iterable[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """The trace as JSON values. events: as `RunFolder.events` returns them."""
    marks = [event for event in events if _is_time(event.get("time_s"))]
    times_s = [event["time_s"] for event in marks] + ([] if timeline.is_empty else [timeline.began_s])
    began_s = min(times_s, default=0.0)
    processes = {host: number for number, host in enumerate(timeline.hosts, start=1)}
    made = [_named("process_name", JOB, 0, "the job")]
    for host, process in processes.items():
        made.append(_named("process_name", process, 0, host))
        made.append({**_named("process_sort_index", process, 0, ""), "args": {"sort_index": process}})
    threads: dict[tuple[str, int], list[StepTime | Pause]] = defaultdict(list)
    every: list[StepTime | Pause] = [*timeline.steps, *timeline.pauses]
    for each in sorted(every, key=lambda each: each.at_s):
        threads[each.host, each.rank].append(each)
    for (host, rank), on_thread in sorted(threads.items(), key=lambda item: item[0]):
        made.append(_named("thread_name", processes[host], rank + 1, f"rank {rank}"))
        made += _thread(on_thread, processes[host], rank + 1, began_s)
    for use in timeline.usage:
        made += _counters(use, processes[use.host], began_s)
    made += [_mark(event, began_s) for event in marks]
    return {"traceEvents": made, "displayTimeUnit": "ms"}


def write_chrome_trace(timeline: Timeline, events: Iterable[Mapping[str, Any]], path: Path) -> Path:
    """Writes the trace to `path`, whole or not at all; makes the folder."""
    return write_text(path, json.dumps(json_value(chrome_trace(timeline, events)), separators=(",", ":")) + "\n")


def _named(what: str, process: int, thread: int, name: str) -> TraceEvent:
    return {"ph": "M", "name": what, "pid": process, "tid": thread, "args": {"name": name}}


def _thread(on_thread: list[StepTime | Pause], process: int, thread: int, began_s: float) -> Iterator[TraceEvent]:
    """Steps, and in them their components in the order of a step: all computing before the allreduce."""
    starts = [_ns(each.at_s, began_s) for each in on_thread]
    ends = [start + round(each.dur_s * 1e9) for start, each in zip(starts, on_thread, strict=True)]
    limits = [*starts[1:], ends[-1] if ends else 0]
    for each, start, end, limit in zip(on_thread, starts, ends, limits, strict=True):
        end = max(start, min(end, limit))
        if isinstance(each, Pause):
            yield _slice(each.name, start, end, process, thread, {})
            continue
        yield _slice("step", start, end, process, thread, {"step": each.step, "epoch": each.epoch})
        components = {"wait for data": each.wait_s, "copy": each.copy_s, "compute": each.compute_s}
        for name, seconds in {**components, "allreduce": each.allreduce_s or 0.0}.items():
            ended = min(end, start + round(seconds * 1e9))
            if ended > start:
                yield _slice(name, start, ended, process, thread, {})
            start = ended


def _slice(name: str, start: int, end: int, process: int, thread: int, args: Mapping[str, Any]) -> TraceEvent:
    """start, end: nanoseconds."""
    times = {"ts": start / 1000, "dur": (end - start) / 1000}
    return {"ph": "X", "name": name, "cat": "rank", **times, "pid": process, "tid": thread, "args": dict(args)}


def _counters(use: UsageSample, process: int, began_s: float) -> Iterator[TraceEvent]:
    at = {"ts": _ns(use.at_s, began_s) / 1000, "pid": process, "tid": 0}

    def counter(name: str, **series: float) -> TraceEvent:
        return {"ph": "C", "name": name, **at, "args": series}

    for name, cpus in use.processes.items():
        of = f" of {use.member}" if name == "launcher" else ""
        yield counter(f"CPUs of {name}{of}", cpus=cpus)
    if host := use.machine:
        yield counter(f"CPUs of the {host.counted}", cpus=host.cpus)
        yield counter("memory (MiB)", used=host.memory_bytes / MIB)
        yield counter("network (MiB/s)", received=host.received_bytes_per_s / MIB, sent=host.sent_bytes_per_s / MIB)
        for number, busy_pct in enumerate(host.gpus_busy_pct):
            yield counter(f"GPU {number} busy (%)", busy=busy_pct)
        for number, held_bytes in enumerate(host.gpus_memory_bytes):
            yield counter(f"GPU {number} memory (MiB)", used=held_bytes / MIB)


def _mark(event: Mapping[str, Any], began_s: float) -> TraceEvent:
    details = {key: value for key, value in event.items() if key not in ("event", "time_s")}
    at = {"ts": _ns(event["time_s"], began_s) / 1000, "pid": JOB, "tid": 0}
    return {"ph": "i", "name": str(event.get("event")), "s": "g", **at, "args": details}


def _ns(at_s: float, began_s: float) -> int:
    return max(0, round((at_s - began_s) * 1e9))


def _is_time(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1e12
