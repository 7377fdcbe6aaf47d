"""All checks, and the verdict."""

from __future__ import annotations

import functools
import itertools
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Group
from rich.text import Text

from tfhet import container
from tfhet.doctor import cluster, host, pipeline, reduction, script, software
from tfhet.doctor.rule import Check, Status, Subject
from tfhet.report import Step
from tfhet.versions import versions

SCHEMA = 2
MARKS = dict(zip(Status, (("✓", "green"), ("!", "yellow"), ("✗", "red"), ("✗", "red"), ("?", "cyan")), strict=True))
_fill = functools.partial(textwrap.fill, break_long_words=False, break_on_hyphens=False)
SUBJECTS: Sequence[Subject[Any]] = (
    host.MACHINE, software.VERSIONS, cluster.CLUSTER, pipeline.PIPELINE, script.SCRIPT, reduction.REDUCTION
)  # fmt: skip
_OPTIONAL = {
    "unshare": "trying namespaces",
    "CPU set": "hosts in namespaces whose CPUs are counted",
    "memory limit": "hosts in namespaces with less memory than the machine",
}
"""Purposes of optional features: a simulation works differently without them, or its record says so."""


@dataclass(frozen=True)
class Examination:
    checks: tuple[Check, ...]

    @property
    def is_sound(self) -> bool:
        return not any(check.is_fatal for check in self.checks)

    @property
    def verdict(self) -> str:
        if not self.is_sound:
            fatal = (f"{check.name} ({check.found}; {check.what_to_do})" for check in self.checks if check.is_fatal)
            return f"will fail: {'; '.join(fatal)}"
        less = sum(check.status in (Status.LIMITED, Status.MISSING) for check in self.checks)
        return f"nothing was found that will fail; {less} of {len(self.checks)} could be better"

    def listed(self, brief: bool = False, width: int = 80) -> Group:
        """Returns the checks by section: mark, name and result, and unless ok the consequence and what to do. brief:
        omits checks that are ok. width: characters of a line."""
        lines: list[Text] = []
        shown = (check for check in self.checks if not (brief and check.status is Status.OK))
        for section, own in itertools.groupby(shown, lambda check: check.section):
            checks = list(own)
            longest = max(len(check.name) for check in checks)
            lines.append(Text(f"\n{section}", style="bold"))
            lines += [line for check in checks for line in _lines(check, longest, width)]
        return Group(*lines, Text(f"\n{_fill(self.verdict, width)}"))

    def to_json(self) -> dict[str, Any]:
        return {"schema": SCHEMA, "is_sound": self.is_sound, "checks": [vars(check) for check in self.checks]}


def _lines(check: Check, longest: int, width: int) -> Iterator[Text]:
    """Yields the lines of a check. longest: length of the longest name in its section."""
    mark, style = MARKS[check.status]
    name, is_ok = f"  {check.name:<{longest}}  ", check.status is Status.OK
    found = check.found if is_ok else f"{check.status.value}: {check.found}"
    yield Text.assemble((mark, style), _fill(found, width, initial_indent=name, subsequent_indent=" " * len(name))[1:])
    if not is_ok:
        why = f"{check.why} ({check.issue})" if check.issue else check.why
        for words, style in ((why, "dim"), (check.what_to_do, "bold")):
            if words:
                yield Text(_fill(words, width, initial_indent="    ", subsequent_indent="    "), style=style)


def examine(
    env: Mapping[str, str],
    directory: Path | None = None,
    *,
    cluster_file: str | None = None,
    target: str | None = None,
    stages: str | None = None,
    script_file: Path | None = None,
    step: Step = lambda done, total, what: None,
) -> Examination:
    """Examines the machine, and optionally a cluster file or preset, a data set (as for `tfhet profile`) and a script,
    which is not run. directory: for files of simulated hosts. Raises UsageError if a file or target is missing."""
    total = 3 + bool(target)

    def checks() -> Iterator[Check]:
        # a wrong name is reported before anything takes time
        job = cluster.look(cluster_file) if cluster_file else None
        text = script.look(script_file) if script_file else None
        step(0, total, "parts: TensorFlow, Horovod and PyTorch")
        loaded = software.load(env)
        step(1, total, "parts: the machine")
        here = host.look(env, loaded.gpus_seen, directory)
        yield from software.checks(loaded, len(here.gpus))
        yield from software.VERSIONS.checks(versions(software.DISTRIBUTIONS))
        yield from host.MACHINE.checks(here)
        step(2, total, "parts: the simulation")
        yield from simulation_checks(container.probe(directory))
        if job is not None:
            yield from cluster.CLUSTER.checks(job)
        if target:
            step(3, total, "parts: the data set")
            workers = job.workers if job else None
            yield from pipeline.PIPELINE.checks(pipeline.look(target, stages, workers, here.memory_bytes))
        if text is not None:
            yield from script.SCRIPT.checks(text)
            yield from reduction.REDUCTION.checks(reduction.look(text, job, env))

    return Examination(tuple(checks()))


def simulation_checks(features: Iterable[container.KernelFeature]) -> Iterator[Check]:
    """Yields the section `simulation`: abilities of the simulator on this machine."""
    for feature in features:
        if feature.name in ("toolkit", "mpi4py"):  # the section `software` has them
            continue
        status, what = Status.OK, ""
        if feature.there is None:
            status, what = Status.UNKNOWN, "run tfhet doctor as root"
        elif not feature.there:
            status = Status.LIMITED if feature.name in _OPTIONAL else Status.MISSING
            what = feature.what_to_do
        why = container.PURPOSES[feature.needed_for[0]] if feature.needed_for else _OPTIONAL.get(feature.name, "")
        yield Check("simulation", feature.name, status, feature.detail, why, what)
