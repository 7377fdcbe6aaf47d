"""`tfhet simulate`: runs a launcher on every host of a simulated cluster."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfhet.cli.parser import add_examples, add_output, number, write_output
from tfhet.errors import Mistakes, UsageError

if TYPE_CHECKING:
    from tfhet.simulate import ClusterFile


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds `tfhet simulate`; `command` takes what comes after `--`: a launcher's file and arguments, or these alone."""
    simulate = commands.add_parser("simulate", help="run a launcher on every host of a simulated cluster")
    simulate.usage = "%(prog)s [options] [CLUSTER | --job FILE] -- [ENTRY_POINT] [ARGUMENTS]"
    add_examples(
        simulate,
        "tfhet simulate demo -- --train_script train.py --epochs 1",
        "tfhet simulate cluster.yaml --quiet --fault kill:worker@data-1 -- scripts/launcher.py --epochs 2",
    )
    option = simulate.add_argument
    option("cluster", nargs="?", metavar="CLUSTER", help="a cluster file (YAML), or a preset's name; none with --job")
    option("--job", type=Path, metavar="FILE", help="a job file, with local: DIRECTORY per channel; words after -- win")
    option("--list", action="store_true", help="list the presets")
    words = "process trees, which need no root, or containers with networks and limits of their own (default process)"
    option("--hosts", choices=("process", "namespace"), default="process", help=words)
    option(
        "--start",
        choices=("ranks", "alone", "toolkit"),
        help="ranks: a launcher for each rank, as horovodrun does (default for process hosts with Horovod); alone: one "
        "for each host, which starts those of its ranks (default for process hosts with another strategy); toolkit: by "
        "SageMaker's toolkit, with MPI (default for namespace hosts)",
    )
    option("--source_dir", type=Path, help="code directory of the hosts (default: .)")
    option("--input_mode", choices=("File", "FastFile"), default="File", help="default: File")
    words = "scale of the instance types' CPUs, memory and bandwidth for the hosts; fit: the largest that fits"
    option("--cpu_scale", metavar="X", help=words)
    words = "when these limits begin: when the hosts start, or when the ranks begin to read"
    option("--limits_from", choices=("start", "reading"), default="start", help=words)
    option("--run_dir", type=Path, help="folder of the run record; default: runs/NAME-TIME")
    option("--checkpoints", type=Path, help="directory of checkpoints; the next run resumes")
    option("--max_run_s", type=number(float, above=0), default=3600.0, help="maximum seconds of the job (default 3600)")
    option(
        "--fault",
        action="append",
        default=[],
        metavar="KIND[=AMOUNT]:TARGET[:from=end][:after=3s][:every=5s][:for=4s]",
        help="fault to inject into the job, like kill:worker@data-1:after=3s; may be given again; all kinds: "
        "docs/run-on-your-machine.md#faults",
    )
    option("--seed", type=int, default=0, help="seed of the hosts' names (default 0)")
    option("--quiet", action="store_true", help="do not show the hosts' output")
    add_output(simulate, "the summary", has_tables=False)
    simulate.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """The exit code: 0, 1 when the job failed, or 130 when it was stopped. Raises UsageError for what cannot be run."""
    from tfhet import report
    from tfhet.cluster import environment
    from tfhet.messages import MetricLine
    from tfhet.planes import is_noise
    from tfhet.simulate import STOPPED_ON_REQUEST, Fault, hyperparameters, presets, run_dir, simulate

    if args.list:
        print("\n".join(presets()))
        return 0
    faults: list[Fault] = []
    with Mistakes() as mistakes:
        for text in args.fault:
            with mistakes.noted():
                faults.append(Fault.parse(text))
        cluster, command, how = _asked(args)
    how |= {name: value for name, value in (("start", args.start), ("code", args.source_dir)) if value is not None}
    folder, colours = args.run_dir or run_dir(cluster), report.has_colours(sys.stdout, environment())
    given = (how.get("parameters") or hyperparameters(command, "")).get("epochs", "")
    epochs = int(given) if given.isdecimal() else None
    with report.progress_of("simulate", is_silent=True) as step:

        def say(line: str) -> None:
            if not args.quiet:
                print(report.painted(line, colours), flush=True)
            if found := MetricLine.parse(line):
                step(found.epoch, epochs, f"epochs: step {found.step}, {found.step_ms} ms, {found.wait_pct} % waiting")

        summary = simulate(
            cluster,
            command,
            folder,
            max_run_s=args.max_run_s,
            checkpoints=args.checkpoints,
            seed=args.seed,
            faults=faults,
            on_line=say,
            gather=lambda lines: report.gathered([line for line in lines if not is_noise(line)]).values(),
            hosts=args.hosts,
            input_mode=args.input_mode,
            cpu_scale=args.cpu_scale,
            limits_from=args.limits_from,
            **how,
        )
    report.show(report.run_table(summary, folder))
    report.show_next(summary, folder)
    write_output(args, summary.to_json())
    if summary.not_limited:
        print(f"not limited: {', '.join(summary.not_limited)}")
    if summary.cause:
        ended = "was stopped" if summary.outcome == "stopped" else "failed"
        print(f"the job {ended}: {report.harmless(summary.cause)}", file=sys.stderr)
    return 130 if summary.cause == STOPPED_ON_REQUEST else 0 if summary.succeeded else 1


def _asked(args: argparse.Namespace) -> tuple[ClusterFile, list[str], dict[str, Any]]:
    """The cluster, the command, and options of how it is to be started. Raises UsageError."""
    from tfhet import submit
    from tfhet.simulate import load, of_job, presets

    if args.job is not None:
        if args.cluster is not None:
            raise UsageError(f"--job {args.job} has a cluster of its own; omit {args.cluster}")
        return of_job(submit.read(args.job), args.command)
    if args.cluster is None:
        raise UsageError(f"which cluster? a YAML file, or one of: {', '.join(presets())}")
    with Mistakes() as mistakes:
        if not args.command:
            mistakes.add(UsageError("what should run? put it after --, like: -- --train_script train.py"))
        return load(args.cluster), args.command, {}
