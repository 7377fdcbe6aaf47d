"""Reads the job file JOB.yaml as a Job, and writes a plan into it; `docs/submit.md` shows one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from tfhet import catalogue, strategies
from tfhet.catalogue import Catalogue
from tfhet.cluster import DATA_GROUP, DNN_GROUP, HOMOGENEOUS_GROUP
from tfhet.errors import UsageError
from tfhet.schema import checked
from tfhet.submit import rules, values
from tfhet.submit.job import ALONE, DATA, DNN, MPI, SPARE, InstanceType, Job, JobGroup, hosts_with_ranks
from tfhet.yaml_file import YamlFile, read_text

if TYPE_CHECKING:
    from tfhet.plan import Plan

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


_PLANNED = ("cut", "data_host_workers", "dnn_host_workers")


def with_plan(text: str, file: str, plan: Plan, known: Catalogue | None = None) -> str:
    """Returns a job file's text with the cluster and the cut of a plan; the sections `groups` (or `instances`) and
    `pipeline` (`hyperparameters`, unless the data plane is tf.data service) are replaced without their comments. Groups
    keep their names; spare ones go. Raises UsageError for a job file that is refused, before or with the plan, and a
    plan in which no cluster keeps the limits."""
    job = parse(text, file, known)
    if plan.chosen is None:
        raise UsageError(f"{file} is left as it is: no cluster of the plan keeps the limits")
    chosen = plan.to_json()["candidates"][plan.chosen]
    cluster, layout = chosen["cluster"], chosen["layout"]
    dnn = {"type": cluster["dnn"], "count": cluster["dnn_hosts"]}
    if job.grouped or cluster["data_hosts"]:
        groups = {job.dnn.name if job.grouped else DNN_GROUP: {**dnn, "role": DNN}}
        if cluster["data_hosts"]:
            data = {"type": cluster["data"], "count": cluster["data_hosts"], "role": DATA}
            groups = {job.data.name if job.data else DATA_GROUP: data, **groups}
        others = {g.name: {"type": g.instance_type, "count": g.count, "role": g.role} for g in job.groups.values()}
        groups |= {name: group for name, group in others.items() if group["role"] not in (DATA, DNN, SPARE)}
        text = _with_section(text, "groups" if job.grouped else "instances", "groups", groups)
    else:
        text = _with_section(text, "instances", "instances", dnn)
    if not layout.keys() >= set(_PLANNED):  # another plane than tf.data service: its settings are launcher arguments
        settings = {"data_plane": plan.plane.name, **{name: layout[name] for name in plan.plane.arguments(1, 1)}}
        text = _with_section(text, "hyperparameters", "hyperparameters", {**job.hyperparameters, **settings})
        parse(text, f"{file} with the plan in it", known)
        return text
    is_script = "train_script" in {name.replace("-", "_") for name in job.hyperparameters}
    planned = _PLANNED[1:] if is_script else _PLANNED  # a user's script may refuse --cut
    pipeline: dict[str, values.Value] = {**job.pipeline, **{name: layout[name] for name in planned}}
    if not cluster["data_hosts"]:
        del pipeline["data_host_workers"]
    text = _with_section(text, "pipeline", "pipeline", pipeline)
    parse(text, f"{file} with the plan in it", known)
    return text


def write_plan(path: Path, plan: Plan, known: Catalogue | None = None) -> Path:
    """Writes a plan into a job file, and returns its path. known: as `read`. Raises as `with_plan`."""
    path.write_text(with_plan(read_text(path, "job file"), str(path), plan, known), encoding="utf-8")
    return path


def _with_section(text: str, old: str, new: str, content: dict[str, Any]) -> str:
    """Returns the text with the top-level section `old` replaced by `new`, which goes to the end if there is no `old`.
    A section reaches to the next one; blank lines and comments in the first column before that stay."""
    lines = [line.rstrip("\n") + "\n" for line in text.splitlines(keepends=True)]
    top: Any = yaml.compose(text, Loader=yaml.SafeLoader)
    keys = {key.value: key.start_mark.line for key, _ in top.value}
    begin = keys.get(old, len(lines))
    end = min((line for line in keys.values() if line > begin), default=len(lines))
    while end > begin and (lines[end - 1].isspace() or lines[end - 1].startswith("#")):
        end -= 1
    made = [f"{new}:\n", *(f"  {_one_line(name)}: {_one_line(value)}\n" for name, value in content.items())]
    return "".join([*lines[:begin], *made, *lines[end:]])


def _one_line(value: object) -> str:
    return yaml.safe_dump([value], default_flow_style=True, width=100_000, sort_keys=False, allow_unicode=True)[1:-2]
