"""TensorFlow's shared libraries, once for each set of CPUs that containers have.

All processes of a machine that map one file run out of the same memory, whichever container they are in; real hosts
have memory of their own. It makes a difference: on a virtual machine with 2 cores of an Intel Xeon (with AMX), a batch
of a chain of many small TensorFlow ops takes 197 ms of CPU alone, 250 ms while the other core runs the same libraries,
and 199 ms while it runs a copy of them. Loops that are small enough for a core's own caches cost the same.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from tfhet.container.container import READ_ONLY, Mount
from tfhet.errors import UsageError
from tfhet.units import MIB

_PATTERN = "libtensorflow*.so*"


def of_tensorflow() -> list[Path]:
    """The libraries that nearly all of TensorFlow's code is in. Raises UsageError without TensorFlow."""
    spec = find_spec("tensorflow")
    places = [] if spec is None else spec.submodule_search_locations or []
    found = {path.resolve() for place in places for path in Path(place).glob(_PATTERN)}
    if not found:
        raise UsageError("there is no TensorFlow here whose libraries could be copied")
    return sorted(found)


def separated(
    libraries: Sequence[Path],
    folder: Path,
    cpu_sets: Mapping[str, tuple[int, ...] | None],
    say: Callable[[str], None],
    register: Callable[[Path], None],
) -> dict[str, list[Mount]]:
    """What each container mounts, by name, so that those with other CPUs have other copies of the libraries.

    Containers with the first set of CPUs, and those with none of their own, have the libraries themselves. Copies are
    kept below `folder`, and made when they are not there. register: told of a directory that is to be removed should
    this process die meanwhile. Raises UsageError where a copy cannot be made.
    """
    sets = sorted({cpus for cpus in cpu_sets.values() if cpus is not None})[1:]
    places = {cpus: folder / f"cpus-{'-'.join(map(str, cpus))}" for cpus in sets}
    for place in places.values():
        for library in libraries:
            _copy(library, place / library.name, say, register)
    mounts = {
        cpus: [Mount(str(place / library.name), str(library), READ_ONLY) for library in libraries]
        for cpus, place in places.items()
    }
    return {name: [] if cpus is None else mounts.get(cpus, []) for name, cpus in cpu_sets.items()}


def _copy(library: Path, copy: Path, say: Callable[[str], None], register: Callable[[Path], None]) -> None:
    """Unless it is there: as large, and changed at the same time."""
    size, changed = _version(library)
    try:
        if copy.exists() and _version(copy) == (size, changed):
            return
        copy.parent.mkdir(parents=True, exist_ok=True)
        say(f"[simulate] {copy.parent}: {library.name} is copied, {size / MIB:.0f} MiB")
        with tempfile.TemporaryDirectory(prefix=".copy-", dir=copy.parent) as scratch:
            register(Path(scratch))
            made = Path(scratch) / copy.name
            shutil.copy2(library, made)
            with made.open("rb") as file:
                os.fsync(file.fileno())  # or the disk would be busy with it while the job runs
            made.replace(copy)
    except OSError as error:
        raise UsageError(f"{copy}: {library.name} ({size / MIB:.0f} MiB) cannot be copied: {error.strerror}") from None


def _version(file: Path) -> tuple[int, int]:
    found = file.stat()
    return found.st_size, found.st_mtime_ns
