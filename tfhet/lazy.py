"""Packages whose public names are loaded when they are first used: a command line starts in a moment by that."""

from __future__ import annotations

import ast
import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any


def names_on_demand(package: str) -> None:
    """Gives a package the names that its `__init__.py` imports under `if TYPE_CHECKING:`, each loaded when asked for.

    A sub-module of the same name does not take the place of such a name; what a test or a patch sets does.
    """
    module = sys.modules[package]
    homes = _imported_for_types(Path(str(module.__file__)).read_text(encoding="utf-8"))
    module.__class__ = type("Facade", (_Facade,), {name: _Name(name, home) for name, home in homes.items()})


def _imported_for_types(source: str) -> dict[str, str]:
    """The names of `from MODULE import NAME` in the blocks `if TYPE_CHECKING:` at the top level, by name the module."""
    return {
        name.name: str(each.module)
        for block in ast.parse(source).body
        if isinstance(block, ast.If) and isinstance(block.test, ast.Name) and block.test.id == "TYPE_CHECKING"
        for each in block.body
        if isinstance(each, ast.ImportFrom)
        for name in each.names
    }


class _Name:
    """One name of a package and the module where it lives; for a module of the package, that is the package."""

    def __init__(self, name: str, home: str):
        self.name = name
        self.home = home

    def __get__(self, package: ModuleType | None, owner: type) -> Any:
        if package is None:
            return self
        if self.name in vars(package):
            return vars(package)[self.name]
        if self.home == package.__name__:
            return importlib.import_module(f"{self.home}.{self.name}")
        return getattr(importlib.import_module(self.home), self.name)

    def __set__(self, package: ModuleType, value: Any) -> None:
        # The import system sets each sub-module as an attribute of its package.
        if not (isinstance(value, ModuleType) and value.__name__ == f"{package.__name__}.{self.name}"):
            vars(package)[self.name] = value

    def __delete__(self, package: ModuleType) -> None:
        vars(package).pop(self.name, None)


class _Facade(ModuleType):
    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *vars(self).get("__all__", ())})
