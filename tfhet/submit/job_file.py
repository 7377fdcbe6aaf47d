"""The job file: JOB.yaml, as a Job; `docs/submit.md` shows one."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from tfhet import catalogue, strategies
from tfhet.catalogue import Catalogue, Instance
from tfhet.cluster import DATA_GROUP, DNN_GROUP, HOMOGENEOUS_GROUP
from tfhet.errors import Mistakes, UsageError
from tfhet.submit import rules, values
from tfhet.submit.job import (
    ALONE,
    DATA,
    DNN,
    FILE_SYSTEMS,
    MPI,
    ROLES,
    Channel,
    Code,
    FileSystem,
    Job,
    JobGroup,
    hosts_with_ranks,
)
from tfhet.yaml_file import Kind, Node, Reader, one_of, read_each, read_text, readers

_BY_NAME = {DATA_GROUP: DATA, DNN_GROUP: DNN, **{role.group: role.name for role in strategies.roles()}}
"""Groups whose name says their role."""
_DEEPEST = 4
"""Maximum depth of a job file's nesting."""
_NEEDED = ("name", "image", "role", "output", "code", "limits")
_CODE = {"directory": values.DIRECTORY, "script": values.SCRIPT, "uri": values.S3}
_TYPE = Kind(str, "an instance type")


def read(path: Path, known: Catalogue | None = None) -> Job:
    """Returns the job of a file, whose relative directories are relative to the file's. known: instance types; None:
    the default catalogue. Raises UsageError for a file that cannot be read, or is refused."""
    return parse(read_text(path, "job file"), str(path), known)


def parse(text: str, file: str, known: Catalogue | None = None) -> Job:
    """Returns the job of a text. Raises UsageError that names the file, the line and the field, and what it may be."""
    top = Node.parse(text, file)
    if top is None:
        raise UsageError(f"{file}: the job file is empty; it needs {', '.join(_NEEDED)}, and groups or instances")
    known = known or catalogue.default()
    own: dict[str, Reader] = {
        "code": lambda node: _code(node, Path(file).parent),
        "channels": lambda node: read_each(node.named(values.CHANNEL), lambda name: functools.partial(_channel, name)),
        "groups": lambda node: _groups(node, known),
        "instances": lambda node: (_group(HOMOGENEOUS_GROUP, DNN, node, known, may_say_role=False),),
    }
    with Mistakes() as mistakes:
        parts = top.mapping(mistakes=Mistakes())
        if not {"groups", "instances"} & parts.keys():
            mistakes.add(UsageError(f"{file}:{top.line}: groups or instances must be given"))
        if {"groups", "instances"} <= parts.keys():
            mistakes.add(parts["instances"].refused("left out where there are groups: SageMaker takes one of them"))
        given = top.values({**readers(Job), **own}, _NEEDED)
    parameters = given.get("hyperparameters", {})
    groups = _with_ranks(given.pop("instances", ()) or given["groups"], parameters, known)
    ranks = sum(group.ranks * hosts_with_ranks(parameters, group.count) for group in groups)
    code = given["code"]
    job = Job(
        **{
            "start": MPI if ranks > 1 else ALONE,
            **given,
            "code": code if code.uri else replace(code, uri=f"{given['output'].rstrip('/')}/code"),
            "groups": groups,
            "channels": tuple(given.get("channels", {}).values()),
        },
        grouped="groups" in given,
        file=file,
        lines=dict(_lines(top)),
    )
    rules.check(job)
    return job


def _code(node: Node, beside: Path) -> Code:
    """Its address is "" where none is given."""
    given = node.values(_CODE, needed=("directory", "script"))
    return Code(beside / given["directory"], given["script"], given.get("uri", "").rstrip("/"))


def _groups(node: Node, known: Catalogue) -> tuple[JobGroup, ...]:
    parts = node.named(values.GROUP)

    def read(name: str) -> Reader:
        return lambda part: _group(name, _BY_NAME.get(name, DNN if len(parts) == 1 else ""), part, known)

    return tuple(read_each(parts, read).values())


def _group(name: str, role: str, node: Node, known: Catalogue, *, may_say_role: bool = True) -> JobGroup:
    """role: by the group's name; "" where that says none."""

    def instance(part: Node) -> Instance:
        name = _TYPE(part)
        try:
            return known.instance(name)
        except UsageError as error:
            raise part.refused(f"an instance type that the catalogue has: {error}") from None

    fields: dict[str, Reader] = {"type": instance, "count": values.COUNT, "ranks": values.RANKS}
    given = node.values({**fields, **({"role": one_of(ROLES)} if may_say_role else {})}, needed=("type", "count"))
    role, kind, ranks = given.get("role", role), given["type"], given.get("ranks")
    if not role:
        raise node.refused(f"given a role ({', '.join(ROLES)}): only {', '.join(_BY_NAME)} have one by name")
    if ranks and role != DNN:
        raise node.mapping()["ranks"].refused("left out: only the group that trains has ranks")
    if ranks and kind.gpus and ranks > kind.gpus:
        raise node.mapping()["ranks"].refused(f"at most {kind.gpus}, one for each GPU of {kind.name}")
    return JobGroup(name, kind.name, given["count"], role, ranks or 0)


def _with_ranks(groups: tuple[JobGroup, ...], parameters: Mapping[str, Any], known: Catalogue) -> tuple[JobGroup, ...]:
    """The groups, of which that which trains has ranks: where the file gives none, as many as its strategy takes on a
    host, or as a host has GPUs."""
    name = parameters.get("strategy", strategies.AUTO)
    usual = strategies.get(name).ranks_per_host if name in strategies.names() else None

    def ranks(group: JobGroup) -> int:
        return group.ranks or usual or max(1, known.instance(group.instance_type).gpus)

    return tuple(replace(group, ranks=ranks(group)) if group.role == DNN else group for group in groups)


def _channel(name: str, node: Node) -> Channel:
    systems = {kind: functools.partial(Node.made, cls=FileSystem, kind=kind) for kind in FILE_SYSTEMS}
    given = node.values({**readers(Channel), **systems})
    mounted = [given.pop(kind) for kind in systems if kind in given]
    if len(mounted) + ("uri" in given) != 1:
        raise node.refused(f"given exactly one of uri, {', '.join(FILE_SYSTEMS)}")
    for system in mounted:
        given |= {"file_system": system, "uri": f"{system.kind}://{system.id}{system.directory}"}
    return Channel(name, **given)


def _lines(node: Node, depth: int = 0) -> Iterator[tuple[str, int]]:
    """Yields the name and the line of each part of a file, down to a depth: an alias may contain itself."""
    yield node.name, node.line
    if isinstance(node.at, yaml.MappingNode) and depth < _DEEPEST:
        for part in node.mapping().values():
            yield from _lines(part, depth + 1)
