"""`tfhet plan`: the cheapest cluster, and the cut."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from tfhet.plan.options import add_options

if TYPE_CHECKING:
    from tfhet.plan.result import Plan


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds `tfhet plan`."""
    plan = commands.add_parser("plan", help="the cheapest cluster and the cut, from a profile and prices")
    add_options(plan)
    plan.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Prints the plan and returns the exit code."""
    return exit_code(show(args))


def exit_code(plan: Plan) -> int:
    """0, or 1 when no cluster keeps the limits."""
    return 0 if plan.chosen is not None else 1


def show(args: argparse.Namespace) -> Plan:
    """Prints the plan that the options ask for, and writes it where they say so."""
    from tfhet import advice, planes, report
    from tfhet.plan import words
    from tfhet.plan.asked import plan_of
    from tfhet.profile import Profile
    from tfhet.record import Record, write_json

    plane = planes.get(planes.PREFERRED[0])
    profile = Profile.of(Record.read(args.profile))
    cheaper = advice.of_pipeline(profile)
    plan = plan_of(args, profile, plane, max((finding.saves_us for finding in cheaper), default=0.0))
    findings = advice.of_plan(plan, cheaper)
    decision = advice.sentences(findings)
    report.show(report.table(words.rows(plan), columns=words.columns(plan)))
    columns, rows = words.sensitivity_rows(plan)
    if rows:
        report.show(report.table(rows, columns=columns))
    print(*decision, *(f"- {note}" for note in plan.notes), sep="\n")
    if args.json:
        written = plan.to_json() | {"decision": decision, "findings": [finding.to_json() for finding in findings]}
        print(f"plan: {write_json(args.json, written)}")
    return plan
