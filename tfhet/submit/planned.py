"""A plan, written into a job file: its cluster, and where the pipeline is cut."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from tfhet.catalogue import Catalogue
from tfhet.cluster import DATA_GROUP, DNN_GROUP
from tfhet.errors import UsageError
from tfhet.submit.job import DATA, DNN, Job, Value
from tfhet.submit.job_file import parse

if TYPE_CHECKING:
    from tfhet.plan import Plan

_PLANNED = ("cut", "data_host_workers", "dnn_host_workers", "compression")


def with_plan(text: str, file: str, plan: Plan, known: Catalogue | None = None) -> str:
    """A job file's text with the cluster and the cut of a plan. `file`: its path, for messages.

    The sections `groups` (or `instances`) and `pipeline` are written anew, without their comments; all else stays as it
    is. Groups keep their names; spare ones go. Raises UsageError for a job file that is refused, before or with the
    plan in it, and for a plan of which no cluster keeps the limits.
    """
    job = parse(text, file, known)
    if plan.chosen is None:
        raise UsageError(f"{file} is left as it is: no cluster of the plan keeps the limits")
    said = plan.to_json()["candidates"][plan.chosen]
    cluster, layout = said["cluster"], said["layout"]
    had = "groups" if job.grouped else "instances"
    if job.grouped or cluster["data_hosts"]:
        text = _with_section(text, had, "groups", _groups(job, cluster))
    else:
        text = _with_section(text, had, had, {"type": cluster["dnn"], "count": cluster["dnn_hosts"]})
    pipeline: dict[str, Value] = {**job.pipeline, **{name: layout[name] for name in _PLANNED}}
    if not cluster["data_hosts"]:
        del pipeline["data_host_workers"]
    text = _with_section(text, "pipeline", "pipeline", pipeline)
    parse(text, f"{file} with the plan in it", known)
    return text


def write(path: Path, plan: Plan) -> Path:
    """`with_plan` of a file, in its place."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: no job file that can be read: {error}") from None
    path.write_text(with_plan(text, str(path), plan), encoding="utf-8")
    return path


def _groups(job: Job, cluster: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The section `groups` that a plan's cluster makes: data hosts first."""
    data, dnn = job.data.name if job.data else DATA_GROUP, job.dnn.name if job.grouped else DNN_GROUP
    groups: dict[str, dict[str, Any]] = {}
    if cluster["data_hosts"]:
        groups[data] = {"type": cluster["data"], "count": cluster["data_hosts"], "role": DATA}
    groups[dnn] = {"type": cluster["dnn"], "count": cluster["dnn_hosts"], "role": DNN}
    return groups


def _with_section(text: str, old: str, new: str, content: dict[str, Any]) -> str:
    """The text with the top-level section `old` replaced by `new`; with `new` at the end where there is no `old`.

    A section reaches to the next one; blank lines and comments that begin in the first column stay.
    """
    lines = [line.rstrip("\n") + "\n" for line in text.splitlines(keepends=True)]
    top = yaml.compose(text, Loader=yaml.SafeLoader)
    keys = [key for key, _ in top.value] if isinstance(top, yaml.MappingNode) else []
    begins = {key.value: key.start_mark.line for key in keys}
    begin = begins.get(old, len(lines))
    end = min((line for line in begins.values() if line > begin), default=len(lines))
    while end > begin and (lines[end - 1].isspace() or lines[end - 1].startswith("#")):
        end -= 1
    made = [f"{new}:\n", *(f"  {_flow(name)}: {_flow(value)}\n" for name, value in content.items())]
    return "".join([*lines[:begin], *made, *lines[end:]])


def _flow(value: object) -> str:
    """A value on one line."""
    return yaml.safe_dump([value], default_flow_style=True, width=100_000, sort_keys=False, allow_unicode=True)[1:-2]
