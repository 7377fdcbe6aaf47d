# PYTHON_ARGCOMPLETE_OK
"""The command `tfhet`: parses the command line and calls the module of `tfhet.cli` that has the command."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence

from tfhet import __version__
from tfhet.cli import catalogue, doctor, follow, launch, plan, profile, report, simulate, source, submit, trial, watch
from tfhet.cli.parser import Parser, add_examples, json_for_pipe
from tfhet.cluster import environment
from tfhet.errors import TfhetError
from tfhet.report import harmless
from tfhet.standard_streams import open_standard_streams

_DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS)
COMMANDS = (watch, trial, simulate, report, doctor, source, catalogue, profile, plan, submit, follow, launch)
"""In the order of the help."""


def _parser() -> Parser:
    parser = Parser(prog="tfhet", description="Keeps GPUs from waiting for their input.")
    add_examples(
        parser,
        "tfhet watch -- python train.py",
        "tfhet init",
        "tfhet simulate demo -- --train_script train.py",
        "tfhet report --help",
    )
    parser.add_argument("--version", action="version", version=f"tfhet {__version__}")
    commands = parser.add_subparsers(dest="name", required=True, metavar="COMMAND", title="commands")
    for module in COMMANDS:
        module.add(commands)
    commands.add_parser("bench", help="measure: tfhet bench SUITE ...", add_help=False)
    for listed in commands._choices_actions:
        commands.choices[listed.dest].description = commands.choices[listed.dest].description or listed.help
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command. Exit codes: 0 ok, 1 the job failed or a file failed, 2 wrong use; 130 after Ctrl-C, 141 when
    the reader of standard output has ended."""
    words = list(sys.argv[1:] if argv is None else argv)
    if argv is None:
        open_standard_streams()
    try:
        code = _run(words, own_process=argv is None)
        sys.stdout.flush()
        return code
    except TfhetError as error:
        print(f"tfhet: error: {harmless(str(error))}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("tfhet: interrupted", file=sys.stderr)
        return 130
    except OSError as error:
        if error.errno not in (errno.EPIPE, *_DISK_ERRORS) and error.filename is None:
            raise
        if error.errno != errno.EPIPE:
            where = error.filename or "standard output, or a file"
            print(f"tfhet: error: {harmless(str(where))}: {error.strerror}", file=sys.stderr)
        if error.filename is None and argv is None:  # Python flushes again when it ends: let that succeed
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 141 if error.errno == errno.EPIPE else 1


def _run(words: list[str], *, own_process: bool) -> int:
    if "_ARGCOMPLETE" in environment():  # a shell asks what could come next, and is answered here
        import argcomplete

        argcomplete.autocomplete(_parser())
    if not words:
        _parser().print_help(sys.stderr)
        return 2
    if words[0] == "bench":
        from tfhet.cli import bench

        return bench.run(words[1:])
    if words[0] == "launch" and words[1:] not in (["-h"], ["--help"]):
        return launch.run(words[1:], own_process=own_process)
    # The words after -- belong to the command that is to be run.
    own, command = (words[: words.index("--")], words[words.index("--") + 1 :]) if "--" in words else (words, [])
    args = _parser().parse_args(own)
    args.command = command
    with json_for_pipe(args):
        return int(args.run(args))


if __name__ == "__main__":
    raise SystemExit(main())
