"""The C++ compiler: its flags, levels of CPUs, and builds that are whole or not at all."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import platform
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tfhet import file_lock
from tfhet.cluster import code_dir
from tfhet.errors import NotReady, UsageError

_V3 = frozenset({"abm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe", "xsave"})
_V4 = _V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
LEVELS: Mapping[str, frozenset[str]] = {
    "x86-64-v4-vbmi": _V4 | {"avx512vbmi"},
    "x86-64-v4": _V4,
    "x86-64-v3": _V3,
    "aarch64": frozenset({"aarch64"}),
}
"""Levels of CPUs for which a wheel has kernels, the highest first, and the words of `cpu()` that each needs: CPU
features, as Linux names them, or the machine. The x86-64 psABI defines levels 3 and 4."""

# No contraction of a product and a sum into one rounding: results are the same with every width of vector.
FLAGS = (
    "-O3",
    "-ffp-contract=off",
    # errno and the floating-point flags are unused; keeping them right would forbid vectors under a condition.
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fPIC",
    "-fvisibility=hidden",
    "-Wall",
    "-Wno-unknown-pragmas",
)
BUILD_LIMIT_S = 300.0
"""Maximum time of one build, and of waiting for another process's build, in seconds."""


class BuildError(Exception):
    """C++ cannot be compiled on this host; the message says why."""


def compiler(env: Mapping[str, str]) -> list[str]:
    """Words of the C++ compiler's command: the variable CXX, or the first of c++, g++, clang++; [] without one."""
    given = env.get("CXX", "").split()
    found = shutil.which(given[0]) if given else shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
    return [] if found is None else [found, *given[1:]]


def compile_into(result: Path, command: Sequence[str]) -> None:
    """Makes a library or program, whole or not at all. Raises BuildError with what the compiler says, and OSError."""
    prefix = f".build-{result.stem.partition('-')[0]}-"
    with tempfile.TemporaryDirectory(prefix=prefix, dir=result.parent) as scratch:
        made = Path(scratch) / result.name
        pipe, none = subprocess.PIPE, subprocess.DEVNULL
        with subprocess.Popen(
            [*command, "-o", made], stdin=none, stdout=none, stderr=pipe, text=True, process_group=0
        ) as process:
            try:
                _, errors = process.communicate(timeout=BUILD_LIMIT_S)
            except subprocess.TimeoutExpired:
                raise BuildError(f"the compiler took more than {BUILD_LIMIT_S:g} s") from None
            finally:
                if process.returncode is None:
                    os.killpg(process.pid, signal.SIGKILL)  # the compiler proper is a child of the driver
        if process.returncode:
            said = errors.strip() or f"exit code {process.returncode}"
            raise BuildError(f"{command[0]} failed: {' | '.join(said.splitlines()[:4])}")
        with open(made, "rb") as file:
            os.fsync(file.fileno())  # after a power failure no half-written file may have its name
        os.replace(made, result)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Lets one process build at a time; the others find its result. Raises BuildError after BUILD_LIMIT_S."""
    try:
        with file_lock.locked(path, BUILD_LIMIT_S):
            yield
    except NotReady as error:
        raise BuildError(str(error)) from None


def compiled(
    source: Path, env: Mapping[str, str], what: str, instead: str, flags: Sequence[str] = (), suffix: str = ""
) -> Path:
    """Path of the program or library made of one C++ file, compiled with `flags` unless it is in the user's cache.
    Raises UsageError, which says that `what` (like "a delay") cannot be had and what to do `instead`."""
    if not (command := compiler(env)):
        raise UsageError(f"{what} needs a C++ compiler, and there is none (Debian: g++); {instead}")
    words = [*command, *flags]
    key = hashlib.blake2b(source.read_bytes() + repr([words, platform.machine()]).encode(), digest_size=12).hexdigest()
    try:
        result = code_dir(env, "programs") / f"{source.stem}-{key}{suffix}"
        if not result.exists():
            compile_into(result, [*words, str(source), "-ldl"])
    except (OSError, BuildError) as error:
        raise UsageError(f"{what}: {source.name} cannot be built: {error}") from None
    return result


@functools.cache
def cpu() -> str:
    """Returns the machine and its instruction set, which `-march=native` stands for: words, as Linux names them."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().split("\n"):
            if line.startswith(("flags", "Features")):
                return f"{platform.machine()} {line}"
    return f"{platform.machine()} {platform.processor()}"
