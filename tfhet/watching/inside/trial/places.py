"""Where a script made its data loader, its dataset and its transform: the calls that a patch changes."""

from __future__ import annotations

import functools
import os
import sys
import sysconfig
from itertools import islice
from types import FrameType
from typing import Any

from tfhet.watching.inside.recorder import failed

PLACE = "_tfhet_place"
_LIBRARIES = tuple({sysconfig.get_paths()[name] for name in ("stdlib", "purelib", "platlib")})


def place_of_caller() -> dict[str, Any] | None:
    """The innermost call in the script's own code: file, and line and byte offset of its first and last character."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not _is_of_script(frame.f_code.co_filename):
        frame = frame.f_back
    if frame is None or not hasattr(frame.f_code, "co_positions"):  # Python 3.10
        return None
    position = next(islice(frame.f_code.co_positions(), frame.f_lasti // 2, None), (None,))
    if None in position:
        return None
    span = dict(zip(("line", "end_line", "column", "end_column"), position, strict=True))
    return {"file": os.path.abspath(frame.f_code.co_filename), **span}


def _is_of_script(path: str) -> bool:
    return path != __file__ and "site-packages" not in path and not path.startswith(("<", *_LIBRARIES))


def note_places(kind: Any) -> None:
    """Lets each new object of a class know where the script made it."""
    init = kind.__init__

    @functools.wraps(init)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        try:
            self.__dict__.setdefault(PLACE, place_of_caller())
        except Exception as error:
            failed("the place of a call", error)

    kind.__init__ = __init__


def place_of(made: Any) -> dict[str, Any] | None:
    return getattr(made, "__dict__", {}).get(PLACE)


def on_compose(module: Any) -> None:
    note_places(module.Compose)


def on_dataset(module: Any) -> None:
    note_places(module.VisionDataset)
