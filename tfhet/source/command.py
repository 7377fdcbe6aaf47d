"""The command `tfhet convert`: writes an image folder as TFRecords."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds `tfhet convert`."""
    convert = commands.add_parser("convert", help="write an image folder (a sub-folder for each class) as TFRecords")
    convert.add_argument("folder", type=Path)
    convert.add_argument("directory", type=Path, help="directory to write; it must not exist yet")
    convert.add_argument(
        "--shards", type=int, default=16, help="number of files to write; at least 4 for each worker (default 16)"
    )
    convert.add_argument("--size", type=int, nargs=2, metavar=("HEIGHT", "WIDTH"), help="store raw RGB of this size")
    convert.add_argument("--seed", type=int, default=0, help="seed of the order of the examples (default 0)")
    convert.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Writes the files and prints their directory; progress goes to standard error. Returns exit code 0."""
    from rich.console import Console
    from rich.progress import Progress

    from tfhet.source.folder import from_image_folder

    out = sys.stderr
    with Progress(console=Console(file=out), disable=not out.isatty(), transient=True) as bar:
        task = bar.add_task("images", total=None)

        def progressed(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)
            if not out.isatty():
                print(f"[convert] {done} of {total} images", file=out, flush=True)

        size = tuple(args.size) if args.size else None
        print(from_image_folder(args.folder, args.directory, args.shards, size, args.seed, progressed))
    return 0
