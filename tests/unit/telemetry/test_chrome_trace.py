from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

from hypothesis import given, strategies as st

from tfhet.record import HostUsage, Pause, StepTime, Timeline, UsageSample
from tfhet.telemetry import chrome_trace, write_chrome_trace

MACHINE = HostUsage(1.5, 4, "machine", 3 << 20, 2 << 20, 1 << 20, (50.0,), (5 << 20,))


def step(at_s: float, rank: int = 0, allreduce_s: float | None = 0.125) -> StepTime:
    parts = {"wait_s": 0.0625, "copy_s": 0.03125, "allreduce_s": allreduce_s}
    return StepTime(host=f"algo-{rank + 1}", rank=rank, step=1, epoch=0, at_s=at_s, dur_s=0.5, **parts)


def of(content: dict[str, Any], ph: str) -> list[dict[str, Any]]:
    return [event for event in content["traceEvents"] if event["ph"] == ph]


def check(content: dict[str, Any]) -> dict[str, Any]:
    """Checks the rules of the Trace Event Format, and that slices of a thread are in sequence or nested."""
    assert json.loads(json.dumps(content, allow_nan=False)) == content
    threads = defaultdict(list)
    for event in content["traceEvents"]:
        assert event["ph"] in "MXCi" and isinstance(event["name"], str) and isinstance(event["args"], dict)
        assert isinstance(event["pid"], int) and isinstance(event["tid"], int)
        assert event["ph"] == "M" or event["ts"] >= 0
        if event["ph"] == "X":
            assert event["dur"] >= 0
            start = round(1000 * event["ts"])
            threads[event["pid"], event["tid"]].append((start, start + round(1000 * event["dur"])))
        if event["ph"] == "C":
            assert event["args"] and all(isinstance(value, (int, float)) for value in event["args"].values())
    for slices in threads.values():
        ends: list[int] = []
        for start, end in sorted(slices, key=lambda each: (each[0], -each[1])):
            while ends and ends[-1] <= start:
                ends.pop()
            assert not ends or end <= ends[-1], "a slice ends after the slice that contains its start"
            ends.append(end)
    return content


def test_step_contains_its_parts():
    content = check(chrome_trace(Timeline.of([step(10.0), step(20.0, rank=1, allreduce_s=None)])))
    found = [(event["name"], event["ts"], event["dur"]) for event in of(content, "X")]
    assert found[:5] == [
        ("step", 0.0, 500000.0),
        ("wait for data", 0.0, 62500.0),
        ("copy", 62500.0, 31250.0),
        ("compute", 93750.0, 281250.0),
        ("allreduce", 375000.0, 125000.0),
    ]
    assert [name for name, _, _ in found[5:]] == ["step", "wait for data", "copy", "compute"]


def test_hosts_are_processes_and_ranks_threads():
    usage = UsageSample("algo-3", 11.0, 1.0, "algo-3", {"worker-0": 0.5})
    entries = [*(step(10.0, rank=rank) for rank in (0, 9, 1)), usage]
    for order in (entries, entries[::-1]):
        content = check(chrome_trace(Timeline.of(order)))

        def named(what: str, content: dict[str, Any] = content) -> dict[tuple[int, int], str]:
            return {(e["pid"], e["tid"]): e["args"]["name"] for e in of(content, "M") if e["name"] == what}

        hosts = {(0, 0): "the job", (1, 0): "algo-1", (2, 0): "algo-2", (3, 0): "algo-3", (4, 0): "algo-10"}
        assert named("process_name") == hosts
        assert named("thread_name") == {(1, 1): "rank 0", (2, 2): "rank 1", (4, 10): "rank 9"}
        assert {(e["pid"], e["tid"]) for e in of(content, "X")} == set(named("thread_name"))


def test_usage_becomes_counters_of_the_host():
    use = UsageSample("algo-1", 10.0, 1.0, "rank-0", {"launcher": 0.125, "worker-0": 0.75}, MACHINE)
    content = check(chrome_trace(Timeline.of([use])))
    assert {event["name"]: event["args"] for event in of(content, "C")} == {
        "CPUs of launcher of rank-0": {"cpus": 0.125},
        "CPUs of worker-0": {"cpus": 0.75},
        "CPUs of the machine": {"cpus": 1.5},
        "memory (MiB)": {"used": 3.0},
        "network (MiB/s)": {"received": 2.0, "sent": 1.0},
        "GPU 0 busy (%)": {"busy": 50.0},
        "GPU 0 memory (MiB)": {"used": 5.0},
    }


def test_events_become_marks_in_a_file(tmp_path):
    events = [
        {"time_s": 8.0, "event": "training.started", "value": float("nan")},
        *({"event": "odd", **time} for time in ({}, {"time_s": "now"}, {"time_s": float("nan")})),
    ]
    saved = Pause(host="algo-1", rank=0, name="checkpoint", at_s=11.0, dur_s=0.5)
    path = write_chrome_trace(Timeline.of([step(10.0), saved]), events, tmp_path / "a" / "trace.json")
    content = check(json.loads(path.read_text(), parse_constant=lambda word: 1 / 0))
    assert content["displayTimeUnit"] == "ms"
    assert [(mark["name"], mark["s"], mark["ts"]) for mark in of(content, "i")] == [("training.started", "g", 0.0)]
    slices = of(content, "X")
    assert slices[0]["ts"] == 2e6 and slices[-1]["name"] == "checkpoint"
    assert of(check(chrome_trace(Timeline())), "X") == []


short, ranks = st.floats(0, 10), st.integers(0, 2)


def entries(times: st.SearchStrategy[float]) -> st.SearchStrategy[list[StepTime | Pause]]:
    steps = st.builds(
        lambda at, dur, rank, wait, copy, reduce: StepTime(dur, wait, 8, copy, reduce, at, 1, 0, rank, f"h{rank}"),
        times, short, ranks, short, short, st.none() | short,
    )  # fmt: skip
    pauses = st.builds(
        lambda at, dur, rank: Pause(at_s=at, dur_s=dur, name="checkpoint", rank=rank, host=f"h{rank}"),
        times,
        short,
        ranks,
    )
    return st.lists(steps | pauses, max_size=12)


@given(entries(st.floats(0, 1e6)) | entries(short.map(lambda at: 1.7e9 + at)))
def test_any_timeline_is_a_valid_trace(entries):
    check(chrome_trace(Timeline.of(entries)))
