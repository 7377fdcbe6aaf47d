"""The job file: JOB.yaml, as a Job.

name: digits
image: 123456789012.dkr.ecr.us-east-1.amazonaws.com/tfhet:0.1
role: arn:aws:iam::123456789012:role/training
output: s3://my-bucket/jobs
code: {directory: src, script: launcher.py}
hyperparameters: {train_script: train.py}
channels:
  training: {uri: s3://my-bucket/digits/train, local: digits/train}
groups:
  data_group: {type: ml.c5.18xlarge, count: 2}
  dnn_group: {type: ml.p4d.24xlarge, count: 1}
limits: {max_run_s: 14400}
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import yaml

from tfhet import catalogue
from tfhet.catalogue import Catalogue
from tfhet.catalogue.node import Kind, Node
from tfhet.cluster import DATA_GROUP, DNN_GROUP
from tfhet.errors import UsageError
from tfhet.submit import rules, values
from tfhet.submit.job import (
    ALONE,
    DATA,
    DNN,
    HOMOGENEOUS,
    MPI,
    Channel,
    CheckpointPlace,
    Code,
    Job,
    JobGroup,
    JobLimits,
    Spot,
    Vpc,
)

_DEEPEST = 4
"""Maximum depth of a job file's nesting."""
T = TypeVar("T")

_WORDS: Mapping[str, Kind] = {
    "name": values.JOB_NAME,
    "image": values.IMAGE,
    "role": values.ROLE,
    "output": values.S3,
    "region": values.REGION,
    "start": values.START,
    "encrypt_traffic": values.TRUTH,
}
_PARTS = (
    *("code", "hyperparameters", "pipeline", "environment", "channels", "groups", "instances", "checkpoints", "spot"),
    *("limits", "vpc", "tags"),
)
_NEEDED = ("name", "image", "role", "output", "code", "limits")
_CODE = {"directory": values.DIRECTORY, "script": values.SCRIPT, "uri": values.S3}
_CHECKPOINTS = {"uri": values.S3, "directory": values.ABSOLUTE}
_SPOT = {"max_wait_s": values.SECONDS, "attempts": values.ATTEMPTS}
_LIMITS = {"max_run_s": values.SECONDS, "volume_gib": values.VOLUME, "keep_alive_s": values.KEEP_ALIVE}
_GROUP = {"type": Kind(str, "an instance type"), "count": values.COUNT, "role": values.ROLE_OF_GROUP}
_CHANNEL = {"uri": values.S3, "mode": values.MODE, "local": values.DIRECTORY}


def read(path: Path, known: Catalogue | None = None) -> Job:
    """The job of a file, whose relative directories are relative to the file's.

    known: instance types; None: the default catalogue. Raises UsageError for a file that cannot be read, or is refused.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: no job file that can be read: {error}") from None
    return parse(text, str(path), known)


def parse(text: str, file: str, known: Catalogue | None = None) -> Job:
    """Raises UsageError that names the file, the line and the field, and what it may be."""
    top = Node.parse(text, file)
    if top is None:
        raise UsageError(f"{file}: the job file is empty; it needs {', '.join(_NEEDED)}, and groups or instances")
    parts = top.mapping((*_WORDS, *_PARTS), needed=_NEEDED)
    said = {name: parts[name].value(kind) for name, kind in _WORDS.items() if name in parts}
    grouped = "instances" not in parts
    if grouped and "groups" not in parts:
        raise UsageError(f"{file}:{top.line}: groups or instances must be given")
    if not grouped and "groups" in parts:
        raise parts["instances"].refused("left out where there are groups: SageMaker takes one of them")
    known = known or catalogue.default()
    if grouped:
        groups = _groups(parts["groups"], known)
    else:
        fields = parts["instances"].mapping(("type", "count", "ranks"), needed=("type", "count"))
        groups = (_group(HOMOGENEOUS, DNN, fields, known),)
    start = said.pop("start", None) or (MPI if sum(group.ranks * group.count for group in groups) > 1 else ALONE)
    job = Job(
        **said,
        code=_code(parts["code"], Path(file).parent, said["output"]),
        groups=groups,
        grouped=grouped,
        limits=JobLimits(**parts["limits"].values(_LIMITS, needed=("max_run_s",))),
        start=start,
        hyperparameters=_named(parts.get("hyperparameters"), values.PARAMETER, values.plain),
        pipeline=parts["pipeline"].values(values.PIPELINE, ()) if "pipeline" in parts else {},
        environment=_named(
            parts.get("environment"), values.VARIABLE, lambda part: str(part.value(values.VARIABLE_VALUE))
        ),
        channels=tuple(_channels(parts.get("channels"))),
        checkpoints=_optional(parts.get("checkpoints"), lambda node: CheckpointPlace(**node.values(_CHECKPOINTS, ()))),
        spot=_optional(parts.get("spot"), lambda node: Spot(**node.values(_SPOT, needed=("max_wait_s",)))),
        vpc=_optional(parts.get("vpc"), _vpc),
        tags=_named(parts.get("tags"), values.TAG, lambda part: str(part.value(values.TAG_VALUE))),
        file=file,
        lines=dict(_lines(top)),
    )
    rules.check(job)
    return job


def _optional(node: Node | None, read: Callable[[Node], T]) -> T | None:
    """A part that a file may leave out."""
    return None if node is None else read(node)


def _code(node: Node, beside: Path, output: str) -> Code:
    said = node.values(_CODE, needed=("directory", "script"))
    directory, uri = beside / said["directory"], said.get("uri", f"{output.rstrip('/')}/code")
    return Code(directory, said["script"], uri.rstrip("/"))


def _groups(node: Node, known: Catalogue) -> tuple[JobGroup, ...]:
    parts = node.mapping()
    usual = {DATA_GROUP: DATA, DNN_GROUP: DNN}
    found = []
    for name, part in parts.items():
        _name(part, name, values.GROUP)
        fields = part.mapping((*_GROUP, "ranks"), needed=("type", "count"))
        role = usual.get(name, DNN if len(parts) == 1 else "")
        if "role" in fields:
            role = fields["role"].value(values.ROLE_OF_GROUP)
        if not role:
            raise part.refused(f"given a role ({', '.join(values.ROLES)}): only {', '.join(usual)} say it by name")
        found.append(_group(name, role, fields, known))
    return tuple(found)


def _group(name: str, role: str, fields: Mapping[str, Node], known: Catalogue) -> JobGroup:
    text = fields["type"].value(_GROUP["type"])
    try:
        kind = known.instance(text)
    except UsageError as error:
        raise fields["type"].refused(f"an instance type that the catalogue has: {error}") from None
    ranks = max(1, kind.gpus) if role == DNN else 0
    if "ranks" in fields:
        if role != DNN:
            raise fields["ranks"].refused("left out: only the group that trains has ranks")
        ranks = fields["ranks"].value(values.RANKS)
        if kind.gpus and ranks > kind.gpus:
            raise fields["ranks"].refused(f"at most {kind.gpus}: {kind.name} has so many GPUs, one for each rank")
    return JobGroup(name, kind.name, fields["count"].value(values.COUNT), role, ranks)


def _channels(node: Node | None) -> Iterator[Channel]:
    for name, part in node.mapping().items() if node else ():
        _name(part, name, values.CHANNEL)
        fields = part.mapping((*_CHANNEL, "groups"), needed=("uri",))
        said = {field: fields[field].value(kind) for field, kind in _CHANNEL.items() if field in fields}
        groups = tuple(each.value(values.GROUP) for each in fields["groups"].items()) if "groups" in fields else ()
        if "groups" in fields and (not groups or len(set(groups)) < len(groups)):
            raise fields["groups"].refused("a list of groups, each of them once")
        yield Channel(name, groups=groups, **said)


def _vpc(node: Node) -> Vpc:
    parts = node.mapping(("subnets", "security_groups"), needed=("subnets", "security_groups"))

    def several(name: str, kind: Kind, most: int) -> tuple[str, ...]:
        found = tuple(each.value(kind) for each in parts[name].items())
        if not 1 <= len(set(found)) == len(found) <= most:
            raise parts[name].refused(f"a list of 1 to {most} {kind.wanted.split(', at')[0]}, each of them once")
        return found

    return Vpc(several("subnets", values.SUBNET, 16), several("security_groups", values.SECURITY_GROUP, 5))


def _named(node: Node | None, names: Kind, value: Any) -> dict[str, Any]:
    """Values under names that the user chose."""
    found = {}
    for name, part in node.mapping().items() if node else ():
        _name(part, name, names)
        found[name] = value(part)
    return found


def _name(part: Node, name: str, kind: Kind) -> None:
    try:
        kind.parse(name)
    except ValueError:
        raise part.refused(f"called by {kind.wanted}") from None


def _lines(node: Node, depth: int = 0) -> Iterator[tuple[str, int]]:
    """Where each part of a file stands, by its name. An alias may hold itself: what lies deep is left out."""
    yield node.name, node.line
    if isinstance(node.at, yaml.MappingNode) and depth < _DEEPEST:
        for part in node.mapping().values():
            yield from _lines(part, depth + 1)
