"""Measurements: figures, records of benchmarks, and the folder that a run leaves.

    >>> from tfhet.record import Figure, Record
    >>> cost = Figure.of([12.1, 11.9, 12.4, 12.0, 12.2], unit="us")
    >>> round(cost.value, 1), round(cost.low, 1), round(cost.high, 1), cost.n
    (12.1, 11.9, 12.4, 5)
    >>> Record.of("blur", {"blur.us": cost}).write("results/blur.json")
    PosixPath('results/blur.json')

A run's folder holds its summary, events, logs and timeline: `RunFolder("runs/a").read_summary().wait_pct`.
"""

from tfhet.record.entry import ClockOffset, Entry, HostUsage, TimelineFile, UsageSample
from tfhet.record.figure import Figure, Interval, Spread, View
from tfhet.record.folder import RUNS, TIMELINE_FOLDER, EventTail, LineTail, RunFolder, latest_in, runs_in
from tfhet.record.json_file import json_value, read_json, write_json, write_text
from tfhet.record.live import LiveRank, LiveRun
from tfhet.record.record import Record, machine, usable_cores
from tfhet.record.run import STOP_CODES, RunSummary, Visits
from tfhet.record.statistics import median, percentile
from tfhet.record.step_time import WARM_UP_STEPS, Pause, StepTime, measured_steps, share_pct, wait_pct
from tfhet.record.timeline import Timeline, natural
from tfhet.record.waiting import Waiting, WaitPart
from tfhet.versions import versions

# fmt: off
__all__ = [
    "RUNS", "STOP_CODES", "TIMELINE_FOLDER", "WARM_UP_STEPS", "ClockOffset", "Entry", "EventTail", "Figure",
    "HostUsage", "Interval", "LineTail", "LiveRank", "LiveRun", "Pause", "Record", "RunFolder", "RunSummary",
    "Spread", "StepTime", "Timeline", "TimelineFile", "UsageSample", "View", "Visits", "WaitPart", "Waiting",
    "json_value", "latest_in", "machine", "measured_steps", "median", "natural", "percentile", "read_json", "runs_in",
    "share_pct", "usable_cores", "versions", "wait_pct", "write_json", "write_text",
]
