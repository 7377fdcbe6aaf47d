"""The job file: JOB.yaml, as a Job; `docs/submit.md` shows one."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from pathlib import Path

import yaml

from tfhet import catalogue
from tfhet.catalogue import Catalogue
from tfhet.cluster import DATA_GROUP, DNN_GROUP, HOMOGENEOUS_GROUP
from tfhet.errors import UsageError
from tfhet.submit import rules, values
from tfhet.submit.job import ALONE, DATA, DNN, FILE_SYSTEMS, MPI, ROLES, Channel, Code, FileSystem, Job, JobGroup
from tfhet.yaml_file import Kind, Node, one_of, read_text, readers

_DEEPEST = 4
"""Maximum depth of a job file's nesting."""
_NEEDED = ("name", "image", "role", "output", "code", "limits")
_CODE = {"directory": values.DIRECTORY, "script": values.SCRIPT, "uri": values.S3}
_GROUP = {"type": Kind(str, "an instance type"), "count": values.COUNT, "role": one_of(ROLES), "ranks": values.RANKS}


def read(path: Path, known: Catalogue | None = None) -> Job:
    """Returns the job of a file, whose relative directories are relative to the file's.

    known: instance types; None: the default catalogue. Raises UsageError for a file that cannot be read, or is refused.
    """
    return parse(read_text(path, "job file"), str(path), known)


def parse(text: str, file: str, known: Catalogue | None = None) -> Job:
    """Returns the job of a text. Raises UsageError that names the file, the line and the field, and what it may be."""
    top = Node.parse(text, file)
    if top is None:
        raise UsageError(f"{file}: the job file is empty; it needs {', '.join(_NEEDED)}, and groups or instances")
    parts = top.mapping((*readers(Job), "code", "channels", "groups", "instances"), _NEEDED)
    given = {name: reader(parts[name]) for name, reader in readers(Job).items() if name in parts}
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
    given.setdefault("start", MPI if sum(group.ranks * group.count for group in groups) > 1 else ALONE)
    channels = parts["channels"].named(values.CHANNEL) if "channels" in parts else {}
    job = Job(
        **given,
        code=_code(parts["code"], Path(file).parent, given["output"]),
        groups=groups,
        grouped="groups" in parts,
        channels=tuple(_channel(name, part) for name, part in channels.items()),
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
        fields = part.mapping(tuple(_GROUP), needed=("type", "count"))
        role = by_name.get(name, DNN if len(parts) == 1 else "")
        if "role" in fields:
            role = _GROUP["role"](fields["role"])
        if not role:
            raise part.refused(f"given a role ({', '.join(ROLES)}): only {', '.join(by_name)} have one by name")
        found.append(_group(name, role, fields, known))
    return tuple(found)


def _group(name: str, role: str, fields: Mapping[str, Node], known: Catalogue) -> JobGroup:
    type_name = _GROUP["type"](fields["type"])
    try:
        kind = known.instance(type_name)
    except UsageError as error:
        raise fields["type"].refused(f"an instance type that the catalogue has: {error}") from None
    ranks = max(1, kind.gpus) if role == DNN else 0
    if "ranks" in fields:
        if role != DNN:
            raise fields["ranks"].refused("left out: only the group that trains has ranks")
        ranks = values.RANKS(fields["ranks"])
        if kind.gpus and ranks > kind.gpus:
            raise fields["ranks"].refused(f"at most {kind.gpus}, one for each GPU of {kind.name}")
    return JobGroup(name, kind.name, values.COUNT(fields["count"]), role, ranks)


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
