"""`tfhet follow` and `tfhet diagnose`."""

from __future__ import annotations

import argparse
from pathlib import Path

from tfhet.cli.parser import add_examples, add_output, number, write_output


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    follow = commands.add_parser("follow", help="the log, steps and cost of a training job, to its end; its record")
    add_examples(
        follow, "tfhet follow my-job-1700000000", "tfhet follow my-job-1700000000 --region eu-west-1 --every_s 30"
    )
    follow.add_argument("--run_dir", type=Path, metavar="DIR", help="where its record goes (default: runs/JOB_NAME)")
    above_0, again = number(float, above=0), "look again after this time (default %(default)g)"
    follow.add_argument("--every_s", type=above_0, default=5.0, metavar="S", help=again)
    until = "give up after this time (default: as long as the job may take)"
    follow.add_argument("--deadline_s", type=above_0, metavar="S", help=until)
    follow.set_defaults(run=run_follow)
    diagnose = commands.add_parser("diagnose", help="whether a training job waits for its input, and what to do first")
    add_examples(diagnose, "tfhet diagnose my-job-1700000000")
    diagnose.set_defaults(run=run_diagnose)
    for command in (follow, diagnose):
        command.add_argument("job_name", metavar="JOB_NAME", help="of a training job that runs, or has ended")
        command.add_argument("--region", help="where it runs (default: of the AWS profile)")
        add_output(command, "the result", has_tables=command is diagnose)


def run_follow(args: argparse.Namespace) -> int:
    """Follows a job to its end. Returns 0 if it is completed."""
    from tfhet.aws import client
    from tfhet.follow import follow

    services = [client(service, args.region) for service in ("sagemaker", "logs")]
    limits = {"every_s": args.every_s, "deadline_s": args.deadline_s}
    followed = follow(args.job_name, *services, run_dir=args.run_dir, **limits)
    write_output(args, followed.summary.to_json())
    return followed.exit_code


def run_diagnose(args: argparse.Namespace) -> int:
    """Prints the verdict, its evidence, and what to do first. Returns 0 for any verdict."""
    from tfhet import report
    from tfhet.advice import sentence, sentences
    from tfhet.aws import client
    from tfhet.follow import COLUMNS, examine

    services = [client(service, args.region) for service in ("sagemaker", "logs", "cloudwatch")]
    found = examine(args.job_name, *services)
    if any(not use.is_empty for use in found.hosts):
        title = f"{found.state.name}: used, median (p10 to p90) over time"
        report.show(report.table(found.rows, columns=COLUMNS, title=title, extras=3), wide=args.wide)
    print(report.harmless(sentence(found.diagnosis.verdict)))
    for title, findings in (
        ("It rests on:", found.diagnosis.evidence),
        ("Try these, in this order:", found.diagnosis.levers),
        ("To know more next time:", found.diagnosis.next_run),
    ):
        if findings:
            lines = [f"  {number}. {text}" for number, text in enumerate(sentences(findings), 1)]
            print(report.harmless("\n".join(["", title, *lines])))
    write_output(args, found.to_json())
    return 0
