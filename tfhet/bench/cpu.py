"""`tfhet bench cpu`: how fast a vCPU of this machine is, against one of the reference machine.

Processes that each have one thread do the same work (cpu_work.py): one of them alone, then as many as there are vCPUs,
in turns. Two vCPUs are mostly two threads of one core, and all share caches and memory: with all of them busy, which is
how an input pipeline finds them, each is slower. What counts is CPU time, which other programs on the machine change
little.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tfhet.bench import cpu_work
from tfhet.bench.child_process import AnsweringProcess
from tfhet.bench.harness import in_rounds
from tfhet.bench.suite import Suite
from tfhet.cluster import environment
from tfhet.errors import TfhetError, UsageError
from tfhet.events import Observer
from tfhet.record import Figure, Record, machine, median

PASS_MS, SPEED = "cpu.pass_ms", "cpu.speed_vs_reference"
ALONE = ".alone"
"""Behind a figure's name: one vCPU busy. Without it: all of them."""
REFERENCE = Path(__file__).parent / "cpu_reference.json"
"""The record of the reference machine."""
PASSES = 100
ANSWER_LIMIT_S = 300.0
LEAST_SHARE = 0.9
"""CPU time over wall time of the processes: below it others ran too, or a quota held them."""


@dataclass(frozen=True)
class Turn:
    """What some processes took, all at the same time."""

    cpu_s: tuple[float, ...]
    """Of each process."""
    wall_s: float
    """Of the longest."""

    def pass_ms(self, passes: int) -> float:
        """CPU milliseconds of one pass, in the mean over the processes."""
        return 1e3 * sum(self.cpu_s) / len(self.cpu_s) / passes

    @property
    def share(self) -> float:
        """Of the time, how much the processes had a CPU."""
        return sum(self.cpu_s) / len(self.cpu_s) / self.wall_s


def turn(processes: Sequence[AnsweringProcess], passes: int) -> Turn:
    """Lets all of them work at once. Raises TfhetError, also when the work was not the same as everywhere."""
    for process in processes:
        process.request({"passes": passes})
    answers = [process.answer() for process in processes]
    for answer in answers:
        if answer["checksum"] != cpu_work.CHECKSUM:
            raise TfhetError(
                f"the work made {answer['checksum']}, not {cpu_work.CHECKSUM}: report it with numpy's version"
            )
    return Turn(tuple(answer["cpu_s"] for answer in answers), max(answer["wall_s"] for answer in answers))


def _turn(processes: Sequence[AnsweringProcess], passes: int, index: int) -> Turn:
    return turn(processes, passes)


def figures_of(taken: Mapping[str, Sequence[Turn]], passes: int, reference: Record | None) -> dict[str, Figure]:
    """The cost of a pass, and how many times faster than on the reference machine, with all vCPUs busy and alone."""
    costs = {f"{PASS_MS}{key}": [each.pass_ms(passes) for each in turns] for key, turns in taken.items()}
    speeds = {}
    if reference is not None:
        cpu = str(reference.machine.get("cpu", "the reference"))
        for key in taken:
            base = reference.figures[f"{PASS_MS}{key}"].value
            ratios = [base / value for value in costs[f"{PASS_MS}{key}"]]
            speeds[f"{SPEED}{key}"] = Figure.of(ratios, unit="x", against=f"a vCPU of {cpu}")
    return {**speeds, **{name: Figure.of(values, unit="ms") for name, values in costs.items()}}


def _reference(path: Path | None) -> Record | None:
    """Raises UsageError for a record that is none of this suite."""
    if path is None and not REFERENCE.is_file():
        return None
    record = Record.read(path or REFERENCE)
    if not {PASS_MS, PASS_MS + ALONE} <= record.figures.keys():
        raise UsageError(f"--reference {path}: a record of {record.name}, not of `tfhet bench cpu`")
    return record


def _run(options: argparse.Namespace, observer: Observer, command: Sequence[str]) -> Record:
    if options.passes < 1 or (options.processes is not None and options.processes < 1):
        raise UsageError(f"--passes {options.passes} --processes {options.processes}: give at least 1")
    reference = _reference(options.reference)
    count = options.processes or int(machine()["cores_usable"])
    names = {f"{count} vCPUs": "", "one vCPU": ALONE}
    with contextlib.ExitStack() as stack:
        words = [sys.executable, "-m", "tfhet.bench.cpu_work"]
        processes: list[AnsweringProcess] = []
        for index in range(count):
            process = AnsweringProcess(f"CPU work {index}", words, environment(), ANSWER_LIMIT_S)
            stack.callback(process.close)
            processes.append(process)
        busy = {name: processes[:1] if key else processes for name, key in names.items()}
        found = in_rounds(
            {name: functools.partial(_turn, some, options.passes) for name, some in busy.items()},
            lambda name, turn: f"{turn.pass_ms(options.passes):.2f} ms CPU a pass",
            warmup=options.warmup,
            repeats=options.repeats,
            observer=observer,
        )
    taken = {key: found[name] for name, key in names.items()}
    details = {
        "processes": count,
        "passes": options.passes,
        "shares": {"all": [each.share for each in taken[""]], "alone": [each.share for each in taken[ALONE]]},
        "turns": {
            name: [{"cpu_s": each.cpu_s, "wall_s": each.wall_s} for each in taken[key]]
            for name, key in (("all", ""), ("alone", ALONE))
        },
        "reference": None if reference is None else {"machine": reference.machine, "created": reference.created},
    }
    return Record.of("cpu", figures_of(taken, options.passes, reference), details=details, command=command)


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--reference", type=Path, metavar="FILE", help="another machine's record of this suite (default: the package's)"
    )
    parser.add_argument("--processes", type=int, metavar="N", help="instead of one for each vCPU")
    parser.add_argument(
        "--passes", type=int, default=PASSES, metavar="N", help="of a measurement (default %(default)s)"
    )


def _notes(record: Record) -> list[str]:
    notes = []
    if SPEED not in record.figures:
        notes.append("no reference: this record can be one, for --reference on another machine")
    share = median(record.details["shares"]["all"])
    if share < LEAST_SHARE:
        notes.append(f"the processes had a CPU {share:.0%} of the time: others run here, or a quota holds them")
    return notes


SUITE = Suite(
    name="cpu",
    does="how fast a vCPU of this machine is against the reference, alone and with all of them busy",
    options=_options,
    run=_run,
    notes=_notes,
)
