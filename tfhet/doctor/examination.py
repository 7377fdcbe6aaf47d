"""All checks, and what they come to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfhet.container import kernel
from tfhet.doctor import cluster, host, pipeline, script, simulation, software
from tfhet.doctor.check import Check, Status
from tfhet.doctor.cluster_rules import CLUSTER
from tfhet.doctor.host_rules import MACHINE
from tfhet.doctor.pipeline_rules import PIPELINE
from tfhet.doctor.script_rules import SCRIPT
from tfhet.doctor.version_rules import DISTRIBUTIONS, VERSIONS
from tfhet.versions import versions

SCHEMA = 2
COLUMNS = ("what", "is", "found", "why it matters", "what to do")


@dataclass(frozen=True)
class Question:
    """What else than the machine is to be looked at."""

    cluster: str | None = None
    """A cluster file, or the name of a preset."""
    pipeline: str | None = None
    """A target as `tfhet profile` takes it: a directory, `synthetic`, or FILE.py:NAME."""
    stages: str | None = None
    """Of a target that is a source."""
    script: Path | None = None
    """A training script."""


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
        """In one line."""
        fatal = [f"{check.name} ({check.found}; {check.advice})" for check in self.checks if check.is_fatal]
        if fatal:
            return f"will fail: {'; '.join(fatal)}"
        less = sum(check.status in (Status.LIMITED, Status.MISSING) for check in self.checks)
        return f"nothing was found that will fail; {less} of {len(self.checks)} could be better"

    def sections(self) -> list[str]:
        return list(dict.fromkeys(check.section for check in self.checks))

    def rows(self, section: str, brief: bool = False) -> list[list[str]]:
        """As a table: name, status, what was found, why it matters, what to do where it is not ok. brief: without
        those that are ok."""
        return [
            [check.name, check.status.value, check.found, check.reason, check.advice]
            for check in self.checks
            if check.section == section and not (brief and check.status is Status.OK)
        ]

    def to_json(self) -> dict[str, Any]:
        return {"schema": SCHEMA, "is_sound": self.is_sound, "checks": [check.to_json() for check in self.checks]}


def examine(env: Mapping[str, str], directory: Path | None = None, asked: Question | None = None) -> Examination:
    """Looks at everything; takes some seconds, because TensorFlow is loaded, and leaves nothing behind.

    directory: where a simulated cluster would keep what its hosts write; by default the folder for temporary files.
    Raises UsageError for what is asked about and not there.
    """
    return Examination(tuple(_all(env, directory, asked or Question())))


def _all(env: Mapping[str, str], directory: Path | None, asked: Question) -> Iterator[Check]:
    # What the user named comes first: a wrong name shows before anything takes time.
    job = cluster.look(asked.cluster) if asked.cluster else None
    text = script.look(asked.script) if asked.script else None
    loaded = software.load(env)
    here = host.look(env, loaded.gpus, directory)
    yield from software.checks(loaded, len(here.gpus))
    yield from VERSIONS.checks({**versions(DISTRIBUTIONS), "gpus": str(len(here.gpus))})
    yield from MACHINE.checks(here)
    yield from simulation.checks(kernel.probe(directory))
    if job is not None:
        yield from CLUSTER.checks(job)
    if asked.pipeline:
        workers = job.workers if job else None
        yield from PIPELINE.checks(pipeline.look(asked.pipeline, asked.stages, workers, here.memory_bytes))
    if text is not None:
        yield from SCRIPT.checks(text)
