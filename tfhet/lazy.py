"""Public names of a package that are loaded on first use, so that a command line starts in a moment.

    if TYPE_CHECKING:
        from tfhet.profile.advice import Advice, advise

    __all__ = ["Advice", "advise"]

    lazy.names_on_demand(__name__, {"advice": "Advice advise"})

The imports for TYPE_CHECKING show the names and their types to type checkers.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from typing import Any


def names_on_demand(package: str, homes: Mapping[str, str]) -> None:
    """Gives a package a `__getattr__` (PEP 562) that imports the module of a public name on first use.

    homes: a module of the package -> the names that it provides, separated by spaces. A name that equals its module is
    that module itself, which would hide another object of the name: the import system sets every loaded sub-module as
    an attribute of its package.
    """
    home_of = {name: home for home, names in homes.items() for name in names.split()}

    def load(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = importlib.import_module(f"{package}.{home_of[name]}")
        return home if name == home_of[name] else getattr(home, name)

    facade = vars(sys.modules[package])
    facade.update(__getattr__=load, __dir__=lambda: sorted({*facade, *home_of}))
