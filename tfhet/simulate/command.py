"""`tfhet simulate`: runs a launcher on every host of a simulated cluster."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from tfhet.errors import UsageError


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds `tfhet simulate`; what is behind `--` comes as `command`."""
    simulate = commands.add_parser("simulate", help="run a launcher on every host of a simulated cluster")
    simulate.add_argument("cluster", nargs="?", help="a cluster file (YAML), or the name of a preset")
    simulate.add_argument(
        "--job",
        type=Path,
        metavar="JOB.yaml",
        help="instead of a cluster: the job of a job file, as `tfhet submit` sends it, on the directories that its "
        "channels have here (local: DIRECTORY); what is behind -- wins over its hyperparameters",
    )
    simulate.add_argument("--list", action="store_true", help="list the presets")
    simulate.add_argument(
        "--hosts",
        choices=("process", "namespace"),
        default="process",
        help="process: process trees, no root needed (default); namespace: containers, each with a network, root "
        "directory, process numbers and limits of its own",
    )
    simulate.add_argument(
        "--start",
        choices=("ranks", "alone", "toolkit"),
        help="ranks: a launcher for each rank, as horovodrun does (default for process hosts); toolkit: `train` of "
        "SageMaker's toolkit on each host, with MPI (default for namespace hosts); alone: one launcher on each host, "
        "which form the ring by themselves",
    )
    simulate.add_argument("--source_dir", "--source-dir", type=Path, help="what hosts see as their code (default: .)")
    simulate.add_argument(
        "--input_mode", "--input-mode", choices=("File", "FastFile"), default="File", help="of all channels"
    )
    simulate.add_argument(
        "--cpu_scale",
        "--cpu-scale",
        metavar="X",
        help="a host gets this part of its instance type's CPUs, memory and bandwidth; fit: as much as the machine has",
    )
    simulate.add_argument(
        "--limits_from",
        "--limits-from",
        choices=("start", "reading"),
        default="start",
        help="when these limits begin: with the hosts, or when the ranks begin to read",
    )
    simulate.add_argument("--run-dir", type=Path, help="where the run record goes; default: runs/NAME-TIME")
    simulate.add_argument("--checkpoints", type=Path, help="checkpoints that outlive the run; the next run resumes")
    simulate.add_argument("--max-run-s", type=float, default=3600.0, help="end the job after so long (default 3600)")
    simulate.add_argument(
        "--fault",
        action="append",
        default=[],
        metavar="KIND:TARGET[:after=3s][:every=5s][:for=4s]",
        help="what is done to the job on the way, like kill:worker@data-1:after=3s; may be given again",
    )
    simulate.add_argument(
        "--chaos", type=int, metavar="SEED", help="faults drawn by this seed; they are printed, to be done again"
    )
    simulate.add_argument(
        "--chaos-s", type=float, default=10.0, metavar="S", help="within so long after training began (default 10)"
    )
    simulate.add_argument("--seed", type=int, default=0, help="which host gets which name (default 0)")
    simulate.add_argument("--quiet", action="store_true", help="do not show the hosts' output")
    simulate.add_argument("--json", type=Path, help="also write the summary to this file")
    simulate.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """The exit code: 0, or 1 when the job failed. Raises UsageError for what cannot be run."""
    from tfhet import report
    from tfhet.launch.settings import LaunchSettings
    from tfhet.simulate import Fault, chaos, load, parse_scale, presets, run_dir, simulate

    if args.list:
        print("\n".join(presets()))
        return 0
    how: dict[str, Any] = {}
    if args.job is not None:
        from tfhet.simulate import job
        from tfhet.submit import read

        if args.cluster is not None:
            raise UsageError(f"--job {args.job} has a cluster of its own; leave {args.cluster} away")
        said = read(args.job)
        cluster, command, how = job.cluster_of(said), job.command_of(said, args.command), job.how(said, args.command)
    elif args.cluster is None:
        raise UsageError(f"which cluster? a YAML file, or one of: {', '.join(presets())}")
    elif not args.command:
        raise UsageError("what should run? put it behind --, like: -- scripts/launcher.py --epochs 1")
    else:
        cluster, command = load(args.cluster), args.command
    how |= {name: value for name, value in (("start", args.start), ("code", args.source_dir)) if value is not None}
    folder = args.run_dir or run_dir(cluster)
    faults = [Fault.parse(text) for text in args.fault]
    if args.chaos is not None:
        settings, _ = LaunchSettings.parse([*cluster.arguments(), *command[1:]])
        aim = chaos.Aim.of(cluster, settings, networks=args.hosts == "namespace")
        drawn = chaos.schedule(args.chaos, aim, args.chaos_s)
        print("chaos, the same as:", *(f"--fault {fault}" for fault in drawn))
        print("what may become of it:", ", ".join(sorted(chaos.allowed([*faults, *drawn], aim))), flush=True)
        faults += drawn
    summary = simulate(
        cluster,
        command,
        folder,
        max_run_s=args.max_run_s,
        checkpoints=args.checkpoints,
        seed=args.seed,
        faults=faults,
        on_line=(lambda line: None) if args.quiet else _say,
        hosts=args.hosts,
        input_mode=args.input_mode,
        cpu_scale=None if args.cpu_scale is None else parse_scale(args.cpu_scale),
        limits_from=args.limits_from,
        **how,
    )
    print(report.text(report.run_table(summary, folder)))
    if args.json:
        args.json.write_text(json.dumps(summary.to_json(), indent=1), encoding="utf-8")
    if summary.not_limited:
        print(f"not limited: {', '.join(summary.not_limited)}")
    if summary.cause:
        print(f"the job failed: {summary.cause}", file=sys.stderr)
    return 0 if summary.succeeded else 1


def _say(line: str) -> None:
    print(line, flush=True)
