"""Where a script made its data loader, its dataset and its transform: the calls that a patch changes."""

from __future__ import annotations

import functools
import os
import sys
import sysconfig
from itertools import islice
from typing import Any

PLACE = "_tfhet_place"
_LIBRARIES = tuple({sysconfig.get_paths()[name] for name in ("stdlib", "purelib", "platlib")})


def place_of_caller() -> dict[str, Any] | None:
    """The innermost call in the script's own code: file, and line and byte offset of its first and last character."""
    frame = sys._getframe(1)
    while frame is not None:
        path = frame.f_code.co_filename
        if not path.startswith(("<", *_LIBRARIES)) and path != __file__ and "site-packages" not in path:
            at = next(islice(frame.f_code.co_positions(), frame.f_lasti // 2, None), (None,) * 4)
            line, end_line, column, end_column = at
            if None in at:
                return None
            span = {"line": line, "column": column, "end_line": end_line, "end_column": end_column}
            return {"file": os.path.abspath(path), **span}
        frame = frame.f_back  # type: ignore[assignment]
    return None


def note_places(kind: Any) -> None:
    """Lets each new object of a class know where the script made it."""
    init = kind.__init__

    @functools.wraps(init)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        if PLACE not in self.__dict__:
            self.__dict__[PLACE] = place_of_caller()

    kind.__init__ = __init__


def place_of(made: Any) -> dict[str, Any] | None:
    return getattr(made, "__dict__", {}).get(PLACE)


def on_compose(module: Any) -> None:
    note_places(module.Compose)


def on_dataset(module: Any) -> None:
    note_places(module.VisionDataset)
