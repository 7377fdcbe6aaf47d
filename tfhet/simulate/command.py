"""`tfhet simulate`: runs a launcher on every host of a simulated cluster."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from tfhet.errors import UsageError


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds `tfhet simulate`; `command` takes what comes after `--`."""
    simulate = commands.add_parser("simulate", help="run a launcher on every host of a simulated cluster")
    simulate.add_argument("cluster", nargs="?", help="a cluster file (YAML), or the name of a preset")
    simulate.add_argument(
        "--job",
        type=Path,
        metavar="JOB.yaml",
        help="instead of a cluster: the job of a job file, as `tfhet submit` sends it, on the directories that its "
        "channels have here (local: DIRECTORY); words after -- win over its hyperparameters",
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
        "which form Horovod's ring",
    )
    simulate.add_argument("--source_dir", "--source-dir", type=Path, help="code directory of the hosts (default: .)")
    simulate.add_argument(
        "--input_mode",
        "--input-mode",
        choices=("File", "FastFile"),
        default="File",
        help="of all channels (default: File)",
    )
    simulate.add_argument(
        "--cpu_scale",
        "--cpu-scale",
        metavar="X",
        help="scale of the instance types' CPUs, memory and bandwidth for the hosts; fit: the largest that fits",
    )
    simulate.add_argument(
        "--limits_from",
        "--limits-from",
        choices=("start", "reading"),
        default="start",
        help="when these limits begin: when the hosts start, or when the ranks begin to read",
    )
    simulate.add_argument("--run-dir", type=Path, help="folder of the run record; default: runs/NAME-TIME")
    simulate.add_argument("--checkpoints", type=Path, help="directory of checkpoints; the next run resumes")
    simulate.add_argument("--max-run-s", type=float, default=3600.0, help="maximum seconds of the job (default 3600)")
    simulate.add_argument(
        "--fault",
        action="append",
        default=[],
        metavar="KIND:TARGET[:after=3s][:every=5s][:for=4s]",
        help="fault to inject into the job, like kill:worker@data-1:after=3s; may be given again",
    )
    simulate.add_argument("--seed", type=int, default=0, help="seed of the hosts' names (default 0)")
    simulate.add_argument("--quiet", action="store_true", help="do not show the hosts' output")
    simulate.add_argument("--json", type=Path, help="also write the summary to this file")
    simulate.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """The exit code: 0, or 1 when the job failed. Raises UsageError for what cannot be run."""
    from tfhet import report
    from tfhet.simulate import Fault, load, parse_scale, presets, run_dir, simulate

    if args.list:
        print("\n".join(presets()))
        return 0
    how: dict[str, Any] = {}
    if args.job is not None:
        from tfhet.simulate.submission import of_job
        from tfhet.submit import read

        if args.cluster is not None:
            raise UsageError(f"--job {args.job} has a cluster of its own; omit {args.cluster}")
        cluster, command, how = of_job(read(args.job), args.command)
    elif args.cluster is None:
        raise UsageError(f"which cluster? a YAML file, or one of: {', '.join(presets())}")
    elif not args.command:
        raise UsageError("what should run? put it after --, like: -- scripts/launcher.py --epochs 1")
    else:
        cluster, command = load(args.cluster), args.command
    how |= {name: value for name, value in (("start", args.start), ("code", args.source_dir)) if value is not None}
    folder = args.run_dir or run_dir(cluster)
    faults = [Fault.parse(text) for text in args.fault]
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
