"""The registry of stages: their classes by name, also from installed plug-ins."""

from __future__ import annotations

import importlib.metadata
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar, dataclass_transform

from tfhet.errors import UsageError, check_known
from tfhet.stages.stage import Stage

GROUP = "tfhet.stages"
"""The entry point group of third-party stages: each entry names a Stage class, or a module that registers some."""

log = logging.getLogger(__name__)
StageT = TypeVar("StageT", bound=type[Stage])

_table: dict[str, type[Stage]] = {}
_plugins_loaded = False


@dataclass_transform(frozen_default=True)
def register(name: str) -> Callable[[StageT], StageT]:
    """Class decorator that registers a Stage under `name`, and makes it a frozen dataclass unless it is a dataclass.
    Raises UsageError for a name that another class has."""
    if not name.isidentifier():
        raise UsageError(f"stage name {name!r} is not an identifier: it is written like a function in a chain")

    def enter(stage: StageT) -> StageT:
        taken = _table.get(name)
        # The same class may be registered twice: by a module that runs as a script, or is loaded again in a notebook.
        if taken is not None and _origin(taken) != _origin(stage):
            raise UsageError(f"stage name {name!r} is taken by {'.'.join(_origin(taken))}: choose another")
        if "__dataclass_params__" not in vars(stage):
            dataclass(frozen=True)(stage)
        stage.name = name
        _table[name] = stage
        return stage

    return enter


def is_registered(stage: type[Stage]) -> bool:
    """Whether the class is the one that its name stands for."""
    return _table.get(stage.name) is stage


def _origin(stage: type[Stage]) -> tuple[str, str]:
    return stage.__module__, stage.__qualname__


def load_plugins() -> None:
    """Loads the entry points of group `tfhet.stages`, once per process. A bad plugin is logged and skipped."""
    global _plugins_loaded
    if _plugins_loaded:
        return
    _plugins_loaded = True
    for entry in importlib.metadata.entry_points(group=GROUP):
        try:
            loaded = entry.load()
            if isinstance(loaded, type):  # otherwise a module, whose stages are registered by now
                if not issubclass(loaded, Stage):
                    raise UsageError(f"{loaded.__qualname__} is not a subclass of tfhet.stages.Stage")
                if not is_registered(loaded):
                    register(entry.name)(loaded)
        except Exception as error:  # noqa: BLE001  foreign code: whatever it raises must not end the job
            why = f"{entry.name} = {entry.value}: {type(error).__name__}: {error}"
            log.warning("stage plugin of entry point group %s skipped: %s", GROUP, why)


def get(name: str) -> type[Stage]:
    """Returns the class of a name; loads plugins for an unknown one. Raises UsageError that lists the known names."""
    if name not in _table:
        load_plugins()
    check_known("stage", name, _table)
    return _table[name]


def names() -> tuple[str, ...]:
    """Returns all known names, sorted; loads plugins."""
    load_plugins()
    return tuple(sorted(_table))
