"""The commands `tfhet convert`, which writes an image folder as TFRecords, and `tfhet index`, which writes indexes."""

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
    _add_index(commands)


def _add_index(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    index = commands.add_parser("index", help="write the index of each tar next to it, in a bucket or folder")
    add_examples(index, "tfhet index 's3://bucket/shards/*.tar'", "tfhet index --tfrecord az://container/records")
    index.add_argument(
        "files", nargs="+", help="files, or one directory or glob pattern; local, or s3://, gs://, az://"
    )
    index.add_argument("--image", default=None, metavar="EXTENSIONS", help="image of TarSource (jpg;jpeg;png;webp)")
    index.add_argument("--label", default=None, metavar="EXTENSION", help="label of TarSource (default cls)")
    index.add_argument("--tfrecord", action="store_true", help="the files are TFRecord files")
    index.set_defaults(run=run_index)


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


def run_index(args: argparse.Namespace) -> int:
    """Writes the indexes and prints their number; progress goes to standard error. Returns exit code 0."""
    from tfhet.errors import UsageError
    from tfhet.report import progress_of
    from tfhet.source import TarSource, write_record_indexes, write_tar_indexes

    options = {name: value for name in ("image", "label") if (value := getattr(args, name)) is not None}
    if args.tfrecord and options:
        raise UsageError(f"--{next(iter(options))} is for tars, and --tfrecord for TFRecord files: leave one out")
    files = args.files[0] if len(args.files) == 1 else args.files
    total = 0
    with progress_of("index") as step:

        def progressed(done: int, count: int) -> None:
            nonlocal total
            total = count
            step(done, count, "files")

        written = (
            write_record_indexes(files, progressed)
            if args.tfrecord
            else write_tar_indexes(TarSource(files, **options), progressed)
        )
    print(f"{written} indexes written; {total - written} of {total} were up to date")
    return 0
