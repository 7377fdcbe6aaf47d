"""The job file: JOB.yaml, as a Job; `docs/submit.md` shows one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import yaml

from tfhet import catalogue
from tfhet.catalogue import Catalogue, Kind, Node
from tfhet.cluster import DATA_GROUP, DNN_GROUP, HOMOGENEOUS_GROUP
from tfhet.errors import UsageError
from tfhet.submit import rules, values
from tfhet.submit.job import (
    ALONE,
    DATA,
    DNN,
    FILE_SYSTEMS,
    MPI,
    Channel,
    CheckpointPlace,
    Code,
    FileSystem,
    Job,
    JobGroup,
    JobLimits,
    Keys,
    Profiler,
    Spot,
    Vpc,
)

_DEEPEST = 4
"""Maximum depth of a job file's nesting."""

_WORDS: Mapping[str, Kind] = {
    "name": values.JOB_NAME,
    "image": values.IMAGE,
    "role": values.ROLE,
    "output": values.S3,
    "region": catalogue.REGION_NAME,
    "start": values.START,
    "encrypt_traffic": values.TRUTH,
}
_NEEDED = ("name", "image", "role", "output", "code", "limits")
_SECTIONS: Mapping[str, tuple[type, Mapping[str, Kind], tuple[str, ...]]] = {
    "checkpoints": (CheckpointPlace, {"uri": values.S3, "directory": values.ABSOLUTE}, ()),
    "spot": (Spot, {"max_wait_s": values.SECONDS, "attempts": values.ATTEMPTS}, ("max_wait_s",)),
    "limits": (
        JobLimits,
        {"max_run_s": values.SECONDS, "volume_gib": values.VOLUME, "keep_alive_s": values.KEEP_ALIVE},
        ("max_run_s",),
    ),
    "keys": (Keys, {"output": values.KEY, "volume": values.KEY}, ()),
    "profiler": (Profiler, {"uri": values.S3, "interval_ms": values.INTERVAL, "disabled": values.TRUTH}, ()),
}
"""Parts that are single values by name: what they make, their fields, and the fields that must be given."""
_NAMES = {
    "hyperparameters": values.PARAMETER,
    "environment": values.VARIABLE,
    "channels": values.CHANNEL,
    "tags": values.TAG,
}
"""Parts with names that the user chooses."""
_PARTS = ("code", *_NAMES, "pipeline", "groups", "instances", "vpc", *_SECTIONS)
_CODE = {"directory": values.DIRECTORY, "script": values.SCRIPT, "uri": values.S3}
_GROUP = {"type": Kind(str, "an instance type"), "count": values.COUNT, "role": values.ROLE_OF_GROUP}
_CHANNEL = {"uri": values.S3, "mode": values.MODE, "local": values.DIRECTORY}
_FILE_SYSTEM = {"id": values.FILE_SYSTEM, "directory": values.ABSOLUTE, "access": values.ACCESS}


def read(path: Path, known: Catalogue | None = None) -> Job:
    """Returns the job of a file, whose relative directories are relative to the file's.

    known: instance types; None: the default catalogue. Raises UsageError for a file that cannot be read, or is refused.
    """
    return parse(catalogue.read_text(path, "job file"), str(path), known)


def parse(text: str, file: str, known: Catalogue | None = None) -> Job:
    """Returns the job of a text. Raises UsageError that names the file, the line and the field, and what it may be."""
    top = Node.parse(text, file)
    if top is None:
        raise UsageError(f"{file}: the job file is empty; it needs {', '.join(_NEEDED)}, and groups or instances")
    parts = top.mapping((*_WORDS, *_PARTS), needed=_NEEDED)
    given = {name: parts[name].value(word) for name, word in _WORDS.items() if name in parts}
    for name, (kind, fields, needed) in _SECTIONS.items():
        if name in parts:
            given[name] = kind(**parts[name].values(fields, needed))
    if not {"groups", "instances"} & parts.keys():
        raise UsageError(f"{file}:{top.line}: groups or instances must be given")
    if {"groups", "instances"} <= parts.keys():
        raise parts["instances"].refused("left out where there are groups: SageMaker takes one of them")
    known = known or catalogue.default()
    if "groups" in parts:
        groups = _groups(parts["groups"], known)
    else:
        only = parts["instances"].mapping(("type", "count", "ranks"), needed=("type", "count"))
        groups = (_group(HOMOGENEOUS_GROUP, DNN, only, known),)
    start = given.pop("start", None) or (MPI if sum(group.ranks * group.count for group in groups) > 1 else ALONE)
    named = {part: parts[part].named(names) if part in parts else {} for part, names in _NAMES.items()}
    environment, tags = named["environment"].items(), named["tags"].items()
    job = Job(
        **given,
        code=_code(parts["code"], Path(file).parent, given["output"]),
        groups=groups,
        grouped="groups" in parts,
        start=start,
        hyperparameters={name: values.plain(part) for name, part in named["hyperparameters"].items()},
        pipeline=parts["pipeline"].values(values.PIPELINE) if "pipeline" in parts else {},
        environment={name: str(part.value(values.VARIABLE_VALUE)) for name, part in environment},
        channels=tuple(_channel(name, part) for name, part in named["channels"].items()),
        vpc=_vpc(parts["vpc"]) if "vpc" in parts else None,
        tags={name: str(part.value(values.TAG_VALUE)) for name, part in tags},
        file=file,
        lines=dict(_lines(top)),
    )
    rules.check(job)
    return job


def _code(node: Node, beside: Path, output: str) -> Code:
    given = node.values(_CODE, needed=("directory", "script"))
    uri = given.get("uri", f"{output.rstrip('/')}/code")
    return Code(beside / given["directory"], given["script"], uri.rstrip("/"))


def _groups(node: Node, known: Catalogue) -> tuple[JobGroup, ...]:
    parts = node.named(values.GROUP)
    by_name = {DATA_GROUP: DATA, DNN_GROUP: DNN}
    found = []
    for name, part in parts.items():
        fields = part.mapping((*_GROUP, "ranks"), needed=("type", "count"))
        role = by_name.get(name, DNN if len(parts) == 1 else "")
        if "role" in fields:
            role = fields["role"].value(values.ROLE_OF_GROUP)
        if not role:
            raise part.refused(f"given a role ({', '.join(values.ROLES)}): only {', '.join(by_name)} have one by name")
        found.append(_group(name, role, fields, known))
    return tuple(found)


def _group(name: str, role: str, fields: Mapping[str, Node], known: Catalogue) -> JobGroup:
    type_name = fields["type"].value(_GROUP["type"])
    try:
        kind = known.instance(type_name)
    except UsageError as error:
        raise fields["type"].refused(f"an instance type that the catalogue has: {error}") from None
    ranks = max(1, kind.gpus) if role == DNN else 0
    if "ranks" in fields:
        if role != DNN:
            raise fields["ranks"].refused("left out: only the group that trains has ranks")
        ranks = fields["ranks"].value(values.RANKS)
        if kind.gpus and ranks > kind.gpus:
            raise fields["ranks"].refused(f"at most {kind.gpus}, one for each GPU of {kind.name}")
    return JobGroup(name, kind.name, fields["count"].value(values.COUNT), role, ranks)


def _channel(name: str, node: Node) -> Channel:
    fields = node.mapping((*_CHANNEL, *FILE_SYSTEMS, "groups"))
    given = {field: fields[field].value(kind) for field, kind in _CHANNEL.items() if field in fields}
    sources = [source for source in ("uri", *FILE_SYSTEMS) if source in fields]
    if len(sources) != 1:
        raise node.refused(f"given exactly one of uri, {', '.join(FILE_SYSTEMS)}")
    if (kind := sources[0]) in FILE_SYSTEMS:
        system = FileSystem(kind, **fields[kind].values(_FILE_SYSTEM, needed=("id", "directory")))
        given |= {"file_system": system, "uri": f"{kind}://{system.id}{system.directory}"}
    if "groups" not in fields:
        return Channel(name, **given)
    groups = tuple(each.value(values.GROUP) for each in fields["groups"].items())
    if not groups or len(set(groups)) < len(groups):
        raise fields["groups"].refused("a list of groups, each of them once")
    return Channel(name, groups=groups, **given)


def _vpc(node: Node) -> Vpc:
    parts = node.mapping(("subnets", "security_groups"), needed=("subnets", "security_groups"))

    def several(name: str, kind: Kind, most: int) -> tuple[str, ...]:
        found = tuple(each.value(kind) for each in parts[name].items())
        if not 1 <= len(set(found)) == len(found) <= most:
            raise parts[name].refused(f"a list of 1 to {most} {kind.wanted.split(', at')[0]}, each of them once")
        return found

    return Vpc(several("subnets", values.SUBNET, 16), several("security_groups", values.SECURITY_GROUP, 5))


def _lines(node: Node, depth: int = 0) -> Iterator[tuple[str, int]]:
    """Yields the name and the line of each part of a file, down to a depth: an alias may contain itself."""
    yield node.name, node.line
    if isinstance(node.at, yaml.MappingNode) and depth < _DEEPEST:
        for part in node.mapping().values():
            yield from _lines(part, depth + 1)
