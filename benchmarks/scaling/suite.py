"""`benchmarks.scaling`: the time of a step over the number of data hosts, against what the CPUs allow at best.

The accelerator takes no time, so every point waits for its input. Every host has the same share of a CPU, and a worker
runs on the dnn hosts too: one, or two whose ranks meet in every step. At best a step takes as long as all CPUs together
need for what its batches cost, the pipeline alone and the wire alone, or as a dnn host needs for what no other can do.
The parts are measured in processes without a quota, right before and right after each run: a virtual machine becomes
faster and slower within minutes. In each round they are measured under a host's quota, too: what a step takes over that
is the job's, the rest the quotas'.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import chosen
from benchmarks.charts.panels import Panel, plot_panels
from benchmarks.charts.plot import drawn
from benchmarks.cluster_runs import job_data
from benchmarks.cluster_runs.cold_loads import Calm
from benchmarks.cluster_runs.idle_loops import idle_loops
from benchmarks.cluster_runs.limited_child import LimitedChild
from benchmarks.cluster_runs.load import LOADS, Course, Ideal, ScalingLoad
from benchmarks.cluster_runs.observed_job import new_place
from benchmarks.cluster_runs.point import LINES, Point, measured
from benchmarks.cluster_runs.stopped import Stopped
from benchmarks.scaling.alone import PARTS, Alone
from tfhet.bench.harness import report
from tfhet.bench.suite import JOB, Suite
from tfhet.container import Limits, kernel
from tfhet.errors import JobFailed, UsageError
from tfhet.events import Observer
from tfhet.record import Figure, Record, median
from tfhet.report import numbers, table
from tfhet.report.tables import text

WORST = "scaling.worst_over_ideal"
TARGET = 1.05
"""Times the ideal that a step may take."""
AGAINST = "the CPU of the pipeline alone and the wire alone over all CPUs, or of the dnn host's part over its own"
AGAINST_QUOTA = "the same, measured with a host's quota"
ALONE_LIMIT_S = 300.0
RUN_LIMIT_S = 240.0
LINES_DRAWN = {
    "ideal": "ideal_s",
    "ideal without the wire": "ideal_without_wire_s",
    "ideal with quotas": "ideal_with_quota_s",
}


@dataclass(frozen=True)
class Pair:
    """A run, and what was ideal at that time."""

    point: Point
    ideal: Ideal
    with_quota: Ideal
    """From parts that were measured with a host's quota, at the beginning of the round."""

    @property
    def ideal_s(self) -> float:
        return self.ideal.at(self.point.data_hosts)

    @property
    def over_ideal(self) -> float:
        """The run's step over the ideal one."""
        return self.point.step_s / self.ideal_s

    @property
    def over_quota(self) -> float:
        """The run's step over what parts that have a quota, too, allow."""
        return self.point.step_s / self.with_quota.at(self.point.data_hosts)

    @property
    def over_without_wire(self) -> float:
        """The same, if batches moved by themselves."""
        return self.point.step_s / self.ideal.without_wire_at(self.point.data_hosts)


@dataclass
class Taken:
    """All of one load."""

    load: ScalingLoad
    alone: list[Alone]
    """Without a quota, in order of time: one before the first run, and one after each."""
    pairs: list[Pair] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    """Why runs failed that were made again."""
    throttled: list[Alone] = field(default_factory=list)
    """The parts with a host's quota, one for each round: a process that stands still again and again finds its caches
    cold, and what it needs again has left those that others share."""
    beside: Alone | None = None
    """The same while another process does it on the same CPU, as hosts do of which there are more than CPUs. What both
    cost is this machine's, and in no ideal."""

    def at(self, data_hosts: int) -> list[Pair]:
        """The measurements with this number of data hosts."""
        return [pair for pair in self.pairs if pair.point.data_hosts == data_hosts]

    @property
    def data_hosts(self) -> list[int]:
        """All that was measured."""
        return sorted({pair.point.data_hosts for pair in self.pairs})


def _options(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(repeats=5, warmup=0)
    known = ",".join(load.key for load in LOADS)
    parser.add_argument("--loads", default=known, metavar="NAMES", help="default %(default)s")
    parser.add_argument("--points", default="0,1,2,4,7,10", metavar="NUMBERS", help="data hosts (default %(default)s)")
    parser.add_argument("--cpus", type=float, default=0.15, metavar="X", help="of each host (default %(default)s)")
    parser.add_argument(
        "--seconds", type=float, default=12.0, metavar="N", help="measured in a run, about (default %(default)s)"
    )
    parser.add_argument("--keep", action="store_true", help="keep the folders of the runs, and say where")


def _run(options: argparse.Namespace, observer: Observer, command: Sequence[str]) -> Record:
    loads, points = chosen("--loads", options.loads, {load.key: load for load in LOADS}), _points(options.points)
    if not (options.cpus > 0 and options.seconds > 0):
        raise UsageError("--cpus and --seconds: give more than 0")
    kernel.require("namespace")
    taken: list[Taken] = []
    calm = Calm()
    with new_place("scaling", keep=options.keep) as place, idle_loops():
        for load in loads:
            channel = place / f"{load.key}-data"
            _write(load, channel, points, options)
            words = [str(channel), "--chain", load.chain, "--form", load.form, "--batch_size", str(load.batch_size)]
            with LimitedChild.started("benchmarks.scaling.alone", *words) as child:
                one = _measured(load, points, channel, child, calm, options, observer)
                with LimitedChild.started("benchmarks.scaling.alone", *words) as other:
                    one.beside = _beside(child, other, options)
                taken.append(one)
    details = {
        "cpus_per_host": options.cpus,
        "waited_s": calm.waited_s,
        "loads": {one.load.key: _load_json(one) for one in taken},
        "rows": [row for one in taken for row in rows(one)],
        "over_ideal": points_of(taken),
        "runs": str(place) if options.keep else None,
    }
    return Record.of("scaling", figures_of(taken), details=details, command=command)


def _measured(
    load: ScalingLoad,
    points: Sequence[int],
    channel: Path,
    child: LimitedChild,
    calm: Calm,
    options: argparse.Namespace,
    observer: Observer,
) -> Taken:
    """All points of a load, in rounds, each of which begins at another point, between measurements of its parts alone.
    Raises JobFailed."""
    taken = Taken(load, [Alone.of(child.ask({}, ALONE_LIMIT_S))])
    _tell_alone(observer, taken, options)
    rounds = options.warmup + options.repeats
    for index in range(rounds):
        throttled = Alone.of(child.ask({}, ALONE_LIMIT_S, _of_a_host(options)))
        taken.throttled.append(throttled)
        before = Alone.of(child.ask({}, ALONE_LIMIT_S))
        taken.alone.append(before)
        first = index % len(points)
        for data_hosts in (*points[first:], *points[:first]):
            if calm.wait():  # what was measured before is of another time
                before = Alone.of(child.ask({}, ALONE_LIMIT_S))
                taken.alone.append(before)
            folder = channel.with_name(f"{load.key}-{data_hosts}-{index}")
            point = _point(taken, before.ideal(options.cpus, load.ranks), data_hosts, channel, folder, options)
            after = Alone.of(child.ask({}, ALONE_LIMIT_S))
            taken.alone.append(after)
            ideal = before.and_again(after).ideal(options.cpus, load.ranks)
            pair = Pair(point, ideal, throttled.ideal(options.cpus, load.ranks))
            before = after
            if index >= options.warmup:
                taken.pairs.append(pair)
            _tell(observer, taken, pair, index, rounds)
            if not options.keep:
                shutil.rmtree(folder, ignore_errors=True)
    return taken


def _of_a_host(options: argparse.Namespace) -> Limits:
    return Limits(options.cpus, cpu_set=(min(os.sched_getaffinity(0)),))


def _beside(child: LimitedChild, other: LimitedChild, options: argparse.Namespace) -> Alone:
    other.ask({}, ALONE_LIMIT_S)  # the first time is compiled meanwhile
    with ThreadPoolExecutor(2) as both:
        asked = [both.submit(one.ask, {}, ALONE_LIMIT_S, _of_a_host(options)) for one in (child, other)]
        first, second = (Alone.of(one.result()) for one in asked)
    return first.and_again(second)


def _points(text: str) -> list[int]:
    try:
        found = [int(word) for word in text.split(",")]
    except ValueError:
        found = [-1]
    if not all(0 <= number <= 99 for number in found):
        raise UsageError(f"--points {text!r}: give numbers of data hosts, like 0,3,6")
    return list(dict.fromkeys(found))


def _write(load: ScalingLoad, channel: Path, points: Sequence[int], options: argparse.Namespace) -> None:
    """The load's data. Raises TfhetError."""
    most = max(Course.of(point + load.ranks, 1e-9, options.seconds, LINES).steps for point in points)
    # What workers have taken, and no one asks for any more, has to be there too.
    batches = load.ranks * most + 8 * (max(points) + load.ranks)
    job_data.write_apart(channel, load.chain, load.batch_size, batches)


def _point(
    taken: Taken, ideal: Ideal, data_hosts: int, channel: Path, folder: Path, options: argparse.Namespace
) -> Point:
    """One run, or a second one where the first fails, which the record tells. Raises JobFailed."""
    what = (taken.load, ideal, data_hosts, channel)
    try:
        return measured(*what, folder, options.seconds, RUN_LIMIT_S)
    except Stopped:
        raise
    except JobFailed as failure:
        taken.failed.append(str(failure))
        return measured(*what, folder.with_name(f"{folder.name}-again"), options.seconds, RUN_LIMIT_S)


def figures_of(taken: Sequence[Taken]) -> Mapping[str, Figure]:
    """The flat table: the worst point, all points, and what a batch costs apart."""
    points = {
        point_figure(one, data_hosts): Figure.of(
            [pair.over_ideal for pair in one.at(data_hosts)], unit="x", against=AGAINST
        )
        for one in taken
        for data_hosts in one.data_hosts
    }
    figures = {WORST: max(points.values(), key=lambda figure: figure.value), **points}
    for one in taken:
        for data_hosts in one.data_hosts:
            samples = [pair.over_without_wire for pair in one.at(data_hosts)]
            name = f"scaling.{one.load.key}.without_wire_{data_hosts}"
            figures[name] = Figure.of(samples, unit="x", against="the CPU of the pipeline alone over all CPUs")
            samples = [pair.over_quota for pair in one.at(data_hosts)]
            name = f"scaling.{one.load.key}.vs_quota_{data_hosts}"
            figures[name] = Figure.of(samples, unit="x", against=AGAINST_QUOTA)
        for part in PARTS:
            samples = [1e3 * value for alone in one.alone for value in getattr(alone, part)]
            figures[f"scaling.{one.load.key}.{part[:-1]}ms"] = Figure.of(samples, unit="ms")
        for name, others in (("throttled", one.throttled), ("beside", [one.beside] if one.beside else [])):
            if samples := [1e3 * value for other in others for value in other.stages_s]:
                figures[f"scaling.{one.load.key}.stages_{name}_ms"] = Figure.of(samples, unit="ms")
    return figures


def point_figure(taken: Taken, data_hosts: int) -> str:
    """The name of a point's figure."""
    return f"scaling.{taken.load.key}.data_hosts_{data_hosts}"


def points_of(taken: Sequence[Taken]) -> list[dict[str, object]]:
    """The load and the number of data hosts of each point's figure, for `tfhet plan`."""
    return [
        {"load": one.load.key, "data_hosts": data_hosts, "figure": point_figure(one, data_hosts)}
        for one in taken
        for data_hosts in one.data_hosts
    ]


def rows(taken: Taken) -> list[dict[str, object]]:
    """The printed table. `dnn host`: what a trainer's own CPU time takes there, which no data host can take over: no
    step is shorter. The last columns: CPU time that is not the pipeline's or the wire's, or that was not used, as
    a percentage of what a batch costs apart; where the dnn host is the bound, some has to be left."""
    found = []
    for data_hosts in taken.data_hosts:
        pairs = taken.at(data_hosts)
        shares = [pair.point.shares(pair.ideal) for pair in pairs]
        found.append(
            {
                "load": taken.load.words,
                "data hosts": data_hosts,
                "step ms": 1e3 * median([pair.point.step_s for pair in pairs]),
                "ideal ms": 1e3 * median([pair.ideal_s for pair in pairs]),
                "x ideal": round(median([pair.over_ideal for pair in pairs]), 3),
                "x quota": round(median([pair.over_quota for pair in pairs]), 3),
                "without wire ms": 1e3 * median([pair.ideal.without_wire_at(data_hosts) for pair in pairs]),
                "dnn host ms": median(
                    [1e3 * pair.point.trainers_s / pair.ideal.ranks / pair.ideal.cpus for pair in pairs]
                ),
                "wait %": median([pair.point.wait_pct for pair in pairs]),
                **{f"{name} %": round(median([one[name] for one in shares]), 1) for name in shares[0]},
            }
        )
    return found


def _load_json(taken: Taken) -> dict[str, object]:
    return {
        "load": vars(taken.load),
        "throttled": [vars(one) for one in taken.throttled],
        "beside": None if taken.beside is None else vars(taken.beside),
        "alone": [vars(one) for one in taken.alone],
        "failed": taken.failed,
        "points": [
            {
                **pair.point.to_json(),
                "ideal_s": pair.ideal_s,
                "ideal_with_quota_s": pair.with_quota.at(pair.point.data_hosts),
                "ideal_without_wire_s": pair.ideal.without_wire_at(pair.point.data_hosts),
            }
            for pair in taken.pairs
        ],
    }


def _tell_alone(observer: Observer, taken: Taken, options: argparse.Namespace) -> None:
    ideal = taken.alone[0].ideal(options.cpus)
    stages, wire, own = (1e3 * value for value in (ideal.stages_s, ideal.wire_s, ideal.trainer_s))
    said = (
        f"{stages:.1f} ms CPU a batch of {taken.load.batch_size}, the wire {wire:.1f} ms; {own:.1f} ms of both are "
        "the dnn host's"
    )
    report(observer, f"{taken.load.words}, alone", 1, 1, [said])


def _tell(observer: Observer, taken: Taken, pair: Pair, index: int, rounds: int) -> None:
    step = numbers.number(1e3 * pair.point.step_s)
    said = f"step {step} ms, {pair.over_ideal:.3f} x ideal, {pair.over_quota:.3f} x what parts with a quota allow"
    case = f"{taken.load.words}, {pair.point.data_hosts} data hosts"
    report(observer, case, index + 1, rounds, [said])


def _notes(record: Record) -> list[str]:
    lines = text(table(record.details["rows"]), encoding=None).splitlines()
    if record.details["runs"]:
        lines.append(f"runs: {record.details['runs']}")
    for key, load in record.details["loads"].items():
        lines += [f"{key}: a run was made again: {why}" for why in load["failed"]]
    worst = record.figures[WORST]
    if worst.value > TARGET:
        over = [name for name, one in record.figures.items() if ".data_hosts_" in name and one.value > TARGET]
        lines.append(f"over {TARGET:g} x ideal: {', '.join(over)}")
    return lines


def _draw(record: Record, path: Path) -> Path:
    words = {load.key: load.words for load in LOADS}
    panels = []
    for key, load in record.details["loads"].items():
        lines: dict[str, dict[float, float]] = {name: {} for name in LINES_DRAWN}
        samples: dict[float, list[float]] = {}
        for point in load["points"]:
            at = float(point["data_hosts"])
            for name, field_name in LINES_DRAWN.items():
                lines[name][at] = 1e3 * point[field_name]
            samples.setdefault(at, []).append(statistics.fmean(point["windows_ms"]))
        points = {at: Figure.of(found, unit="ms a step") for at, found in samples.items()}
        panels.append(Panel(words.get(key, key), points, lines))
    return plot_panels(panels, path, across="data hosts")


SUITE = drawn(
    Suite(
        name="scaling",
        does="step time by number of data hosts, against what their CPUs allow at best (root)",
        measures=(*JOB, "benchmarks/scaling", "benchmarks/cluster_runs"),
        options=_options,
        run=_run,
        notes=_notes,
        is_kept=lambda record: record.figures[WORST].value <= TARGET,
    ),
    _draw,
)
