"""`tfhet watch`: whether a script waits for its input, without a change to the script."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tfhet.cli.parser import add_examples, add_output, write_output
from tfhet.errors import UsageError
from tfhet.record import RunFolder


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    watch = commands.add_parser("watch", help="is a training script input-bound? runs it unchanged, and answers")
    add_examples(
        watch,
        "tfhet watch -- python train.py --epochs 1",
        "tfhet watch --out runs/a -- torchrun --nproc_per_node 2 train.py",
    )
    watch.add_argument("--out", type=Path, metavar="DIR", help="folder of the run record (default: runs/NAME-TIME)")
    watch.add_argument("--name", metavar="N", help="name of the run (default: of the script)")
    add_output(watch, "the summary", has_tables=False)
    watch.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Runs the command after `--`; returns its exit code. Raises UsageError for a command that cannot be run."""
    from tfhet.cluster import environment
    from tfhet.report import harmless, write_html
    from tfhet.watching import new_folder, verdict, watch_command

    if not args.command:
        raise UsageError("what should run? put the command after --, like: tfhet watch -- python train.py")
    name = args.name or next((Path(word).stem for word in args.command if word.endswith(".py")), "watch")
    if "/" in name or name in (".", ".."):
        raise UsageError(f"--name {name}: a name has no / and is neither . nor ..")
    folder = new_folder(args.out, name)
    summary, code = watch_command(args.command, folder, name, environment())
    print(f"\n{harmless(verdict(RunFolder(folder)))}", file=sys.stderr)
    print(f"page: {write_html(folder)}", file=sys.stderr, flush=True)
    write_output(args, summary.to_json())
    return code
