"""Builds and loads the library of the compiled core."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tfhet.cluster import code_dir, environment
from tfhet.errors import UsageError
from tfhet.kernels import toolchain
from tfhet.kernels.toolchain import BUILD_LIMIT_S, BuildError

HERE = Path(__file__).parent
WHEEL = HERE / "ahead"
"""Folder of the libraries in a wheel, by level of CPUs."""
ABI_VERSION = 2
"""Version of the C interface that this package calls."""
LIBRARIES: Mapping[str, str] = {"jpeglib.h": "-ljpeg", "png.h": "-lpng", "webp/decode.h": "-lwebp"}
"""Headers of image formats, and the flag that links the library of each. Without its header a format is refused."""


@functools.cache
def library() -> ctypes.CDLL:
    """Returns the core: of the wheel, of the user's cache, or built now (about 30 s of CPU).

    Raises:
        UsageError: It can neither be loaded nor built.
    """
    try:
        found = of_wheel() or build()
        try:
            return _loaded(found)
        except OSError:  # damaged, linked with a library that is gone, or the wheel's for a newer C library
            if not found.is_relative_to(WHEEL):
                found.unlink(missing_ok=True)
            return _loaded(build())
    except (BuildError, OSError) as error:
        raise UsageError(f"the compiled core cannot be used: {error}") from None


def of_wheel() -> Path | None:
    """Returns the library that came with the wheel, for the highest level that this CPU has; or None."""
    features = set(toolchain.cpu().split())
    paths = (WHEEL / level / "core.so" for level, needed in toolchain.LEVELS.items() if needed <= features)
    return next((path for path in paths if path.is_file()), None)


def available() -> bool:
    """Whether the core can be loaded or built here."""
    try:
        library()
    except UsageError:
        return False
    return True


def _loaded(path: Path) -> ctypes.CDLL:
    # Global, because the adapters of frameworks find the functions of the C interface by name.
    core = ctypes.CDLL(str(path), mode=os.RTLD_NOW | os.RTLD_GLOBAL)
    if core.tfhet_abi_version() != ABI_VERSION:
        raise OSError(f"{path} has version {core.tfhet_abi_version()} of the C interface, not {ABI_VERSION}")
    for name, result in (
        ("slots", ctypes.c_int64),
        ("steps", ctypes.c_int64),
        ("parameters", ctypes.c_char_p),
        ("free", None),
    ):
        function = getattr(core, f"tfhet_chain_{name}")
        function.restype, function.argtypes = result, [ctypes.c_void_p]
    core.tfhet_chain_times.restype, core.tfhet_chain_times.argtypes = ctypes.c_int64, [ctypes.c_void_p] * 2
    core.tfhet_chain_new.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p]
    core.tfhet_chain_output.argtypes = [ctypes.c_void_p] * 4
    core.tfhet_chain_run.argtypes = [ctypes.c_void_p] * 3
    core.tfhet_files_read.argtypes = [ctypes.c_void_p] * 3
    core.tfhet_files_waited.restype, core.tfhet_files_waited.argtypes = ctypes.c_int64, [ctypes.c_void_p]
    core.tfhet_memory_free.restype, core.tfhet_memory_free.argtypes = None, [ctypes.c_void_p]
    core.tfhet_examples_parse.argtypes = [
        *(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p),
        *(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p),
    ]
    core.tfhet_records_offsets.argtypes = [ctypes.c_char_p, *(ctypes.c_void_p,) * 5]
    core.tfhet_image_store.argtypes = [
        *(ctypes.c_char_p, ctypes.c_int64, ctypes.c_int32, ctypes.c_int64, ctypes.c_int32),
        *(ctypes.c_void_p,) * 4,
    ]
    return core


def sources() -> list[Path]:
    return sorted(HERE.glob("*.cc"))


def is_ready() -> bool:
    """Whether `library` loads the core without a build."""
    try:
        return of_wheel() is not None or _place(*build_command(("-march=native",))).exists()
    except (BuildError, OSError):
        return False


def build() -> Path:
    """Returns the library in the user's cache, which it builds if it is missing. Raises BuildError."""
    command, libraries = build_command(("-march=native",))
    result = _place(command, libraries)
    if not result.exists():
        with toolchain.locked(result.with_name("core.lock")):
            for old in result.parent.glob(".build-core-*"):  # left by a builder that was killed, which had the lock
                shutil.rmtree(old, ignore_errors=True)
            if not result.exists():
                compile_into(result, command, libraries)
    return result


def _place(command: Sequence[str], libraries: Sequence[str]) -> Path:
    """Returns the place of the library in the user's cache; its name has the hash of all that it is made of."""
    program = Path(command[0]).stat()  # its size and time change with its version
    made_of = repr([command, libraries, program.st_size, program.st_mtime_ns, toolchain.cpu()])
    files = [*sources(), *sorted(HERE.glob("*.h"))]
    content = b"\0".join([*(path.read_bytes() for path in files), made_of.encode()])
    return code_dir(environment(), "native") / f"core-{hashlib.blake2b(content, digest_size=12).hexdigest()}.so"


def build_command(cpu: Sequence[str]) -> tuple[list[str], list[str]]:
    """Returns the compiler with its flags, and the flags that link libraries. Raises BuildError without a compiler."""
    if not (compiler := toolchain.compiler(environment())):
        raise BuildError("no C++ compiler (Debian: g++)")
    probe = "".join(f"#if __has_include(<{name}>)\n{flag}\n#endif\n" for name, flag in LIBRARIES.items())
    command = [*compiler, "-E", "-P", "-xc++", "-"]
    done = subprocess.run(command, input=probe, capture_output=True, text=True, timeout=60, check=False)
    there = done.stdout.replace(" ", "").split("\n")
    return [*compiler, *cpu, *toolchain.FLAGS, "-std=c++17"], [flag for flag in LIBRARIES.values() if flag in there]


def compile_into(result: Path, command: Sequence[str], libraries: Sequence[str]) -> None:
    """Makes the library, whole or not at all. Arguments as from `build_command`. Raises BuildError and OSError."""
    with tempfile.TemporaryDirectory(prefix=".build-core-", dir=result.parent) as scratch:
        objects = [Path(scratch) / f"{path.stem}.o" for path in sources()]
        jobs = [[*command, "-c", str(path), "-o", str(made)] for path, made in zip(sources(), objects, strict=True)]
        with ThreadPoolExecutor(os.cpu_count()) as threads:
            list(threads.map(_checked, jobs))
        made = Path(scratch) / result.name
        _checked([*command, "-shared", *map(str, objects), *libraries, "-lpthread", "-o", str(made)])
        with open(made, "rb") as file:
            os.fsync(file.fileno())  # after a power failure no half-written file may have its name
        os.replace(made, result)


def _checked(command: Sequence[str]) -> None:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=BUILD_LIMIT_S, stdin=subprocess.DEVNULL, check=False
        )
    except subprocess.TimeoutExpired:
        raise BuildError(f"the compiler took more than {BUILD_LIMIT_S:g} s") from None
    if done.returncode:
        lines = (done.stderr.strip() or f"exit code {done.returncode}").splitlines()
        raise BuildError(f"{command[0]} failed: {' | '.join(lines[:4])}")
