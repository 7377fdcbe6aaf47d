"""The code that a feed's process may run: functions in files of the job's code and of installed packages."""

from __future__ import annotations

import importlib.util
import sys
import sysconfig
from pathlib import Path

from tfhet.errors import UsageError
from tfhet.planes.feed.source import FeedSource


class CodeFolders:
    """The folders from which this process imports (the working directory, PYTHONPATH, installed packages) without
    Python's standard library, and the folder of the training script."""

    def __init__(self, script: str = ""):
        standard = {Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib")}
        found = {Path(entry).resolve() for entry in sys.path} | ({Path(script).resolve().parent} if script else set())
        self._folders = {folder for folder in found - standard if folder.is_dir() and folder.name != "lib-dynload"}

    def check(self, source: FeedSource) -> None:
        """Raises UsageError if the source names a function in another file."""
        self._check(source.module, source.file)
        if source.collate:
            self._check(source.collate["module"], source.collate["file"])

    def _check(self, module: str, file: str) -> None:
        path = Path(file).resolve()
        if not (any(map(path.is_relative_to, self._folders)) or _is_installed(module, path)):
            raise UsageError(
                f"the feed runs no file outside the code of the job, such as {file}: add its folder to PYTHONPATH on "
                f"all hosts. The folders of the code here are {', '.join(sorted(map(str, self._folders)))}"
            )
        if module and (not _is_file_of(module, path) or _top(module) in sys.stdlib_module_names):
            raise UsageError(f"{file} is not the file of the module {module}")


def _top(module: str) -> str:
    return module.partition(".")[0]


def _is_installed(module: str, path: Path) -> bool:
    """Whether a file is in the package that this process imports by the name, perhaps by an import hook."""
    try:
        spec = importlib.util.find_spec(_top(module)) if module else None
    except (ImportError, ValueError):
        return False
    return spec is not None and any(
        path.is_relative_to(Path(place).resolve()) for place in (spec.submodule_search_locations or [])
    )


def _is_file_of(module: str, path: Path) -> bool:
    parts = (*path.parts[:-1], *([] if path.name == "__init__.py" else [path.name.partition(".")[0]]))
    names = tuple(module.split("."))
    return parts[-len(names) :] == names
