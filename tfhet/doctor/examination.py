"""All checks, and what they come to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfhet import container
from tfhet.doctor import cluster, host, pipeline, script, software
from tfhet.doctor.host_rules import MACHINE
from tfhet.doctor.rule import Check, Status, Subject
from tfhet.doctor.script_rules import SCRIPT
from tfhet.doctor.version_rules import DISTRIBUTIONS, VERSIONS
from tfhet.versions import versions

SCHEMA = 2
COLUMNS = ("what", "is", "found", "why it matters", "what to do")
SUBJECTS: tuple[Subject[Any], ...] = (MACHINE, VERSIONS, cluster.CLUSTER, pipeline.PIPELINE, SCRIPT)
_BESIDE = {
    "unshare": "trying namespaces",
    "CPU set": "hosts in namespaces whose CPUs are counted",
    "memory limit": "hosts in namespaces with less memory than the machine",
    "netem": "packet delays that cost no CPU",
}
"""Purposes of features of the machine that a simulation can do without: another way is taken, or the record says so."""
_OF_SOFTWARE = ("toolkit", "mpi4py")
"""Features of a simulation that the section `software` reports."""


@dataclass(frozen=True)
class Examination:
    """What was found."""

    checks: tuple[Check, ...]

    @property
    def is_sound(self) -> bool:
        """Whether nothing was found that will fail."""
        return not any(check.is_fatal for check in self.checks)

    @property
    def verdict(self) -> str:
        """All of it in one line."""
        fatal = [f"{check.name} ({check.found}; {check.advice})" for check in self.checks if check.is_fatal]
        if fatal:
            return f"will fail: {'; '.join(fatal)}"
        less = sum(check.status in (Status.LIMITED, Status.MISSING) for check in self.checks)
        return f"nothing was found that will fail; {less} of {len(self.checks)} could be better"

    def sections(self) -> list[str]:
        return list(dict.fromkeys(check.section for check in self.checks))

    def rows(self, section: str, brief: bool = False) -> list[list[str]]:
        """Rows of a table with COLUMNS. brief: leaves out what is ok."""
        return [
            [check.name, check.status.value, check.found, check.reason, check.advice]
            for check in self.checks
            if check.section == section and not (brief and check.status is Status.OK)
        ]

    def to_json(self) -> dict[str, Any]:
        return {"schema": SCHEMA, "is_sound": self.is_sound, "checks": [check.to_json() for check in self.checks]}


def examine(
    env: Mapping[str, str],
    directory: Path | None = None,
    *,
    cluster_file: str | None = None,
    target: str | None = None,
    stages: str | None = None,
    script_file: Path | None = None,
) -> Examination:
    """Examines the machine, and what is named beside it. Leaves nothing; takes seconds, because TensorFlow is loaded.

    directory: place of the files of simulated hosts; None: the folder for temporary files. cluster_file: or the name of
    a preset. target: of a data set, as `tfhet profile` takes it, with its stages where it is a source. Raises
    UsageError for what is named and does not exist.
    """

    def checks() -> Iterator[Check]:
        # What the user named comes first: a wrong name shows before anything takes time.
        job = cluster.look(cluster_file) if cluster_file else None
        text = script.look(script_file) if script_file else None
        loaded = software.load(env)
        here = host.look(env, loaded.gpus, directory)
        yield from software.checks(loaded, len(here.gpus))
        yield from VERSIONS.checks({**versions(DISTRIBUTIONS), "gpus": str(len(here.gpus))})
        yield from MACHINE.checks(here)
        yield from simulation_checks(container.probe(directory))
        if job is not None:
            yield from cluster.CLUSTER.checks(job)
        if target:
            workers = job.workers if job else None
            yield from pipeline.PIPELINE.checks(pipeline.look(target, stages, workers, here.memory_bytes))
        if text is not None:
            yield from SCRIPT.checks(text)

    return Examination(tuple(checks()))


def simulation_checks(features: Iterable[container.KernelFeature]) -> Iterator[Check]:
    """The section `simulation`: what the simulator can do to hosts on this machine."""
    for feature in features:
        if feature.name in _OF_SOFTWARE:
            continue
        what = feature.what_to_do
        if feature.there is None:
            status, what = Status.UNKNOWN, "run tfhet doctor as root"
        elif feature.there:
            status = Status.OK
        else:
            status = Status.LIMITED if feature.name in _BESIDE else Status.MISSING
        why = container.PURPOSES[feature.needed_for[0]] if feature.needed_for else _BESIDE.get(feature.name, "")
        yield Check("simulation", feature.name, status, feature.detail, why, what)
