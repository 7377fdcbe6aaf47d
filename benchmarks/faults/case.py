"""One case of the table of faults: what is done to which job, and what is promised then."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from benchmarks.cluster_runs import second_jobs
from tfhet.simulate import Fault

LEASE_S = 4.0
"""Seconds of the jobs' lease: short, so that the table takes minutes. The promise moves with it."""
READY_S = 20.0
WITNESS = "benchmarks/job_scripts/witness_train.py"
"""The script of the jobs: the built-in one, whose ranks note what they train on, for the judge."""
EPOCHS = 2
"""Number of epochs of a job that is to go on."""
LIMITS_S = {
    "goes on": None,
    "failure": LEASE_S + 5.0,
    "stop": 30.0,
    "failed stop": 30.0,
    "never joined": READY_S + 5.0,
    "refused": LEASE_S + 5.0,
}
"""The promise for each kind: seconds to the last exit, from the fault; of `never joined` from the start; of
`refused`, where the job itself finds what is wrong, from its verdict. None: the job ends as if nothing was."""
BUSY = "busy:"
"""In `before`, with `control`, `dispatcher` or `worker`: somebody has that port."""
DAMAGES = ("truncated", "corrupt")
"""In `before`: one of the data files."""
_PLACE = re.compile(r"(data|dnn)-\d+")


@dataclass(frozen=True)
class FaultCase:
    """One row of the table."""

    faults: tuple[str, ...]
    kind: str
    """One of LIMITS_S."""
    named: tuple[str, ...] = ()
    """Words that the cause must contain; `data-1` stands for the name of that host."""
    cluster: str = "demo"
    arguments: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    """Data hosts that the job goes on without, and says so."""
    before: str = ""
    """The damage before the job starts: one of DAMAGES, or BUSY with a port."""
    bad: int = 0
    """Records that are skipped in each epoch."""
    resumes: bool = False
    """Whether a second run with the same checkpoints goes on where this one was stopped."""
    exits: int | None = None
    """The exit code of a failure, where one is promised."""
    linked: bool = True
    """Whether the launchers can tell each other how it ended; else they only have to fail, all of them."""

    @property
    def name(self) -> str:
        variables = [f"{name}={value}" for name, value in self.variables.items()]
        words = [*variables, self.before, *self.faults, *self.arguments, *(["then again"] * self.resumes)]
        return " ".join([*filter(None, words), *[f"({self.cluster})"] * (self.cluster != "demo")]) or "nothing"

    @property
    def variables(self) -> dict[str, str]:
        """Variables of the environment of all launchers."""
        return dict(second_jobs.variables(map(Fault.parse, self.faults)))

    @property
    def limit_s(self) -> float | None:
        """Seconds to the last exit, from the moment that LIMITS_S says. A launcher that was frozen can only end when it
        is no longer."""
        frozen_s = [f.for_s for f in map(Fault.parse, self.faults) if f.kind == "hang" and f.for_s is not None]
        limit_s = LIMITS_S[self.kind]
        return None if limit_s is None else max([limit_s, *(seconds + 5.0 for seconds in frozen_s)])

    def command(self, again: bool = False) -> list[str]:
        """Arguments of the launcher; `again`: of the run after the stop."""
        # Who is to be stopped must not come to an end before.
        epochs = EPOCHS if self.kind == "goes on" or again else 50
        return [
            *f"--model emulated --step_ms 50 --batch_size 8 --epochs {epochs} --shuffle 0 --chain none".split(),
            *f"--validation none --export false --log_every 5 --lease_s {LEASE_S:g}".split(),
            *f"--ready_timeout_s {READY_S:g} --train_script {WITNESS}".split(),
            *self.arguments,
        ]

    @property
    def code(self) -> int | None:
        """The exit code of every launcher that lives; None: that of a failure."""
        return {"goes on": 0, "stop": 143}.get(self.kind, self.exits)

    @property
    def is_judged(self) -> bool:
        """Whether all examples have to be seen exactly once, by the job or by the one that takes it up."""
        return self.kind == "goes on" or self.resumes

    def row(self) -> dict[str, Any]:
        """Its row in the table that `--list` prints."""
        return {"case": self.name, "kind": self.kind, "limit s": self.limit_s}

    @staticmethod
    def is_place(word: str) -> bool:
        """Whether `word` stands for a host, like `data-1`."""
        return bool(_PLACE.fullmatch(word))


def bare(text: str) -> str:
    """With the names of files alone instead of their absolute paths, which say nothing on another machine."""
    return re.sub(r"(?<![\w.])/(?:[\w.+-]+/)+", "", text)
