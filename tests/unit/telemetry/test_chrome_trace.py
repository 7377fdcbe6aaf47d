from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

from hypothesis import given, strategies as st

from tfhet.record import HostUsage, Pause, StepTime, Timeline, UsageSample
from tfhet.telemetry import chrome_trace, write_chrome_trace

MACHINE = HostUsage(1.5, 4, "machine", 3 << 20, 2 << 20, 1 << 20, (50.0,), (5 << 20,))


def step(
    at_s: float, dur_s: float = 0.5, rank: int = 0, number: int = 1, allreduce_s: float | None = 0.125
) -> StepTime:
    return StepTime(
        host=f"algo-{rank + 1}",
        rank=rank,
        step=number,
        epoch=0,
        at_s=at_s,
        dur_s=dur_s,
        wait_s=0.0625,
        copy_s=0.03125,
        allreduce_s=allreduce_s,
    )


def of(events: list[dict[str, Any]], ph: str) -> list[dict[str, Any]]:
    return [event for event in events if event["ph"] == ph]


def assert_is_trace(content: dict[str, Any]) -> None:
    """Asserts what the Trace Event Format asks for; and slices of one thread lie beside or within each other."""
    assert json.loads(json.dumps(content, allow_nan=False)) == content
    threads = defaultdict(list)
    for event in content["traceEvents"]:
        assert event["ph"] in "MXCi" and isinstance(event["name"], str)
        assert isinstance(event["pid"], int) and isinstance(event["tid"], int)
        assert isinstance(event["args"], dict)
        if event["ph"] != "M":
            assert event["ts"] >= 0
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
            assert not ends or end <= ends[-1], "a slice reaches out of the one that it begins in"
            ends.append(end)


def test_a_step_holds_its_parts_one_behind_the_other():
    content = chrome_trace(Timeline.of([step(10.0)]))
    assert_is_trace(content)
    found = [(event["name"], event["ts"], event["dur"]) for event in of(content["traceEvents"], "X")]
    assert found == [
        ("step", 0.0, 500000.0),
        ("wait for data", 0.0, 62500.0),
        ("copy", 62500.0, 31250.0),
        ("compute", 93750.0, 281250.0),
        ("allreduce", 375000.0, 125000.0),
    ]


def test_an_allreduce_that_was_not_told_apart_is_no_slice():
    names = [
        event["name"] for event in of(chrome_trace(Timeline.of([step(1.0, allreduce_s=None)]))["traceEvents"], "X")
    ]
    assert names == ["step", "wait for data", "copy", "compute"]


def test_hosts_are_processes_and_ranks_threads_and_stay_so_whoever_wrote_first():
    entries = [step(10.0, rank=rank) for rank in (0, 9, 1)] + [
        UsageSample("algo-3", 11.0, 1.0, "algo-3", {"worker-0": 0.5})
    ]
    contents = [chrome_trace(Timeline.of(found)) for found in (entries, entries[::-1])]
    for content in contents:
        assert_is_trace(content)
        named = {
            (e["pid"], e["tid"]): e["args"]["name"]
            for e in of(content["traceEvents"], "M")
            if e["name"] == "process_name"
        }
        assert named == {(0, 0): "the job", (1, 0): "algo-1", (2, 0): "algo-2", (3, 0): "algo-3", (4, 0): "algo-10"}
        threads = {
            (e["pid"], e["tid"]): e["args"]["name"] for e in content["traceEvents"] if e["name"] == "thread_name"
        }
        assert threads == {(1, 1): "rank 0", (2, 2): "rank 1", (4, 10): "rank 9"}
        assert {(e["pid"], e["tid"]) for e in of(content["traceEvents"], "X")} == set(threads)


def test_what_is_used_is_counted_on_the_host():
    use = UsageSample("algo-1", 10.0, 1.0, "rank-0", {"launcher": 0.125, "worker-0": 0.75}, MACHINE)
    content = chrome_trace(Timeline.of([use]))
    assert_is_trace(content)
    found = {event["name"]: event["args"] for event in of(content["traceEvents"], "C")}
    assert found == {
        "CPUs of launcher of rank-0": {"cpus": 0.125},
        "CPUs of worker-0": {"cpus": 0.75},
        "CPUs of the machine": {"cpus": 1.5},
        "memory (MiB)": {"used": 3.0},
        "network (MiB/s)": {"received": 2.0, "sent": 1.0},
        "GPU 0 busy (%)": {"busy": 50.0},
        "GPU 0 memory (MiB)": {"used": 5.0},
    }


def test_what_happened_is_marked_across_all_and_what_has_no_time_is_left_out():
    events = [
        {"time_s": 8.0, "event": "training.started", "job_id": "j"},
        {"event": "odd"},
        {"time_s": "now", "event": "odd"},
        {"time_s": float("nan"), "event": "odd"},
    ]
    content = chrome_trace(Timeline.of([step(10.0)]), events)
    assert_is_trace(content)
    (mark,) = of(content["traceEvents"], "i")
    assert (mark["name"], mark["s"], mark["ts"], mark["args"]) == ("training.started", "g", 0.0, {"job_id": "j"})
    assert of(content["traceEvents"], "X")[0]["ts"] == 2e6


times = st.floats(0, 1e6)
short = st.floats(0, 10)
ranks = st.integers(0, 2)
steps = st.builds(
    lambda at, dur, rank, wait, copy, reduce: StepTime(dur, wait, 8, copy, reduce, at, 1, 0, rank, f"h{rank}"),
    times, short, ranks, short, short, st.none() | short,
)  # fmt: skip
spans = st.builds(
    lambda at, dur, rank: Pause(host=f"h{rank}", rank=rank, name="checkpoint", at_s=at, dur_s=dur), times, short, ranks
)
near = st.builds(
    lambda at, dur: StepTime(
        host="h0", rank=0, step=1, epoch=0, at_s=1.7e9 + at, dur_s=dur, wait_s=dur / 3, copy_s=dur / 7, allreduce_s=dur
    ),
    short,
    short,
)


@given(st.lists(steps | spans, max_size=12) | st.lists(near, max_size=12))
def test_whatever_ranks_noted_makes_a_trace_whose_slices_nest(entries):
    assert_is_trace(chrome_trace(Timeline.of(entries)))


def test_nothing_makes_an_empty_trace():
    content = chrome_trace(Timeline())
    assert_is_trace(content)
    assert not of(content["traceEvents"], "X")


def test_the_file_holds_the_trace(tmp_path):
    timeline = Timeline.of([step(10.0), Pause(host="algo-1", rank=0, name="checkpoint", at_s=11.0, dur_s=0.5)])
    path = write_chrome_trace(
        timeline, [{"time_s": 9.0, "event": "odd", "value": float("nan")}], tmp_path / "a" / "trace.json"
    )
    content = json.loads(path.read_text(), parse_constant=lambda word: 1 / 0)
    assert_is_trace(content)
    assert content["displayTimeUnit"] == "ms"
    assert [event["name"] for event in of(content["traceEvents"], "X")][-1] == "checkpoint"
