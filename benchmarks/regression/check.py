"""The check: both sides take turns in rounds of five cases, and CPU time is compared by ratio."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from benchmarks import ROOT
from benchmarks.regression import base_tree, probe
from benchmarks.transport import ends
from tfhet.bench.child_process import AnsweringProcess
from tfhet.clock import SYSTEM
from tfhet.cluster import environment
from tfhet.errors import TfhetError
from tfhet.record import Figure
from tfhet.report import number, show, table

HEAD, BASE = "head", "base"
PROBE = "tfhet_regression_probe"
MOST = 1.10
"""A case fails if the interval of its ratio lies above this."""
NO_BASE = 77
"""Exit code if there is nothing to compare with."""
OPEN_LIMIT_S, TURN_LIMIT_S = 600.0, 60.0
"""For compiling kernels, for opening a case, and for a turn."""
GRACE_S = 10.0
MEASURE_S = 70.0
"""For all rounds. To open all cases takes about 20 s on two idle cores."""
ROUNDS, LEAST_ROUNDS = 15, 5
TURN_S = 0.3
"""Approximate CPU seconds of one turn."""
FIRST = {"chain_32": 16, "chain_jpeg": 8, "tf_service": 100, "feed": 100, "launch": 1}
"""Units in the first turns of a case, from which the number of units in its later turns follows."""
Turns = dict[str, dict[str, list[float]]]
"""CPU seconds per unit, by case and side."""


def check(revision: str | None) -> int:
    """Compares the working tree with a revision (None: see `base_commit`) and prints the table. Returns the exit code.
    Raises TfhetError if a case does not run on the working tree."""
    commit = base_tree.base_commit(ROOT, revision)
    if commit is None:
        print("no earlier commit to compare with (a shallow clone?): nothing was measured")
        return NO_BASE
    with tempfile.TemporaryDirectory(prefix="tfhet-regression-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        base_tree.extract(ROOT, commit, folder / BASE)
        turns, missing = compared(folder, {HEAD: ROOT, BASE: folder / BASE})
    return verdict(commit, turns, missing)


def compared(folder: Path, roots: Mapping[str, Path]) -> tuple[Turns, dict[str, str]]:
    """Measures. Returns the turns of each case, and the reason for each case that base does not have."""
    with contextlib.ExitStack() as stack:
        sides = {side: stack.enter_context(_probe(side, root, folder)) for side, root in roots.items()}
        _both(sides, {"build": True})
        missing, counts = dict[str, str](), dict[str, int]()
        for case, count in FIRST.items():
            opened = _both(sides, {"open": case, "count": count})
            reasons = {side: answer["missing"] for side, answer in opened.items() if "missing" in answer}
            if HEAD in reasons:
                raise TfhetError(f"{case} does not run on the working tree: {reasons[HEAD]}")
            if reasons:
                missing[case] = reasons[BASE]
                continue
            used_s = sides[HEAD].ask({"run": case, "count": count})["cpu_s"]
            counts[case] = max(1, round(count * TURN_S / max(used_s, 1e-3)))
        return _rounds(sides, counts), missing


def _both(sides: Mapping[str, AnsweringProcess], request: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The answers of both sides, which work at the same time."""
    for process in sides.values():
        process.request(request)
    return {side: process.answer(OPEN_LIMIT_S) for side, process in sides.items()}


def _rounds(sides: Mapping[str, AnsweringProcess], counts: Mapping[str, int]) -> Turns:
    """At most ROUNDS rounds, as many as fit in MEASURE_S."""
    turns: Turns = {case: {side: [] for side in sides} for case in counts}
    longest_s, end_s = 0.0, SYSTEM.monotonic() + MEASURE_S
    for index in range(ROUNDS):
        begun_s = SYSTEM.monotonic()
        if begun_s + longest_s > end_s:
            break
        for case, count in counts.items():
            order = list(sides) if index % 2 else list(sides)[::-1]
            for side in order:
                used_s = float(sides[side].ask({"run": case, "count": count})["cpu_s"])
                turns[case][side].append(used_s / count)
        longest_s = max(longest_s, SYSTEM.monotonic() - begun_s)
    return turns


@contextlib.contextmanager
def _probe(side: str, root: Path, folder: Path) -> Iterator[AnsweringProcess]:
    """A process that runs the cases with the package in `root`. It writes only to `folder` and to the user's cache."""
    scripts = folder / "probe"
    scripts.mkdir(exist_ok=True)
    for name, module in ((PROBE, probe), (probe.ENDS, ends)):
        shutil.copyfile(str(module.__file__), scripts / f"{name}.py")
    env = {
        **environment(),
        "PYTHONPATH": os.pathsep.join([str(root), str(scripts)]),
        "PYTHONSAFEPATH": "1",  # no process imports the package of the folder that it runs in
        "PYTHONPYCACHEPREFIX": str(folder / "bytecode"),
        "TMPDIR": str(folder),
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "CUDA_VISIBLE_DEVICES": "-1",
    }
    # A SIGTERM while the process starts would leave a process that nobody ends.
    held = list[int]()
    handler = signal.signal(signal.SIGTERM, lambda number, frame: held.append(number))
    process = AnsweringProcess(side, [sys.executable, "-m", PROBE], env, TURN_LIMIT_S)
    try:
        signal.signal(signal.SIGTERM, handler)
        if held:
            signal.raise_signal(held[0])
        yield process
    finally:
        below = list[psutil.Process]()
        with contextlib.suppress(psutil.Error):
            below = psutil.Process(process.pid).children(recursive=True)
        process.kill()
        for child in below:  # a launcher that runs writes to `folder`
            with contextlib.suppress(psutil.Error):
                child.kill()
        psutil.wait_procs(below, GRACE_S)


def verdict(commit: str, turns: Turns, missing: Mapping[str, str]) -> int:
    """Prints the table and returns the exit code."""
    rows: list[Sequence[object]] = []
    slower, undecided = [], []
    for case, sides in turns.items():
        if len(sides[HEAD]) < LEAST_ROUNDS:
            undecided.append(case)
            continue
        ratio = Figure.ratio(sides[HEAD], sides[BASE])
        us = [number(1e6 * Figure.of(sides[side], unit="s").value) for side in (BASE, HEAD)]
        rows.append((case, *us, number(ratio.value), f"{ratio.low:.3f} to {ratio.high:.3f}", ratio.n))
        if ratio.low > MOST:
            slower.append(case)
    if rows:
        columns = ["case", "base, CPU us", "head, CPU us", "head / base", "interval", "rounds"]
        show(table(rows, columns=columns, title=f"CPU time of the working tree against {commit[:10]}"))
    for case, reason in missing.items():
        print(f"left out: {case}: {commit[:10]} does not run it: {reason}")
    if slower:
        print(f"more than {MOST - 1.0:.0%} slower: {', '.join(slower)}")
        return 1
    if undecided or not rows:
        print(f"nothing decided: fewer than {LEAST_ROUNDS} rounds of {', '.join(undecided) or 'any case'}")
        return NO_BASE
    return 0
