"""`tfhet init`, `tfhet package` and `tfhet submit`: from an empty directory to a training job."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tfhet.cli.parser import STDOUT, add_examples, add_output, number, output_file, write_output
from tfhet.errors import Mistakes, UsageError

if TYPE_CHECKING:
    from tfhet.submit import Job


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    init = commands.add_parser("init", help="write the files of a first job: train.py, cluster.yaml, job.yaml")
    add_examples(init, "tfhet init first", "tfhet init first --torch")
    init.add_argument("directory", nargs="?", type=Path, default=Path(), help="default: this one")
    init.add_argument("--torch", action="store_true", help="a script for PyTorch (default: for Keras)")
    init.set_defaults(run=run_init)
    package = commands.add_parser("package", help="make the code directory of a job (source_dir), with tfhet in it")
    add_examples(package, "tfhet package src --script train.py")
    package.add_argument("directory", type=Path, help="to make or update; other files in it stay")
    package.add_argument("--script", type=Path, metavar="FILE", help="the training script; else the built-in trainer")
    package.add_argument("--requirements", type=Path, metavar="FILE", help="lines for requirements.txt")
    package.set_defaults(run=run_package)
    submit = commands.add_parser("submit", help="create the training job or tuning job of a job file on SageMaker")
    add_examples(submit, "tfhet submit --dry_run job.yaml", "tfhet submit job.yaml --wait")
    submit.add_argument("job", type=Path, metavar="JOB.yaml", help="the job file")
    how = submit.add_mutually_exclusive_group()
    how.add_argument("--dry_run", action="store_true", help="print the request, and send nothing")
    how.add_argument("--wait", action="store_true", help="follow the job to its end")
    submit.add_argument("--name", help="of the training job (default: the job's name and the time)")
    submit.add_argument("--instances", type=Path, metavar="FILE", help="a catalogue file with types of yours")
    submit.add_argument("--alarms", type=output_file, metavar="FILE", help="write CloudWatch alarms for CloudFormation")
    above_0 = number(float, above=0)
    submit.add_argument("--alarm_wait_pct", type=above_0, metavar="X", help="waiting above which it alarms (10)")
    submit.add_argument("--budget_usd", type=above_0, metavar="X", help="cost above which it alarms (default: none)")
    submit.add_argument("--alarm_topic", metavar="ARN", help="SNS topic of the alarms (default: none)")
    add_output(submit, "the request, without the secret,", has_tables=False)
    submit.set_defaults(run=run)


def run_init(args: argparse.Namespace) -> int:
    """Writes the files and prints the next commands. Raises UsageError if one of them exists."""
    from tfhet.submit import TEMPLATES

    names = ("train.py", "cluster.yaml", "job.yaml")
    if there := [name for name in names if (args.directory / name).exists()]:
        raise UsageError(f"{args.directory}: {', '.join(there)} is there already; give another directory, or move it")
    args.directory.mkdir(parents=True, exist_ok=True)
    own = TEMPLATES / "torch" if args.torch else TEMPLATES
    for name in names:
        shutil.copyfile(own / name if (own / name).exists() else TEMPLATES / name, args.directory / name)
    how = "--strategy torch --data_plane feed " if args.torch else ""
    print(f"{args.directory}: wrote {', '.join(names)}; there, type next:")
    print(f"  tfhet simulate cluster.yaml -- {how}--train_script train.py\n  tfhet package src --script train.py")
    print("  tfhet submit --dry_run job.yaml")
    return 0


def run_package(args: argparse.Namespace) -> int:
    """Makes the code directory. Raises UsageError if it would not start, or is another one."""
    from tfhet.submit import source_dir

    source_dir.make(args.directory, args.script, args.requirements)
    script = f", hyperparameter train_script={args.script.name}" if args.script else ""
    print(f"{args.directory} is ready: entry point launcher.py{script}")
    return 0


def run(args: argparse.Namespace) -> int:
    """Returns 0; with --wait 1 if the job failed. Raises UsageError for a job that SageMaker would refuse."""
    from tfhet import catalogue
    from tfhet.aws import client
    from tfhet.record import write_json
    from tfhet.submit import Alarms, JobSubmission, highest_cost, job_file, rules

    known = catalogue.default(args.instances)
    job = job_file.read(args.job, known)
    check_arguments(job)
    bounds = {"wait_pct": args.alarm_wait_pct, "budget_usd": args.budget_usd, "topic": args.alarm_topic}
    stated = {name: value for name, value in bounds.items() if value is not None}
    if stated and not args.alarms:
        raise UsageError("bounds and topic of alarms need --alarms FILE: the file that gets the alarms")
    if args.alarms == STDOUT:
        raise UsageError("--alarms -: standard output has the request already; name a file")
    if job.tuning and (args.alarms or args.wait):
        raise UsageError(
            f"{'--wait' if args.wait else '--alarms'} is for one training job, and {args.job} has tuning: list the "
            "training jobs of the tuning job in SageMaker, and follow one with `tfhet follow`"
        )
    submission = JobSubmission.of(job, args.name)
    template = Alarms(**stated).template(job, submission.name, known) if args.alarms else None
    notes = list(rules.notes(job, known))
    if left_out := submission.archive.left_out:
        notes.append(f"not packed, as hidden files and files with secrets are not: {', '.join(left_out)}")
    for note in (*notes, *filter(None, [highest_cost(job, known)])):
        print(f"[submit] {note}", file=sys.stderr)
    write_output(args, submission.shown)
    if template is not None:
        write_json(args.alarms, template)
        print(f"[submit] alarms of {submission.name}: {args.alarms}", file=sys.stderr)
    if args.dry_run:
        print(json.dumps(submission.shown, indent=2, ensure_ascii=False))
        return 0
    sagemaker = client("sagemaker", job.region)
    arn = submission.send(sagemaker, client("s3", job.region))
    print(f"{submission.name}: {arn}", flush=True)
    if not args.wait:
        return 0
    from tfhet.follow import follow

    return follow(submission.name, sagemaker, client("logs", job.region)).exit_code


def check_arguments(job: Job) -> None:
    """Raises UsageError, with the field and its line, for hyperparameters that the launcher would refuse."""
    from tfhet.launch import LaunchSettings

    with Mistakes() as mistakes:
        fixed = [(f"hyperparameters: {name}", name, (value,)) for name, value in job.parameters.items()]
        for where, name, values in (*fixed, *(job.tuning.parameters() if job.tuning else ())):
            try:
                for value in values:
                    LaunchSettings.parse([f"--{name}", str(value)])
            except UsageError as error:
                mistakes.add(job.mistake(where, f"must be what the launcher takes: {error}"))
