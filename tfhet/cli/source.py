"""The command `tfhet convert`: writes an image folder as TFRecords."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tfhet.cli.parser import add_examples, number


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    convert = commands.add_parser("convert", help="write an image folder (a sub-folder for each class) as TFRecords")
    add_examples(
        convert,
        "tfhet convert photos data/train --store yuv420 --max_side 500",
        "tfhet convert photos data/train --size 224 224",
    )
    convert.add_argument("folder", type=Path)
    convert.add_argument("directory", type=Path, help="directory to write; it must not exist yet")
    words = "number of files to write; at least 4 for each worker (default %(default)s)"
    convert.add_argument("--shards", type=number(int, 1), default=16, metavar="N", help=words)
    convert.add_argument(
        "--size", type=number(int, 1), nargs=2, metavar=("HEIGHT", "WIDTH"), help="store raw RGB of one size"
    )
    words = "jpeg: the image files; yuv420, rgb: decoded, 1.5 or 3 bytes a pixel (default jpeg)"
    convert.add_argument("--store", choices=("jpeg", "yuv420", "rgb"), default="jpeg", help=words)
    words = (
        "reduce images whose longer side has more than N pixels; jpeg: written with quality 95, the others unchanged"
    )
    convert.add_argument("--max_side", type=number(int, 1), metavar="N", help=words)
    words = "decode JPEG for --store as decode(accurate=True)"
    convert.add_argument("--accurate", action="store_true", help=words)
    convert.add_argument(
        "--split", type=float, default=0.0, help="write DIRECTORY/training and, with this share, DIRECTORY/validation"
    )
    convert.add_argument("--classes", type=Path, metavar="RECORDS", help="number the classes as in these TFRecords")
    convert.add_argument("--seed", type=int, default=0, help="seed of the order, and of the split (default 0)")
    convert.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Writes the files and prints their directory; progress and counts go to standard error. Returns exit code 0."""
    from tfhet.errors import UsageError
    from tfhet.report import progress_of
    from tfhet.source import Sidecar, Store, from_image_folder

    classes = Sidecar.classes_of(args.classes) if args.classes else ()
    if args.classes and not classes:
        raise UsageError(f"--classes {args.classes}: it has no {Sidecar.NAME} that lists classes")
    lines = list[str]()
    with progress_of("convert") as step:

        def progressed(done: int, total: int) -> None:
            step(done, total, "images")

        size = tuple(args.size) if args.size else None
        store = Store(args.store, args.max_side, args.accurate)
        options = {"split": args.split, "classes": classes, "store": store, "report": lines.append}
        try:
            from_image_folder(args.folder, args.directory, args.shards, size, args.seed, progressed, **options)
        finally:  # the counts say why nothing could be written
            print("".join(f"[convert] {line}\n" for line in lines), end="", file=sys.stderr)
    print(args.directory)
    return 0
