"""`tfhet try`: whether another data loader makes a script faster, measured in the running script."""

from __future__ import annotations

import argparse
import shlex
from dataclasses import asdict
from pathlib import Path

from tfhet.cli.parser import add_examples, file_only, number, write_output
from tfhet.errors import UsageError

SECONDS = 120.0


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    words = "compares data loaders in a running PyTorch script, and writes the fastest one as a patch"
    trial = commands.add_parser("try", help=words)
    add_examples(
        trial, "tfhet try -- python train.py", "tfhet try --seconds 30 --patch loader.patch -- python train.py"
    )
    words = "time of all measurements; the script is ended after them (default %(default)g)"
    trial.add_argument("--seconds", type=number(float, above=0.0), default=SECONDS, metavar="X", help=words)
    words = "file of the patch (default %(default)s)"
    trial.add_argument("--patch", type=file_only, default=Path("tfhet-try.patch"), metavar="FILE", help=words)
    words = "also write the measurements to this file"
    trial.add_argument("--json", type=file_only, metavar="FILE", help=words)
    trial.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Runs the command after `--`; returns 0. Raises UsageError for a command that has nothing to compare."""
    from tfhet.cluster import environment
    from tfhet.report import harmless
    from tfhet.watching import lines, patch_of, run_trial

    if not args.command:
        raise UsageError("what should run? put the command after --, like: tfhet try -- python train.py")
    result = run_trial(args.command, environment(), args.seconds)
    print("\n" + harmless("\n".join(lines(result))))
    write_output(args, asdict(result))
    if result.error:
        raise UsageError(result.error)
    patch, best = patch_of(result), result.best
    if patch is not None and best is not None:
        folder = patch.folder(Path.cwd())
        if content := patch.text(folder):
            args.patch.write_text(content, encoding="utf-8")
            where = "" if folder == Path.cwd() else f"-d {shlex.quote(str(folder))} "
            print(f"Patch for {best.name}: {args.patch} (patch -p1 {where}< {args.patch})")
        for each in patch.by_hand:
            print(harmless(f"by hand: {each}"))
    elif not result.keeps_up:
        print("No loader is faster than the script's own in every round: no patch.")
    return 0
