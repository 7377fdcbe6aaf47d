"""`benchmarks.audit`: CPU and memory that a host needs to account for every example, and to write down where it stands.

Two views on synthetic ids, each account in a process of its own (account.py): a host of 8 ranks that is the whole job,
of 10 and 100 million examples; and ranks 0 and 1 of 256, of a job of 1 billion examples, of which the hosts of 8 ranks
are computed.
"""

from __future__ import annotations

import argparse
import functools
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks import child_environment
from tfhet.bench.harness import in_rounds
from tfhet.bench.suite import JOB, Suite
from tfhet.errors import JobFailed, UsageError
from tfhet.events import Observer
from tfhet.record import Figure, Record

CASES = ("whole", "half", "one-file")
HOST_RANKS, LARGE = 8, 1_000_000_000
MOST_CPU_S, MOST_MB = 20.0, 1000.0
"""Bounds for a host of 8 ranks of 256, at LARGE examples."""
CHILD_S = 600.0
FORMULA = {
    "cpu_s": "7 * all phases of rank 1 + all phases of rank 0",
    "peak_mb": "the largest, over the phases, of 7 * rank 1 + rank 0",
    "stop_cpu_s": "7 * (exchange + standing + visits) of rank 1 + (exchange + standing + ledger + visits) of rank 0",
}
Phases = Mapping[str, Mapping[str, float]]


def _options(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(repeats=3, warmup=0)
    parser.add_argument("--millions", default="10,100", metavar="N,N", help="examples of a host (default %(default)s)")
    parser.add_argument("--large", type=int, default=LARGE // 10**6, metavar="N", help="millions (default %(default)s)")


def _run(options: argparse.Namespace, observer: Observer, command: Sequence[str]) -> Record:
    try:
        sizes = [int(word) * 10**6 for word in options.millions.split(",")]
    except ValueError:
        raise UsageError(f"--millions {options.millions}: give whole numbers, with commas between them") from None
    if min([*sizes, options.large]) < 1:
        raise UsageError("--millions and --large: give at least 1")
    large = options.large * 10**6
    words = [("host", case, size) for size in sizes for case in CASES]
    words += [(rank, case, large) for case in CASES for rank in ("rank-0", "rank-1")]
    taken = in_rounds(
        {" ".join(map(str, each)): functools.partial(account, *each) for each in words},
        lambda name, phases: f"{cpu_s(phases):.2f} CPU s, {peak_mb(phases):.0f} MB",
        warmup=options.warmup,
        repeats=options.repeats,
        observer=observer,
    )
    figures = figures_of(taken, large)
    return Record.of("audit", figures, details={"formula": FORMULA, "phases": taken}, command=command)


def account(who: str, case: str, examples: int, index: int) -> Phases:
    """The phases of one account, from a new process. Raises JobFailed."""
    command = [sys.executable, "-m", "benchmarks.audit.account", who, case, str(examples)]
    env = {**child_environment(), "TF_CPP_MIN_LOG_LEVEL": "3"}
    ended = subprocess.run(command, env=env, capture_output=True, text=True, timeout=CHILD_S, check=False)
    if ended.returncode:
        raise JobFailed(f"the account {who} {case} {examples} failed: {ended.stderr.strip().splitlines()[-1:]}")
    phases: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return phases


def cpu_s(phases: Phases, *names: str) -> float:
    """CPU seconds of these phases, or of all."""
    return sum(phase["cpu_s"] for name, phase in phases.items() if not names or name in names)


def peak_mb(phases: Phases) -> float:
    return max(phase["peak_bytes"] for phase in phases.values()) / 1e6


def host_of(first: Phases, other: Phases) -> dict[str, float]:
    """CPU seconds and MB that a host with rank 0 and HOST_RANKS - 1 ranks like the other one needs."""
    stop, more = ("exchange", "standing", "ledger", "visits"), HOST_RANKS - 1
    peaks = [
        phase["peak_bytes"] + more * other.get(name, {"peak_bytes": 0})["peak_bytes"] for name, phase in first.items()
    ]
    return {
        "cpu_s": more * cpu_s(other) + cpu_s(first),
        "peak_mb": max(peaks) / 1e6,
        "stop_cpu_s": more * cpu_s(other, *stop) + cpu_s(first, *stop),
    }


def figures_of(taken: Mapping[str, Sequence[Phases]], large: int) -> dict[str, Figure]:
    """The flat table. The i-th accounts of ranks 0 and 1 make the i-th host."""
    figures: dict[str, Figure] = {}
    for name, samples in taken.items():
        who, case, examples = name.split()
        if who.startswith("rank"):
            continue
        key = f"audit.{who}.{int(examples) // 10**6}m.{case}"
        against = "8 ranks, the whole job; the collective is played"
        figures[f"{key}.cpu_s"] = Figure.of([cpu_s(each) for each in samples], unit="s", against=against)
        figures[f"{key}.peak_mb"] = Figure.of([peak_mb(each) for each in samples], unit="MB", against=against)
    for case in CASES:
        pairs = zip(taken[f"rank-0 {case} {large}"], taken[f"rank-1 {case} {large}"], strict=True)
        hosts = [host_of(first, other) for first, other in pairs]
        for what, formula in FORMULA.items():
            key, unit = f"audit.large.{case}.{what}", "MB" if what.endswith("mb") else "s"
            against = f"{large // 10**6} M examples, 256 ranks; computed: {formula}"
            figures[key] = Figure.of([each[what] for each in hosts], unit=unit, against=against)
    return figures


def _broken(record: Record) -> list[str]:
    bounds = {"cpu_s": MOST_CPU_S, "peak_mb": MOST_MB, "stop_cpu_s": MOST_CPU_S}
    large = {name: figure for name, figure in record.figures.items() if name.startswith("audit.large.")}
    return [name for name, figure in large.items() if figure.value > bounds[name.rpartition(".")[2]]]


def _notes(record: Record) -> list[str]:
    return [f"not kept: {name} is above {MOST_CPU_S:g} s or {MOST_MB:g} MB" for name in _broken(record)]


SUITE = Suite(
    name="audit",
    does="CPU and memory of the account of which examples were seen",
    measures=(*JOB, "benchmarks/audit"),
    options=_options,
    run=_run,
    notes=_notes,
    is_kept=lambda record: not _broken(record),
)
