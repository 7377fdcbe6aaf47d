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
    from tfhet import report
    from tfhet.record import RunFolder

    folders = [RunFolder(path) for path in args.run_dirs]
    summaries = [folder.read_summary() for folder in folders]
    for folder in folders:
        print(report.write_html(folder))
    table = report.compare(summaries) if len(summaries) > 1 else report.run_table(summaries[0], args.run_dirs[0])
    print(report.text(table))
    if args.json:
        args.json.write_text(json.dumps([s.to_json() for s in summaries], indent=1), encoding="utf-8")
    return 0


def _doctor(args: argparse.Namespace) -> int:
    from tfhet import doctor, report
    from tfhet.cluster import environment

    found = doctor.examine(environment(), args.run_dir)
    for section in found.sections():
        report.show(report.table(found.rows(section), columns=doctor.COLUMNS, title=section))
    if args.json:
        args.json.write_text(json.dumps(found.to_json(), indent=1), encoding="utf-8")
    print(found.verdict)
    return 0 if found.is_sound else 1


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

    report = commands.add_parser("report", help="the HTML page of a run, and a table of one or several")
    report.add_argument("run_dirs", nargs="+", type=Path)
    report.add_argument("--json", type=Path, help="also write the summaries to this file")
    report.set_defaults(run=_report)

    doctor = commands.add_parser("doctor", help="what is installed, what this machine can do, and what to do about it")
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
