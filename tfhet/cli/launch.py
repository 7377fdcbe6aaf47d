"""`tfhet launch`: the launcher of this host, as `scripts/launcher.py` starts it."""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Sequence
from typing import Any

from tfhet.cli.parser import add_examples


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds `tfhet launch` to the help; its words go to `run`, because most of them may be the training script's."""
    words = "the launcher of this host; SageMaker and the simulator start one on every host"
    more = "Passes the arguments that it does not know to the training script."
    launch = commands.add_parser("launch", help=words, description=more, usage="tfhet launch [--NAME VALUE ...]")
    add_examples(launch, "tfhet launch --train_script train.py")
    launch.print_help = lambda file=None: _print_help(launch.format_help(), file)  # type: ignore[method-assign]


def _print_help(text: str, file: Any) -> None:
    """Prints the help with all arguments of the launcher and of the data planes, which are fields of dataclasses."""
    from tfhet import arguments, planes
    from tfhet.launch import LaunchSettings

    head, _, examples = text.partition("examples:")
    print(head, end="", file=file)
    kinds = {"arguments": LaunchSettings} | {
        f"with --data_plane {name}": planes.get(name).settings for name in planes.names()
    }
    for title, kind in kinds.items():
        lines = [
            f"  --{name} (default {getattr(kind, name, '')!r})\n" + textwrap.indent(textwrap.fill(words, 110), " " * 6)
            for name, words in arguments.described(kind).items()
        ]
        print(*([f"{title}:", *lines, ""] if lines else []), sep="\n", file=file)
    print(f"examples:{examples}", end="", file=file)


def run(words: Sequence[str], *, own_process: bool) -> int:
    """Runs the launcher with these words and returns its exit code. own_process: this process was started to be the
    launcher, so that a host's further launchers are started like it."""
    from tfhet.launch import main

    if not own_process:
        return main(words)
    sys.argv[1:] = words
    return main()
