"""`tfhet launch`: the launcher of this host, as `scripts/launcher.py` starts it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tfhet.cli.parser import add_examples


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds `tfhet launch` to the help; its words go to `run`, because most of them may be the training script's."""
    words = "the launcher of this host; SageMaker and the simulator start one on every host"
    more = "Its arguments are in docs/launcher.md; it passes those that it does not know on to the training script."
    launch = commands.add_parser("launch", help=words, description=more, usage="tfhet launch [--NAME VALUE ...]")
    add_examples(launch, "tfhet launch --train_script train.py")


def run(words: Sequence[str], *, own_process: bool) -> int:
    """Runs the launcher with these words and returns its exit code. own_process: this process was started to be the
    launcher, so that a host's further launchers are started like it."""
    from tfhet.launch import main

    if not own_process:
        return main(words)
    sys.argv[1:] = words
    return main()
