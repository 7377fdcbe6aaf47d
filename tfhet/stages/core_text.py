"""Stages as the compiled core reads them: see `kernels/config.h`."""

from __future__ import annotations

from typing import Any

from tfhet.stages.choice import Choice, branch_word
from tfhet.stages.stage import Stage


def node(stage: Stage | None, **more: int | str | None) -> str:
    """Returns the text of a stage. more: values in addition to its configuration; None omits one."""
    if stage is None:
        return "(none)"
    config = {name: literal(value) for name, value in stage.config().items()}
    if isinstance(stage, Choice):
        branches = [_branch(each, at) for at, each in enumerate(stage.branches)]
        config = {"branches": f"[{' '.join(branches)}]", "shares": literal(stage.shares)}
    config |= {name: literal(value) for name, value in more.items() if value is not None}
    return f"({stage.compiled_name}{''.join(f' {name}={value}' for name, value in config.items())})"


def _branch(stage: Stage | None, at: int) -> str:
    return node(stage) if stage is None else node(stage, word=str(branch_word(stage, at)), prefix=stage.name)


def literal(value: Any) -> str:
    """Returns a value as text. Raises TypeError for a value that is neither number, text nor sequence."""
    if isinstance(value, str):
        return f"'{value}'"
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, (int, float)):
        return repr(value)
    return f"[{' '.join(map(literal, value))}]"
