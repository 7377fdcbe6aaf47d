"""The command line: parse, call one function, print."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from tfhet.errors import TfhetError, UsageError
from tfhet.events import Event


def _simulate(args: argparse.Namespace) -> int:
    from tfhet import report
    from tfhet.launch.settings import LaunchSettings
    from tfhet.simulate import Fault, chaos, load, parse_scale, presets, run_dir, simulate

    if args.list:
        print("\n".join(presets()))
        return 0
    if args.cluster is None:
        raise UsageError(f"which cluster? a YAML file, or one of: {', '.join(presets())}")
    if not args.command:
        raise UsageError("what should run? put it behind --, like: -- scripts/launcher.py --epochs 1")
    cluster = load(args.cluster)
    folder = args.run_dir or run_dir(cluster)
    faults = [Fault.parse(text) for text in args.fault]
    if args.chaos is not None:
        settings, _ = LaunchSettings.parse([*cluster.arguments(), *args.command[1:]])
        aim = chaos.Aim.of(cluster, settings, networks=args.hosts == "namespace")
        drawn = chaos.schedule(args.chaos, aim, args.chaos_s)
        print("chaos, the same as:", *(f"--fault {fault}" for fault in drawn))
        print("what may become of it:", ", ".join(sorted(chaos.allowed([*faults, *drawn], aim))), flush=True)
        faults += drawn
    summary = simulate(
        cluster,
        args.command,
        folder,
        max_run_s=args.max_run_s,
        checkpoints=args.checkpoints,
        seed=args.seed,
        faults=faults,
        on_line=(lambda line: None) if args.quiet else _say,
        hosts=args.hosts,
        start=args.start,
        code=args.source_dir,
        input_mode=args.input_mode,
        cpu_scale=None if args.cpu_scale is None else parse_scale(args.cpu_scale),
        limits_from=args.limits_from,
    )
    print(report.text(report.run_table(summary, folder)))
    if args.json:
        args.json.write_text(json.dumps(summary.to_json(), indent=1), encoding="utf-8")
    if summary.not_limited:
        print(f"not limited: {', '.join(summary.not_limited)}")
    if summary.cause:
        print(f"the job failed: {summary.cause}", file=sys.stderr)
    return 0 if summary.succeeded else 1


def _report(args: argparse.Namespace) -> int:
    from tfhet.report import run_report

    files = {"profile": args.profile, "plan": args.plan, "html": args.html, "json_file": args.json}
    return run_report(args.paths, region=args.region, **files)


def _top(args: argparse.Namespace) -> int:
    from tfhet.report import run_top

    return run_top(args.run_dir, once=args.once, every_s=args.every_s, stale_s=args.stale_s)


def _doctor(args: argparse.Namespace) -> int:
    from tfhet.doctor import command

    return command.run(args)


def _convert(args: argparse.Namespace) -> int:
    from rich.console import Console
    from rich.progress import Progress

    from tfhet.source.folder import from_image_folder

    out = sys.stderr
    with Progress(console=Console(file=out), disable=not out.isatty(), transient=True) as bar:
        task = bar.add_task("images", total=None)

        def progressed(event: Event) -> None:
            done, total = event.fields["done"], event.fields["total"]
            bar.update(task, completed=done, total=total)
            if not out.isatty():
                print(f"[convert] {done} of {total} images", file=out, flush=True)

        size = tuple(args.size) if args.size else None
        print(from_image_folder(args.folder, args.directory, args.shards, size, args.seed, progressed))
    return 0


def _profile(args: argparse.Namespace) -> int:
    from tfhet import profile, report
    from tfhet.placement import Pipeline
    from tfhet.record import Figure, median

    for name in ("batch_size", "repeats", "budget_s", "accelerator_examples_per_s"):
        if getattr(args, name) is not None and not getattr(args, name) > 0:
            raise UsageError(f"--{name} {getattr(args, name)}: give more than 0")
    if args.plot:
        report.check_plot(args.plot)
    target = profile.load(args.target, args.stages, args.batch_size)
    declared = isinstance(target, Pipeline)
    parts = profile.parts_of_pipeline(target) if isinstance(target, Pipeline) else profile.parts_of_dataset(target)
    effort = profile.Effort(args.budget_s, args.repeats)
    found = profile.measure("pipeline" if declared else "dataset", parts, effort, observer=_profiled)
    rows = [
        [cost.name, found.us(i), f"{found.share(i):.0%}", median(found.alone_us(i)), cost.bytes_per_example]
        for i, cost in enumerate(found.costs)
    ]
    rows.append(["the whole", found.whole_us, "100%", None, None])
    columns = ["part", "CPU us per example", "share", "alone", "bytes behind it"]
    report.show(report.table(rows, columns=columns))
    residue = found.sum_over_whole()
    print(f"The parts alone sum to {residue.value:.2f} of the whole ({residue.low:.2f} to {residue.high:.2f}).")
    for advice in profile.advise(found):
        saves = f"saves up to {advice.saves_us:.1f} us: " if advice.saves_us else ""
        print(f"- {saves}{advice.text}")
    if args.accelerator_examples_per_s:
        print(profile.feeding(found, args.accelerator_examples_per_s))
    if args.json:
        command = ("tfhet", *sys.argv[1:])
        print(f"record: {found.record(command).write(args.json)}")
    if args.plot:
        bars = {cost.name: Figure.of(found.added_us(i), unit="us") for i, cost in enumerate(found.costs)}
        print(f"plot: {report.plot_bars(bars, args.plot, title='CPU microseconds per example')}")
    return 0


def _prices(args: argparse.Namespace) -> int:
    from tfhet import catalogue, report

    if args.types == ["refresh"]:
        path, found = catalogue.refresh(args.region, args.file)
        print(f"{len(found.usd_per_hour)} prices of training in {found.region}, of {found.date}: {path}")
        return 0
    if args.file is not None:
        raise UsageError("--file says where `tfhet prices refresh` writes: name a catalogue file with --instances FILE")
    known = catalogue.default()
    if args.instances is not None:
        known = known.with_file(args.instances)
    rows = catalogue.listing(known, args.types, args.region, args.market)
    report.show(report.table(catalogue.shown(rows), columns=catalogue.COLUMNS, title=args.region))
    for note in catalogue.notes(known, rows, args.region):
        print(note)
    if args.json:
        args.json.write_text(json.dumps({"region": args.region, "prices": rows}, indent=1), encoding="utf-8")
    return 0


def _timeline(args: argparse.Namespace) -> int:
    from tfhet import report
    from tfhet.record import RunFolder, chrome, scalars, shares

    folder = RunFolder(args.run_dir)
    found = folder.timeline()
    if found.is_empty:
        raise UsageError(f"{args.run_dir} holds no times of hosts or steps: run the job with --timeline hosts or steps")
    for title, columns, rows in shares.tables(found):
        report.show(report.table(rows, columns=columns, title=title))
    if args.chrome:
        print(chrome.write(found, folder.events(), args.chrome))
    if args.tensorboard:
        print("\n".join(map(str, scalars.write(found, args.tensorboard))))
    if args.json:
        args.json.write_text(json.dumps(shares.to_json(found), indent=1), encoding="utf-8")
    return 0


def _plan(args: argparse.Namespace) -> int:
    from tfhet import report
    from tfhet.plan import command, words
    from tfhet.record import document
    from tfhet.report.scatter import plot_points

    if args.plot:
        report.check_plot(args.plot)
    plan = command.plan_of(args)
    report.show(report.table(words.rows(plan), columns=words.COLUMNS))
    columns, rows = words.sensitivity_rows(plan)
    if rows:
        report.show(report.table(rows, columns=columns))
    print(*plan.decision, *(f"- {note}" for note in plan.notes), sep="\n")
    if args.json:
        print(f"plan: {document.write(args.json, plan.to_json())}")
    if args.plot and (drawn := words.frontier_plot(plan)):
        print(f"plot: {plot_points(path=args.plot, **drawn)}")
    return 0 if plan.chosen is not None else 1


def _profiled(event: Event) -> None:
    if event.name == "profile.started":
        count = len(event.fields["parts"])
        print(f"[profile] {count} parts, {event.fields['examples']} examples a run", file=sys.stderr, flush=True)
    elif event.fields["done"]:
        print(f"[profile] round {event.fields['done']} of {event.fields['total']}", file=sys.stderr, flush=True)


def _say(line: str) -> None:
    print(line, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tfhet", description="Keeps GPUs from waiting for their input.")
    commands = parser.add_subparsers(dest="name", required=True, metavar="COMMAND")

    simulate = commands.add_parser(
        "simulate", help="run a launcher on every host of a simulated cluster", description=_simulate.__doc__
    )
    simulate.add_argument("cluster", nargs="?", help="a cluster file (YAML), or the name of a preset")
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
    simulate.set_defaults(run=_simulate)

    report = commands.add_parser("report", help="the HTML page of runs and records, and a table of them")
    report.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="folder of a run, summary, or bench record")
    report.add_argument("--profile", type=Path, metavar="FILE", help="what `tfhet profile --json` wrote: stage costs")
    report.add_argument("--plan", type=Path, metavar="FILE", help="what `tfhet plan --json` wrote: its frontier")
    report.add_argument("--region", default="us-east-1", help="whose prices the table takes (default %(default)s)")
    report.add_argument("--html", type=Path, metavar="FILE", help="the page of all that is given (report.html)")
    report.add_argument("--json", type=Path, metavar="FILE", help="also write the summaries to this file")
    report.set_defaults(run=_report)

    timeline = commands.add_parser("timeline", help="where the time of a run went: by rank, process and host")
    timeline.add_argument("run_dir", type=Path, metavar="RUN_DIR")
    timeline.add_argument("--chrome", type=Path, metavar="FILE", help="write a trace that Perfetto opens")
    timeline.add_argument("--tensorboard", type=Path, metavar="DIR", help="write scalars for TensorBoard")
    timeline.add_argument("--json", type=Path, metavar="FILE", help="also write the tables to this file")
    timeline.set_defaults(run=_timeline)

    top = commands.add_parser("top", help="a run as it goes on: steps, hosts, restarts, faults")
    top.add_argument("run_dir", type=Path, metavar="RUN_DIR")
    top.add_argument("--once", action="store_true", help="one picture, and end")
    top.add_argument("--every_s", "--every-s", type=float, default=1.0, metavar="S", help="look again (default 1)")
    top.add_argument("--stale_s", "--stale-s", type=float, default=60.0, metavar="S", help="of silence (default 60)")
    top.set_defaults(run=_top)

    doctor = commands.add_parser(
        "doctor", help="what will fail, and what could be better: machine, versions, cluster, pipeline, script"
    )
    doctor.add_argument("--cluster", metavar="FILE", help="also look at a cluster file, or a preset")
    doctor.add_argument(
        "--pipeline",
        metavar="TARGET",
        help="also look at a data set: a directory of TFRecords, `synthetic`, or FILE.py:NAME of a Pipeline, a "
        "tf.data.Dataset, or a function that makes one",
    )
    doctor.add_argument("--stages", metavar="TEXT", help="of a TARGET that is a source: stages, or the name of a chain")
    doctor.add_argument("--script", type=Path, metavar="FILE", help="also read a training script, without running it")
    doctor.add_argument("--brief", action="store_true", help="leave out what is ok")
    doctor.add_argument("--run-dir", type=Path, help="where simulated clusters would keep what their hosts write")
    doctor.add_argument("--json", type=Path, metavar="FILE", help="also write the findings to this file")
    doctor.set_defaults(run=_doctor)

    convert = commands.add_parser("convert", help="write an image folder (a sub-folder for each class) as TFRecords")
    convert.add_argument("folder", type=Path)
    convert.add_argument("directory", type=Path, help="where to; must not exist yet")
    convert.add_argument(
        "--shards", type=int, default=16, help="files to write; at least 4 for each worker (default 16)"
    )
    convert.add_argument("--size", type=int, nargs=2, metavar=("HEIGHT", "WIDTH"), help="store raw RGB of this size")
    convert.add_argument("--seed", type=int, default=0, help="of the order of the examples (default 0)")
    convert.set_defaults(run=_convert)

    prices = commands.add_parser("prices", help="what instance types cost, who says so, and of which day that is")
    prices.add_argument(
        "types",
        nargs="*",
        metavar="TYPE",
        help="instance types (default: all with a price); refresh: ask AWS for prices",
    )
    prices.add_argument("--region", default="us-east-1", metavar="R", help="default %(default)s")
    prices.add_argument("--market", choices=("sagemaker training", "ec2"), help="only what is bought there")
    prices.add_argument(
        "--instances", type=Path, metavar="FILE", help="a catalogue file with types and prices of yours"
    )
    prices.add_argument("--file", type=Path, metavar="FILE", help="where refresh writes; default: where it is read")
    prices.add_argument("--json", type=Path, metavar="FILE", help="also write the table to this file")
    prices.set_defaults(run=_prices)

    profile = commands.add_parser(
        "profile", help="the CPU of an input pipeline, part by part, and what would help most"
    )
    profile.add_argument(
        "target", help="a directory of TFRecords, `synthetic`, or FILE.py:NAME of a Pipeline or tf.data.Dataset"
    )
    profile.add_argument("--stages", metavar="TEXT", help="stages, or the name of a chain")
    profile.add_argument(
        "--batch_size", "--batch-size", type=int, default=128, metavar="N", help="of a source (default %(default)s)"
    )
    profile.add_argument(
        "--budget_s", "--budget-s", type=float, default=30.0, metavar="S", help="CPU seconds (default %(default)s)"
    )
    profile.add_argument("--repeats", type=int, default=5, metavar="N", help="measured rounds (default %(default)s)")
    profile.add_argument(
        "--accelerator_examples_per_s",
        "--accelerator-examples-per-s",
        type=float,
        metavar="N",
        help="also say how many cores feed an accelerator that takes so many",
    )
    profile.add_argument("--json", type=Path, metavar="FILE", help="write the record, raw samples included")
    profile.add_argument("--plot", type=Path, metavar="FILE", help="write bars (.png, .svg or .pdf)")
    profile.set_defaults(run=_profile)

    from tfhet.plan.options import add_options

    plan = commands.add_parser("plan", help="the cheapest cluster and the cut, from a profile and prices")
    add_options(plan)
    plan.set_defaults(run=_plan)

    commands.add_parser("bench", help="measure: tfhet bench SUITE ...", add_help=False)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command. Exit codes: 0 ok, 1 the job failed, 2 wrong use."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        if words[:1] == ["bench"]:
            from tfhet import bench

            return bench.run(words[1:])
        # What is behind -- belongs to the command that is to be run.
        own, command = (words[: words.index("--")], words[words.index("--") + 1 :]) if "--" in words else (words, [])
        args = _parser().parse_args(own)
        args.command = command
        return int(args.run(args))
    except TfhetError as error:
        print(f"tfhet: error: {error}", file=sys.stderr)
        return error.exit_code


if __name__ == "__main__":
    raise SystemExit(main())
