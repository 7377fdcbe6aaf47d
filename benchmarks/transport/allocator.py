"""Another allocator for a process: where its library lies, and whether a process runs with it. Linux."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from tfhet.bench.wire.load import DEFAULT
from tfhet.errors import TfhetError

TCMALLOC, SMALL_PAGES = "tcmalloc", "small_pages"
ALLOCATORS = (DEFAULT, SMALL_PAGES, TCMALLOC)
IN_SMALL_PAGES = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=0"}
"""The C library's allocator as in jobs, but for its pages."""
PRELOAD = "LD_PRELOAD"
_NAMES = ("libtcmalloc.so*", "libtcmalloc_minimal.so*")
_FOLDERS = ("/usr/local/lib", "/usr/lib/*-linux-gnu", "/usr/lib64", "/usr/lib")


def tcmalloc(env: Mapping[str, str]) -> Path | None:
    """The library of tcmalloc in the folders of LD_LIBRARY_PATH or the system's; None where it is not installed."""
    given = [folder for folder in env.get("LD_LIBRARY_PATH", "").split(":") if folder]
    return found_in([*given, *_FOLDERS])


def found_in(folders: Iterable[str]) -> Path | None:
    """The first of these folders, which may be patterns, that holds the library decides."""
    for folder in folders:
        for name in _NAMES:
            path = Path(folder)
            files = sorted(Path(path.anchor or ".").glob(str((path / name).relative_to(path.anchor))))
            if files:
                return files[0]
    return None


def with_library(env: Mapping[str, str], library: Path) -> dict[str, str]:
    """`env` for processes that run with it."""
    return {**env, PRELOAD: ":".join(filter(None, [str(library), env.get(PRELOAD, "")]))}


def check_runs_with(pid: int, library: Path) -> None:
    """Raises TfhetError when the process does not have the library, which the loader only warns of."""
    try:
        maps = Path(f"/proc/{pid}/maps").read_text()
    except OSError as error:
        raise TfhetError(f"whether process {pid} runs with {library.name} cannot be seen: {error.strerror}") from None
    if str(library.resolve()) not in maps:
        raise TfhetError(f"process {pid} does not run with {library}: the loader would not take it")
