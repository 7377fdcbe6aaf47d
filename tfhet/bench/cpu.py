"""`tfhet bench cpu`: how fast a vCPU of this machine is, against one of the reference machine.

Processes with one thread each do the same work (cpu_work.py): one of them alone, then as many as there are vCPUs, in
turns. Two vCPUs are mostly two threads of one core, and all share caches and memory: with all of them busy, which is
how an input pipeline finds them, each is slower. CPU time is compared, which other programs hardly change.
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tfhet.arguments import check_positive
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
"""Suffix of a figure's name for one busy vCPU; without it all of them are busy."""
WORDS = {"": "all", ALONE: "alone"}
"""The two ways in a record's details, by suffix."""
REFERENCE = Path(__file__).parent / "cpu_reference.json"
PASSES = 100
LEAST_SHARE = 0.9
"""Minimum CPU time over wall time of the processes: below it others ran too, or a quota held them."""


@dataclass(frozen=True)
class Turn:
    """Time that some processes took for the same work, all at once."""

    cpu_s: tuple[float, ...]
    """CPU seconds of each process."""
    wall_s: float
    """Wall seconds of the longest."""

    def pass_ms(self, passes: int) -> float:
        """Returns the mean CPU milliseconds of one pass."""
        return 1e3 * sum(self.cpu_s) / len(self.cpu_s) / passes

    @property
    def share(self) -> float:
        """CPU time over wall time of a process, from 0 to 1."""
        return sum(self.cpu_s) / len(self.cpu_s) / self.wall_s


def turn(processes: Sequence[AnsweringProcess], passes: int) -> Turn:
    """Lets all processes work at once. Raises TfhetError, also when their work was not the same as everywhere."""
    for process in processes:
        process.request({"passes": passes})
    answers = [process.answer() for process in processes]
    for made in (answer["checksum"] for answer in answers):
        if made != cpu_work.CHECKSUM:
            raise TfhetError(f"the work made {made}, not {cpu_work.CHECKSUM}: report it with numpy's version")
    return Turn(tuple(answer["cpu_s"] for answer in answers), max(answer["wall_s"] for answer in answers))


def figures_of(taken: Mapping[str, Sequence[Turn]], passes: int, reference: Record) -> dict[str, Figure]:
    """Returns the cost of a pass, and how many times faster it is than on the reference machine, by suffix."""
    costs = {key: [each.pass_ms(passes) for each in turns] for key, turns in taken.items()}
    against, speeds = f"a vCPU of {reference.machine.get('cpu', 'the reference')}", {}
    for key, values in costs.items():
        base = reference.figures[f"{PASS_MS}{key}"].value
        speeds[f"{SPEED}{key}"] = Figure.of([base / value for value in values], unit="x", against=against)
    return speeds | {f"{PASS_MS}{key}": Figure.of(values, unit="ms") for key, values in costs.items()}


def _reference(path: Path | None) -> Record:
    """Reads the reference, by default the package's. Raises UsageError for a record of another suite."""
    record = Record.read(path or REFERENCE)
    if not {PASS_MS, PASS_MS + ALONE} <= record.figures.keys():
        raise UsageError(f"--reference {path}: a record of {record.name}, not of `tfhet bench cpu`")
    return record


def _run(options: argparse.Namespace, observer: Observer, command: Sequence[str]) -> Record:
    check_positive(options, "passes", "processes")
    reference = _reference(options.reference)
    count = options.processes or int(machine()["cores_usable"])
    with contextlib.ExitStack() as stack:
        started = (AnsweringProcess.of_module("tfhet.bench.cpu_work", env=environment()) for _ in range(count))
        processes = [stack.enter_context(process) for process in started]
        found = in_rounds(
            {
                f"{count} vCPUs": lambda _: turn(processes, options.passes),
                "one vCPU": lambda _: turn(processes[:1], options.passes),
            },
            lambda name, turn: f"{turn.pass_ms(options.passes):.2f} ms CPU a pass",
            warmup=options.warmup,
            repeats=options.repeats,
            observer=observer,
        )
    taken = {"": found[f"{count} vCPUs"], ALONE: found["one vCPU"]}
    details = {
        "processes": count,
        "passes": options.passes,
        "shares": {WORDS[key]: [each.share for each in turns] for key, turns in taken.items()},
        "turns": {WORDS[key]: [asdict(each) for each in turns] for key, turns in taken.items()},
        "reference": {"machine": reference.machine, "created": reference.created},
    }
    return Record.of("cpu", figures_of(taken, options.passes, reference), details=details, command=command)


def _options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--reference", type=Path, metavar="FILE", help="a record of this suite (default: the package's)")
    add("--processes", type=int, metavar="N", help="number of processes (default: one for each vCPU)")
    add("--passes", type=int, default=PASSES, metavar="N", help="passes of a measurement (default %(default)s)")


def _notes(record: Record) -> list[str]:
    share = median(record.details["shares"]["all"])
    waited = f"the processes had a CPU {share:.0%} of the time: others run here, or a quota holds them"
    return [waited] if share < LEAST_SHARE else []


SUITE = Suite(
    name="cpu",
    does="how fast a vCPU of this machine is against the reference, alone and with all of them busy",
    options=_options,
    run=_run,
    notes=_notes,
)
