"""`tfhet plan`: the cheapest cluster, and the cut."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from tfhet.cli.parser import add_examples, add_output, number, write_output
from tfhet.errors import UsageError
from tfhet.record import RUNS, latest_in

DATA_FAMILIES = "ml.c5,ml.c6i,ml.c7i"
"""Families of data hosts that a plan compares unless others are named."""
PLACE = "~/.config/tfhet/costs.json"


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    plan = commands.add_parser("plan", help="the cheapest cluster and the cut, from a profile and prices")
    add_examples(plan, "tfhet plan --run", "tfhet plan --profile p.json --cluster ml.g5.xlarge --accelerator_ms 80..92")
    plan.set_defaults(run=run, copied_bytes=0)
    whole, least_0, above_0 = number(int, 1), number(float, 0), number(float, above=0)

    def flag(name: str, to: argparse._ActionsContainer = plan, **more: Any) -> None:
        to.add_argument(f"--{name}", **more)

    words = "folder of a run, without one the latest in runs/: gives what the next five do not"
    flag("run", nargs="?", type=Path, const=RUNS, dest="run_dir", metavar="RUN_DIR", help=words)
    flag("profile", type=Path, metavar="FILE", help="record of: tfhet profile ... --json FILE (RUN_DIR/profile.json)")
    flag("cluster", metavar="TEXT", help="today's: ml.g5.xlarge, or 1*ml.p4d.24xlarge+2*ml.c5.18xlarge")
    step = plan.add_mutually_exclusive_group()
    flag("accelerator_ms", step, metavar="X", help="the step of one rank, with data at hand: 86, or 80..92")
    flag("accelerator_examples_per_s", step, metavar="X", help="or the throughput of one accelerator: 86, or 80..92")
    flag("batch_size", type=whole, metavar="N", help="batch size of one rank (default: that of run or profile)")
    flag("trainer_cpu_ms", type=least_0, metavar="X", help="CPU of a rank's process per step (default 0 without a run)")
    words = f"measure on this machine, in two minutes, what moving batches costs, and write it to FILE ({PLACE})"
    flag("calibrate", nargs="?", type=Path, const=Path(), metavar="FILE", help=words)
    flag("costs", type=Path, metavar="FILE", help=f"a file of --calibrate (default: {PLACE}, else the package's)")
    flag("source_mb_per_s", type=above_0, metavar="X", help="MB per second that one host can read (default: no limit)")
    flag(
        "memory_gb",
        type=above_0,
        metavar="X",
        help="memory that a dnn host of today's cluster needs (default: the run's)",
    )
    flag("gpu_memory_gb", type=above_0, metavar="X", help="memory that one GPU needs (default: the run's)")
    words = "disk that each host needs: channels in File mode, stored conversions, caches (default: the run's)"
    flag("disk_gb", type=above_0, metavar="X", help=words)
    words = "EBS volume of a host without disks of its own (default: by the job file of --write, else as needed)"
    flag("volume_gib", type=whole, metavar="N", help=words)
    flag("vcpu_speed", default="", metavar="TEXT", help="relative to the profiled CPU: ml.c5=1.1,ml.g5=0.9 (default 1)")
    flag("dnn", metavar="TYPES", help="types or families that may train (default: today's family)")
    flag("data", default=DATA_FAMILIES, metavar="TYPES", help="types or families for data (%(default)s)")
    flag("max_hosts", type=whole, default=8, metavar="N", help="maximum number of hosts of both groups (%(default)s)")
    flag("examples", type=above_0, metavar="N", help="examples of the whole training, for a deadline or a budget")
    flag("deadline_h", type=above_0, metavar="X", help="maximum number of hours; more ranks are considered then")
    flag("budget_usd", type=above_0, metavar="X", help="maximum cost")
    flag("region", default="us-east-1", metavar="NAME", help="region of the prices (default %(default)s)")
    flag("market", metavar="NAME", help="`sagemaker training` or `ec2` (default: a market that has all types)")
    flag("instances", type=Path, metavar="FILE", help="types and prices of your own, in YAML")
    add_output(plan, "the plan")
    flag("write", type=Path, metavar="JOB.yaml", help="put the cluster and the cut into a job file")


def run(args: argparse.Namespace) -> int:
    """Prints and writes the plan, or measures its costs. Returns 0, or 1 if no cluster keeps the limits."""
    if args.calibrate is not None:
        calibrate(None if args.calibrate == Path() else args.calibrate)
        return 0
    from tfhet import advice, catalogue, planes, report, submit
    from tfhet.plan import MeasuredRun, plan_of
    from tfhet.profile import Profile
    from tfhet.record import Record

    measured = MeasuredRun.read(latest_in(args.run_dir)) if args.run_dir else None
    path = args.profile or (measured.folder.profile_path if measured else None)
    if path is None or not path.is_file():
        hint = advice.profile_command(measured.folder, measured.run) if measured else advice.profile_command()
        raise UsageError(f"no profile of the pipeline{f' at {path}' if path else ''}; make one with: {hint}")
    profile = Profile.of(Record.read(path))
    cheaper = advice.of_pipeline(profile)
    saves_us = max((finding.saves_us for finding in cheaper), default=0.0)
    known = catalogue.default(args.instances)
    if args.write:
        job = submit.read(args.write, known)
        args.copied_bytes, args.volume_gib = job.copied_bytes, args.volume_gib or job.limits.volume_gib
    plan = plan_of(args, profile, planes.get(profile.plane), saves_us, measured)
    findings = advice.of_plan(plan, cheaper)
    decision = advice.sentences(findings)
    columns, rows = plan.table()
    report.show(report.table(rows, columns=columns, extras=6), wide=args.wide)
    print(*decision, *(f"- {note}" for note in plan.notes), sep="\n")
    write_output(args, plan.to_json() | {"decision": decision, "findings": findings})
    if plan.chosen is not None and args.write:
        print(f"job file: {submit.write_plan(args.write, plan, known)}")
    return int(plan.chosen is None)


def calibrate(file: Path | None) -> None:
    """Measures the costs of a plan on this machine, and writes them to `file` or to the user's folder."""
    import asyncio

    from tfhet import bench, planes, report

    path = file or planes.own_path()
    if path is None:
        raise UsageError("there is no home folder to write to: name a file, --calibrate costs.json")
    if path.is_dir():
        raise UsageError(f"{path} is a folder: name a file, --calibrate {path / 'costs.json'}")
    with report.progress_of("plan") as step:
        found = asyncio.run(bench.calibrate(step))
    columns = ["plane", "reader us/batch", "server us/batch", "reader s/GB", "server s/GB", ""]
    rows = []
    for name, one in found.costs.planes.items():
        per_batch_us = (1e6 * one.reader_cpu_s_per_batch.value, 1e6 * one.server_cpu_s_per_batch.value)
        per_gb = (one.reader_cpu_s_per_gb.value, one.server_cpu_s_per_gb.value)
        numbers = (report.number(value) for value in (*per_batch_us, *per_gb))
        rows.append([name, *numbers, "measured" if name in found.measured else "kept"])
    report.show(report.table(rows, columns=columns))
    speed = found.speed
    print(f"a vCPU of this machine: {speed.value:.3g} times the reference ({speed.low:.3g} to {speed.high:.3g})")
    print(*found.notes, f"costs: {found.costs.write(path)}", sep="\n")
    print("plans on this machine use it" if file is None else f"use it with: tfhet plan --costs {path}")
