"""The command line: each room adds its commands; parse, call one function."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tfhet.catalogue import command as catalogue
from tfhet.doctor import command as doctor
from tfhet.errors import TfhetError
from tfhet.follow import command as follow
from tfhet.plan import command as plan
from tfhet.profile import command as profile
from tfhet.report import command as report
from tfhet.simulate import command as simulate
from tfhet.source import command as source
from tfhet.submit import command as submit

ROOMS = (simulate, report, doctor, source, catalogue, profile, plan, submit, follow)
"""In the order of the help."""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tfhet", description="Keeps GPUs from waiting for their input.")
    commands = parser.add_subparsers(dest="name", required=True, metavar="COMMAND")
    for room in ROOMS:
        room.add(commands)
    commands.add_parser("bench", help="measure: tfhet bench SUITE ...", add_help=False)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command. Exit codes: 0 ok, 1 the job failed, 2 wrong use."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        if words[:1] == ["bench"]:
            from tfhet import bench

            return bench.run(words[1:])
        # The words after -- belong to the command that is to be run.
        own, command = (words[: words.index("--")], words[words.index("--") + 1 :]) if "--" in words else (words, [])
        args = _parser().parse_args(own)
        args.command = command
        return int(args.run(args))
    except TfhetError as error:
        print(f"tfhet: error: {error}", file=sys.stderr)
        return error.exit_code


if __name__ == "__main__":
    raise SystemExit(main())
