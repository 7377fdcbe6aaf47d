"""`tfhet doctor`: examines, and prints a list for each section."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from tfhet.cli.parser import add_examples, add_output, write_output
from tfhet.errors import UsageError


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    doctor = commands.add_parser("doctor", help="finds what will fail: machine, versions, cluster, pipeline, script")
    add_examples(doctor, "tfhet doctor", "tfhet doctor --brief --cluster demo --script train.py")
    doctor.add_argument("--cluster", metavar="FILE", help="also examine a cluster file, or a preset")
    what = "a directory of TFRecords, `synthetic`, or FILE.py:NAME of a Pipeline, a tf.data.Dataset, or its function"
    doctor.add_argument("--pipeline", metavar="TARGET", help=f"also examine a data set: {what}")
    doctor.add_argument("--stages", metavar="TEXT", help="stages, or a chain's name, for a TARGET that is a source")
    doctor.add_argument("--script", type=Path, metavar="FILE", help="also read a training script, without running it")
    doctor.add_argument("--brief", action="store_true", help="leave out what is ok")
    doctor.add_argument("--run_dir", type=Path, help="directory for the files of simulated hosts")
    add_output(doctor, "the findings", has_tables=False)
    doctor.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Prints a list for each section. Returns 0, or 1 when something will fail."""
    from tfhet.cluster import environment
    from tfhet.doctor import examine
    from tfhet.report import progress_of, show

    if args.stages and not args.pipeline:
        raise UsageError("--stages is for --pipeline: name a source there")
    with progress_of("doctor") as step:
        found = examine(
            environment(),
            args.run_dir,
            cluster_file=args.cluster,
            target=args.pipeline,
            stages=args.stages,
            script_file=args.script,
            step=step,
        )
    show(found.listed(args.brief, shutil.get_terminal_size().columns))
    write_output(args, found.to_json())
    return 0 if found.is_sound else 1
