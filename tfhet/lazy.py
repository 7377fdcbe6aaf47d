"""Public names of a package that are loaded on first use, so that a command line starts in a moment.

    if TYPE_CHECKING:
        from tfhet.profile.advice import Advice, advise

    lazy.names_on_demand(__name__)

The imports for TYPE_CHECKING show the names and their types to type checkers, and say here where each name is.
"""

from __future__ import annotations

import ast
import functools
import importlib
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def names_on_demand(package: str) -> None:
    """Gives a package a `__getattr__` (PEP 562) that does one of its imports for TYPE_CHECKING on first use, and lists
    their names as `__all__`. A public name may equal a sub-module only where it is that module, imported from the
    package itself: the import system sets every loaded sub-module as an attribute of its package."""
    facade = sys.modules[package]
    homes = functools.cache(lambda: _imported_for_types(Path(str(facade.__file__)).read_text("utf-8")))

    def load(name: str) -> Any:
        if name == "__all__":
            return sorted(homes())
        home = homes().get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if home == package:
            return importlib.import_module(f"{package}.{name}")
        return getattr(importlib.import_module(home), name)

    vars(facade).update(__getattr__=load, __dir__=lambda: sorted({*vars(facade), *homes()}))


def _imported_for_types(source: str) -> Mapping[str, str]:
    """The module of each name that a source imports `if TYPE_CHECKING`."""
    blocks = (node for node in ast.parse(source).body if isinstance(node, ast.If))
    lines = (line for block in blocks if ast.unparse(block.test) == "TYPE_CHECKING" for line in block.body)
    return {name.name: str(line.module) for line in lines if isinstance(line, ast.ImportFrom) for name in line.names}
