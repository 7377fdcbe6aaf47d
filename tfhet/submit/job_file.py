"""Reads the job file JOB.yaml as a Job; `docs/submit.md` shows one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tfhet import catalogue, strategies
from tfhet.catalogue import Catalogue
from tfhet.cluster import DATA_GROUP, DNN_GROUP, HOMOGENEOUS_GROUP
from tfhet.errors import UsageError
from tfhet.schema import checked
from tfhet.submit import rules, values
from tfhet.submit.job import ALONE, DATA, DNN, MPI, InstanceType, Job, JobGroup, hosts_with_ranks
from tfhet.yaml_file import YamlFile, read_text

_BY_NAME = {DATA_GROUP: DATA, DNN_GROUP: DNN, **{role.group: role.name for role in strategies.roles()}}
"""Groups whose name implies their role."""


def read(path: Path, known: Catalogue | None = None) -> Job:
    """Returns the job of a file, whose relative directories are relative to the file's. known: instance types; None:
    the default catalogue. Raises UsageError for a file that cannot be read, or is refused."""
    return parse(read_text(path, "job file"), str(path), known)


def parse(text: str, file: str, known: Catalogue | None = None) -> Job:
    """Returns the job of a text. Raises UsageError that names the file, the line and the field, and what it may be."""
    known = known or catalogue.default()

    def instance_type(name: str) -> str:
        try:
            return known.instance(name).name
        except UsageError as error:
            raise ValueError(f"an instance type that the catalogue has: {error}") from None

    def directory(name: str) -> Path:
        return Path(file).parent / checked(name, values.Directory, "directory")

    job = YamlFile(text, file).read(Job, {InstanceType: instance_type, Path: directory})
    given = {HOMOGENEOUS_GROUP: replace(job.instances, name=HOMOGENEOUS_GROUP)} if job.instances else job.groups
    if job.groups and job.instances:
        raise job.mistake("instances", "must be left out where there are groups: SageMaker takes one of them")
    if not given:
        raise job.mistake("groups", "must be given, or instances")
    if job.instances and job.instances.role:
        raise job.mistake("instances: role", "must be left out: these hosts train")
    groups = {name: _complete(group, len(given) == 1, job, known) for name, group in given.items()}
    ranks = sum(group.ranks * hosts_with_ranks(job.hyperparameters, group.count) for group in groups.values())
    uri = job.code.uri or f"{job.output.rstrip('/')}/code"
    start = job.start or (MPI if ranks > 1 else ALONE)
    job = replace(job, code=replace(job.code, uri=uri.rstrip("/")), groups=groups, start=start)
    rules.check(job, known)
    return job


def _complete(group: JobGroup, is_alone: bool, job: Job, known: Catalogue) -> JobGroup:
    """The group with its role and its number of ranks per host: by default the strategy's, or one for each GPU."""
    role = group.role or _BY_NAME.get(group.name, DNN if is_alone else "")
    if group.ranks or role != DNN:
        return replace(group, role=role)
    name = job.hyperparameters.get("strategy", strategies.AUTO)
    usual = strategies.get(name).ranks_per_host if name in strategies.names() else None
    return replace(group, role=role, ranks=usual or max(1, known.instance(group.instance_type).gpus))
