"""The section of a plan: the clusters that matter, and what it projects beside what runs measured.

The plan is read as JSON (`tfhet plan --json FILE`), so that a page can be made long after the plan.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from tfhet.advice import Finding, choice_of
from tfhet.errors import DataError
from tfhet.record import Interval, RunSummary, Spread, check_schema
from tfhet.report.chart import MOST

KIND, SCHEMA = "plan", 1

PlannedCluster: TypeAlias = Mapping[str, Any]
"""A cluster that the plan considered: its JSON with that of `cluster` in it, its intervals as `Interval`."""


def _planned(content: Mapping[str, Any]) -> PlannedCluster:
    """The cluster in a JSON object. Raises KeyError, TypeError or ValueError for anything else."""
    cluster, found = content["cluster"], {"layout": {}, "usd_per_million_examples": None, "fits": True, **content}
    for name in ("step_ms", "examples_per_s", "usd_per_million_examples"):
        if found[name] or name == "step_ms":
            found[name] = Interval(*(float(found[name][end]) for end in ("value", "low", "high")))
    hosts = {f"{role} {cluster[role]}": int(cluster[f"{role}_hosts"]) for role in ("dnn", "data")}
    return {**found, "text": str(cluster["text"]), "hosts": {name: count for name, count in hosts.items() if count}}


@dataclass(frozen=True)
class PlanView:
    """The plan as a page shows it."""

    candidates: Sequence[PlannedCluster]
    roles: Mapping[int, str]
    """`chosen`, `runner-up`, `today`, by index of the candidate."""
    decision: Sequence[str]
    """Sentences in the order in which to act."""
    notes: Sequence[str]

    @property
    def chosen(self) -> int | None:
        """Index of the chosen candidate; None where no cluster keeps the limits."""
        return next((index for index, role in self.roles.items() if "chosen" in role), None)

    @property
    def choice(self) -> Finding:
        """The plan's choice as a finding."""
        if self.chosen is None:
            return choice_of(None)
        one, is_today = self.candidates[self.chosen], "today" in self.roles[self.chosen]
        return choice_of(one["text"], binding=one["binding"], has_data=len(one["hosts"]) > 1, is_today=is_today)

    @property
    def listed(self) -> list[int]:
        """Indices of the candidates that have a line in the table: the roles, then the frontier."""
        frontier = [index for index, one in enumerate(self.candidates) if one["on_frontier"]]
        return list(dict.fromkeys([*self.roles, *frontier]))


def read_plan(content: Mapping[str, Any], where: str = "") -> PlanView:
    """The plan in a JSON object; `where` (a path) goes into the messages. Raises UsageError for another schema version
    and DataError for anything but a plan."""
    check_schema(content, KIND, SCHEMA, where)
    try:
        candidates = tuple(_planned(one) for one in content["candidates"])
        roles: dict[int, str] = {}
        for field, role in (("chosen", "chosen"), ("runner_up", "runner-up"), ("today", "today")):
            index = content.get(field)
            if index is not None and candidates[index]:
                roles[index] = f"{roles[index]}, {role}" if index in roles else role
        decision, notes = (tuple(str(line) for line in content.get(key) or ()) for key in ("decision", "notes"))
        return PlanView(candidates, roles, decision, notes)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise DataError(f"{KIND} {where}: cannot be read: {error!r}", where or None) from None


def projected(plan: PlanView, runs: Mapping[str, RunSummary]) -> list[tuple[str, PlannedCluster, Spread]]:
    """The measured runs whose cluster the plan considered: name, projection and measured milliseconds of a step."""
    found = []
    for name, run in runs.items():
        hosts: Counter[str] = Counter()
        for group in run.cluster.values():
            hosts[f"{group.get('role')} {group.get('instance_type')}"] += len(group.get("hosts") or ())
        one = next((each for each in plan.candidates if each["hosts"] == hosts and each["step_ms"].value > 0), None)
        if one and run.step_ms and 0 < run.step_ms.median < MOST:
            found.append((name, one, run.step_ms))
    return found
