"""All checks, and what they come to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfhet import container
from tfhet.doctor import cluster, host, pipeline, script, software
from tfhet.doctor.rule import Check, Status, Subject
from tfhet.versions import versions

SCHEMA = 2
COLUMNS = ("what", "is", "found", "why it matters", "what to do")
SUBJECTS: Sequence[Subject[Any]] = (host.MACHINE, software.VERSIONS, cluster.CLUSTER, pipeline.PIPELINE, script.SCRIPT)
_OPTIONAL = {
    "unshare": "trying namespaces",
    "CPU set": "hosts in namespaces whose CPUs are counted",
    "memory limit": "hosts in namespaces with less memory than the machine",
    "netem": "packet delays that cost no CPU",
}
"""Purposes of features of the machine that a simulation can do without: another way is taken, or the record says so."""


@dataclass(frozen=True)
class Examination:
    """All checks, in the order in which they were made."""

    checks: tuple[Check, ...]

    @property
    def is_sound(self) -> bool:
        """Whether nothing was found that will fail."""
        return not any(check.is_fatal for check in self.checks)

    @property
    def verdict(self) -> str:
        """The result in one line."""
        if not self.is_sound:
            fatal = (f"{check.name} ({check.found}; {check.what_to_do})" for check in self.checks if check.is_fatal)
            return f"will fail: {'; '.join(fatal)}"
        less = sum(check.status in (Status.LIMITED, Status.MISSING) for check in self.checks)
        return f"nothing was found that will fail; {less} of {len(self.checks)} could be better"

    def tables(self, brief: bool = False) -> dict[str, list[list[str]]]:
        """Rows of a table with COLUMNS, by section. brief: leaves out what is ok."""
        found: dict[str, list[list[str]]] = {}
        for check in self.checks:
            is_ok = check.status is Status.OK
            if not (brief and is_ok):
                row = [check.name, check.status.value, check.found, check.why, check.what_to_do]
                row[3] += f" ({check.issue})" if check.issue and not is_ok else ""
                found.setdefault(check.section, []).append(row)
        return found

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

    directory: for the files of simulated hosts; None: that of temporary files. cluster_file: a path, or a preset.
    target: a data set, as `tfhet profile` takes it, with stages for a source. Raises UsageError for what is not there.
    """

    def checks() -> Iterator[Check]:
        # What the user named comes first: a wrong name shows before anything takes time.
        job = cluster.look(cluster_file) if cluster_file else None
        text = script.look(script_file) if script_file else None
        loaded = software.load(env)
        here = host.look(env, loaded.gpus, directory)
        yield from software.checks(loaded, len(here.gpus))
        yield from software.VERSIONS.checks(versions(software.DISTRIBUTIONS))
        yield from host.MACHINE.checks(here)
        yield from simulation_checks(container.probe(directory))
        if job is not None:
            yield from cluster.CLUSTER.checks(job)
        if target:
            workers = job.workers if job else None
            yield from pipeline.PIPELINE.checks(pipeline.look(target, stages, workers, here.memory_bytes))
        if text is not None:
            yield from script.SCRIPT.checks(text)

    return Examination(tuple(checks()))


def simulation_checks(features: Iterable[container.KernelFeature]) -> Iterator[Check]:
    """The section `simulation`: what the simulator can do to hosts on this machine."""
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
