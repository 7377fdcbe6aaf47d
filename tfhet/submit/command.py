"""`tfhet submit`."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tfhet.errors import UsageError

if TYPE_CHECKING:
    from tfhet.submit.job import Job


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds `tfhet submit`."""
    submit = commands.add_parser("submit", help="create the training job of a job file on SageMaker")
    submit.add_argument("job", type=Path, metavar="JOB.yaml", help="the job file")
    how = submit.add_mutually_exclusive_group()
    how.add_argument("--dry-run", "--dry_run", action="store_true", help="print the request, and send nothing")
    how.add_argument("--wait", action="store_true", help="follow the job to its end")
    submit.add_argument("--name", help="of the training job (default: the job's name and the time)")
    submit.add_argument("--instances", type=Path, metavar="FILE", help="a catalogue file with types of yours")
    submit.add_argument("--json", type=Path, metavar="FILE", help="also write the request, without the secret")
    submit.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Returns 0; with --wait 1 when the job failed. Raises UsageError for a job that SageMaker would refuse."""
    from tfhet import catalogue
    from tfhet.aws import client
    from tfhet.submit import job_file, rules
    from tfhet.submit.submission import JobSubmission

    job = job_file.read(args.job, catalogue.default(args.instances))
    check_arguments(job)
    submission = JobSubmission.of(job, args.name)
    for note in rules.notes(job):
        print(f"[submit] {note}", file=sys.stderr)
    shown = json.dumps(submission.shown, indent=2, ensure_ascii=False)
    if args.json:
        args.json.write_text(shown + "\n", encoding="utf-8")
    if args.dry_run:
        print(shown)
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

    for name, value in job.parameters.items():
        try:
            LaunchSettings.parse([f"--{name}", str(value)])
        except UsageError as error:
            job.refuse(f"hyperparameters: {name}", f"must be what the launcher takes: {error}")
