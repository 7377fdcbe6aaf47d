"""`tfhet bench scaling`: the time of a step over the number of data hosts, against what the CPUs allow at best.

The accelerator is emulated, every host has the same share of a CPU, and a worker runs on the dnn host too. At best a
step takes as long as the accelerator, or as all CPUs together need for what a batch costs: the pipeline alone, measured
in one process, and the wire alone, measured with batches that lie in memory, both in the same run of the suite.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tfhet.bench import channel as channels
from tfhet.bench import throttled
from tfhet.bench.scaling_alone import MARK, Alone
from tfhet.bench.scaling_load import LOADS, Course, Ideal, ScalingLoad
from tfhet.bench.scaling_point import Point, cluster_of, measured
from tfhet.bench.suite import Suite, chosen
from tfhet.bench.watched import new_place
from tfhet.clock import SYSTEM
from tfhet.container import kernel
from tfhet.errors import JobFailed, UsageError
from tfhet.events import Event, Observer
from tfhet.record import Figure, Record, median
from tfhet.report import numbers, table
from tfhet.report.panels import Panel, plot_panels
from tfhet.report.table import text
from tfhet.simulate.scale import limits_of

WORST = "scaling.worst_over_ideal"
TARGET = 1.05
"""Times the ideal that a step may take."""
INPUT_BOUND_HOSTS = 4.5
"""So many hosts, the dnn host among them, can just feed the emulated accelerator: with 3 data hosts the input is what
a step waits for, with 4 it is not."""
AGAINST = "the accelerator, or the CPU of the pipeline alone and the wire alone over all CPUs"
ALONE_LIMIT_S = 180.0
RUN_LIMIT_S = 240.0


@dataclass
class Taken:
    """All of one load."""

    load: ScalingLoad
    alone: Alone
    ideal: Ideal
    points: dict[int, list[Point]] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)
    """Why runs failed that were made again."""

    def over_ideal(self, data_hosts: int) -> list[float]:
        """Each window's step over the ideal one."""
        ideal_ms = 1e3 * self.ideal.at(data_hosts)
        return [window / ideal_ms for point in self.points[data_hosts] for window in point.windows_ms]


def _options(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(repeats=1, warmup=0)
    known = ",".join(load.key for load in LOADS)
    parser.add_argument("--loads", default=known, metavar="NAMES", help="default %(default)s")
    parser.add_argument("--points", default="0,1,2,3,4,5,6", metavar="NUMBERS", help="data hosts (default %(default)s)")
    parser.add_argument("--cpus", type=float, default=0.2, metavar="X", help="of each host (default %(default)s)")
    parser.add_argument(
        "--seconds", type=float, default=12.0, metavar="N", help="measured at a point, about (default %(default)s)"
    )
    parser.add_argument(
        "--alone",
        choices=("host", "free"),
        default="free",
        help="whether the parts alone are measured with the CPU of a host, or all of the machine (default %(default)s)",
    )
    parser.add_argument("--keep", action="store_true", help="keep the folders of the runs, and say where")


def _run(options: argparse.Namespace, observer: Observer, command: Sequence[str]) -> Record:
    loads, points = chosen("--loads", options.loads, {load.key: load for load in LOADS}), _points(options.points)
    if not (options.cpus > 0 and options.seconds > 0):
        raise UsageError("--cpus and --seconds: give more than 0")
    kernel.require("namespace")
    taken: list[Taken] = []
    with new_place("scaling", keep=options.keep) as place:
        for load in loads:
            channel = place / f"{load.key}-data"
            _write(load, channel, points, options)
            alone = _alone(load, channel, options)
            taken.append(
                Taken(load, alone, Ideal.bound_by_input_until(*_medians(alone), options.cpus, INPUT_BOUND_HOSTS))
            )
            _tell_alone(observer, taken[-1])
        for index in range(options.warmup + options.repeats):
            for data_hosts in points:
                for one in taken:
                    folder = place / f"{one.load.key}-{data_hosts}-{index}"
                    point = _point(one, data_hosts, place / f"{one.load.key}-data", folder, options)
                    if index >= options.warmup:
                        one.points.setdefault(data_hosts, []).append(point)
                    _tell(observer, one, point, index, options.warmup + options.repeats)
                    if not options.keep:
                        shutil.rmtree(folder, ignore_errors=True)
        for one in taken:  # the machine may have become slower or faster meanwhile
            one.alone = one.alone.and_again(_alone(one.load, place / f"{one.load.key}-data", options))
            one.ideal = one.ideal.corrected(*_medians(one.alone))
            _tell_alone(observer, one)
    details = {
        "cpus_per_host": options.cpus,
        "alone_with": "the CPU of a host" if options.alone == "host" else "all CPUs of the machine",
        "input_bound_hosts": INPUT_BOUND_HOSTS,
        "loads": {one.load.key: _load_json(one) for one in taken},
        "rows": [row for one in taken for row in rows(one)],
        "runs": str(place) if options.keep else None,
    }
    return Record.of("scaling", figures_of(taken), details=details, command=command)


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
    most = max(Course.of(point + 1, 1e-9, options.seconds).steps for point in points)
    # What workers have taken, and nobody asks for any more, has to be there too.
    batches = most + 8 * (max(points) + 1)
    channels.write_apart(channel, load.chain, load.batch_size, batches)


def _alone(load: ScalingLoad, channel: Path, options: argparse.Namespace) -> Alone:
    """Measures the load's parts. Raises TfhetError."""
    words = [str(channel), "--chain", load.chain, "--form", load.form, "--batch_size", str(load.batch_size)]
    (of_a_host,) = limits_of(cluster_of(0, options.cpus, channel), {"alone": "dnn_group"})[0].values()
    limits = of_a_host if options.alone == "host" else None
    said = throttled.run("scaling_alone", *words, limits=limits, limit_s=ALONE_LIMIT_S)
    return Alone.from_line(next((line for line in said if line.startswith(MARK)), ""))


def _point(taken: Taken, data_hosts: int, channel: Path, folder: Path, options: argparse.Namespace) -> Point:
    """One run, or a second one where the first fails, which the record tells. Raises JobFailed."""
    what = (taken.load, taken.ideal, data_hosts, channel)
    try:
        return measured(*what, folder, options.seconds, RUN_LIMIT_S)
    except JobFailed as failure:
        taken.failed.append(str(failure))
        return measured(*what, folder.with_name(f"{folder.name}-again"), options.seconds, RUN_LIMIT_S)


def _medians(alone: Alone) -> tuple[float, float, float]:
    return median(alone.stages_s), median(alone.wire_s), median(alone.reader_s)


def figures_of(taken: Sequence[Taken]) -> Mapping[str, Figure]:
    """The flat table: the worst point, all points, and what a batch costs apart."""
    points = {
        f"scaling.{one.load.key}.data_hosts_{data_hosts}": Figure.of(
            one.over_ideal(data_hosts), unit="x", against=AGAINST
        )
        for one in taken
        for data_hosts in sorted(one.points)
    }
    figures = {WORST: max(points.values(), key=lambda figure: figure.value), **points}
    for one in taken:
        alone = one.alone
        for name, samples in (("stages", alone.stages_s), ("wire", alone.wire_s), ("reader", alone.reader_s)):
            figures[f"scaling.{one.load.key}.{name}_ms"] = Figure.of([1e3 * value for value in samples], unit="ms")
        figures[f"scaling.{one.load.key}.accelerator_ms"] = Figure.single(1e3 * one.ideal.step_s, unit="ms")
    return figures


def rows(taken: Taken) -> list[dict[str, object]]:
    """The printed table. `dnn host`: what the trainer's own CPU time takes there, which no data host can take over: no
    step is shorter. The last columns: CPU time that is not the pipeline's or the wire's, or that nobody used, as
    a percentage of what a batch costs apart; where the accelerator is the bound, some has to be left."""
    found = []
    for data_hosts, points in sorted(taken.points.items()):
        shares = [point.shares(taken.ideal) for point in points]
        found.append(
            {
                "load": taken.load.words,
                "data hosts": data_hosts,
                "step ms": median([window for point in points for window in point.windows_ms]),
                "ideal ms": 1e3 * taken.ideal.at(data_hosts),
                "x ideal": round(median(taken.over_ideal(data_hosts)), 3),
                "without wire ms": 1e3 * taken.ideal.without_wire_at(data_hosts),
                "dnn host ms": median([1e3 * point.trainer_s / taken.ideal.cpus for point in points]),
                "wait %": median([point.wait_pct for point in points]),
                **{f"{name} %": round(median([one[name] for one in shares]), 1) for name in shares[0]},
            }
        )
    return found


def _load_json(taken: Taken) -> dict[str, object]:
    return {
        "load": vars(taken.load),
        "alone": vars(taken.alone),
        "accelerator_s": taken.ideal.step_s,
        "ideal_s": {str(number): taken.ideal.at(number) for number in sorted(taken.points)},
        "ideal_without_wire_s": {str(number): taken.ideal.without_wire_at(number) for number in sorted(taken.points)},
        "failed": taken.failed,
        "points": {str(n): [point.to_json() for point in points] for n, points in sorted(taken.points.items())},
    }


def _tell_alone(observer: Observer, taken: Taken) -> None:
    ideal = taken.ideal
    stages, wire, reader = (1e3 * value for value in (ideal.stages_s, ideal.wire_s, ideal.reader_s))
    said = (
        f"{stages:.1f} ms CPU a batch of {taken.load.batch_size}, the wire {wire:.1f} ms, {reader:.1f} ms of it the "
        f"reader's; the accelerator's step {1e3 * ideal.step_s:.1f} ms"
    )
    told = {"case": f"{taken.load.words}, alone", "round": 1, "rounds": 1, "exit_s": None, "said": [said]}
    observer(Event("case.ended", SYSTEM.wall(), told))


def _tell(observer: Observer, taken: Taken, point: Point, index: int, rounds: int) -> None:
    ideal_ms = 1e3 * taken.ideal.at(point.data_hosts)
    step_ms = median(point.windows_ms)
    said = f"step {numbers.number(step_ms)} ms, {step_ms / ideal_ms:.3f} x ideal"
    case = f"{taken.load.words}, {point.data_hosts} data hosts"
    told = {"case": case, "round": index + 1, "rounds": rounds, "exit_s": None, "said": [said]}
    observer(Event("case.ended", SYSTEM.wall(), told))


def _notes(record: Record) -> list[str]:
    lines = text(table(record.details["rows"]), encoding=None).splitlines()
    if record.details["runs"]:
        lines.append(f"runs: {record.details['runs']}")
    for key, load in record.details["loads"].items():
        lines += [f"{key}: a run was made again: {why}" for why in load["failed"]]
    worst = record.figures[WORST]
    if worst.value > TARGET:
        over = [name for name, figure in record.figures.items() if figure.unit == "x" and figure.value > TARGET]
        lines.append(f"over {TARGET:g} x ideal: {', '.join(name for name in over if name != WORST)}")
    return lines


def _draw(record: Record, path: Path) -> Path:
    words = {load.key: load.words for load in LOADS}
    panels = []
    for key, load in record.details["loads"].items():
        lines = {
            "ideal": {float(n): 1e3 * value for n, value in load["ideal_s"].items()},
            "ideal without the wire": {float(n): 1e3 * value for n, value in load["ideal_without_wire_s"].items()},
        }
        points = {
            float(n): Figure.of([window for point in some for window in point["windows_ms"]], unit="ms a step")
            for n, some in load["points"].items()
        }
        panels.append(Panel(words.get(key, key), points, lines))
    return plot_panels(panels, path, across="data hosts")


SUITE = Suite(
    name="scaling",
    does="step time over the number of data hosts, against what their CPUs allow at best (emulated accelerator; root)",
    options=_options,
    run=_run,
    draw=_draw,
    notes=_notes,
    is_kept=lambda record: record.figures[WORST].value <= TARGET,
)
