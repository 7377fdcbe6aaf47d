"""`tfhet watch`: whether a script waits for its input, without a change to the script."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tfhet.cli.parser import add_examples, file_only, write_output
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
    words = "also write the summary to this file; standard output belongs to the command"
    watch.add_argument("--json", type=file_only, metavar="FILE", help=words)
    watch.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Runs the command after `--`; returns its exit code. Raises UsageError for a command that cannot be run."""
    from tfhet.cluster import environment
    from tfhet.report import harmless, write_html
    from tfhet.watching import WatchedCommand, new_folder, verdict

    if not args.command:
        raise UsageError("what should run? put the command after --, like: tfhet watch -- python train.py")
    name = args.name or next((Path(word).stem for word in args.command if word.endswith(".py")), "watch")
    if "/" in name or name in (".", ".."):
        raise UsageError(f"--name {name}: a name has no / and is neither . nor ..")
    folder = new_folder(args.out, name)
    watched = WatchedCommand(args.command, folder, name)
    code = watched.run(environment())
    try:
        summary = watched.write()
        print(f"\n{harmless(verdict(RunFolder(folder)))}", file=sys.stderr)
        print(f"page: {write_html(folder)}", file=sys.stderr, flush=True)
        write_output(args, summary.to_json())
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001  the exit code is the command's in any case
        reason = f"{type(error).__name__}: {error}"
        print(f"tfhet watch: the record in {folder} is incomplete: {harmless(reason)}", file=sys.stderr, flush=True)
    return code
