"""The kernels: their names and libraries, and the compiler. Needs no TensorFlow."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tfhet.cluster import code_dir, environment
from tfhet.errors import UsageError

HERE = Path(__file__).parent
SWITCH = "TFHET_NATIVE"
"""The environment variable that switches compiled ops: `auto` uses those that can be built, `off` none, `on` raises an
error where one cannot be built. Names with commas select kernels: a rank gets those that every data worker has."""
CHOICES = ("auto", "off", "on")

_V3 = frozenset({"abm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe", "xsave"})
_V4 = _V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
LEVELS: Mapping[str, frozenset[str]] = {"x86-64-v4-vbmi": _V4 | {"avx512vbmi"}, "x86-64-v4": _V4, "x86-64-v3": _V3}
"""Levels of CPUs for which a wheel has kernels, the highest first, and the CPU features that each needs, as Linux names
them. The x86-64 psABI defines levels 3 and 4."""


# No contraction of a product and a sum into one rounding: results are the same with every width of vector.
FLAGS = (
    "-O3",
    "-ffp-contract=off",
    # errno and the floating-point flags are unused; keeping them right would forbid vectors under a condition.
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fPIC",
    "-shared",
    "-fvisibility=hidden",
    "-Wall",
    "-Wno-unknown-pragmas",
    # No kernel computes with Eigen, and its headers in TensorFlow 2.21 do not compile for CPUs with AVX512-FP16.
    "-DEIGEN_DONT_VECTORIZE",
)
WIRE = "wire"
"""Name of the library of the data service's wire: no ops, and not optional where that plane is used."""
LINKED: Mapping[str, tuple[str, ...]] = {"jpeg": ("-ljpeg",), WIRE: ("-l:libtensorflow_cc.so.2",)}
"""The flags that link the libraries that a kernel needs besides TensorFlow (Debian: libjpeg-dev)."""
BUILD_LIMIT_S = 300.0
"""Maximum time of one build, and of waiting for another process's build, in seconds."""


class BuildError(Exception):
    """C++ cannot be compiled on this host; the message says why."""


def names() -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in HERE.glob("*.cc")))


def source(name: str) -> Path:
    """Returns the C++ file of a kernel, or of the wire."""
    return HERE / WIRE / f"{WIRE}.cc" if name == WIRE else HERE / f"{name}.cc"


def permitted(env: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """Returns the kernels that `TFHET_NATIVE` lets this process use. Raises UsageError for an unknown name in it."""
    given = (environment() if env is None else env).get(SWITCH) or "auto"
    if given in CHOICES:
        return () if given == "off" else names()
    chosen = tuple(given.split(","))
    if not set(chosen) <= set(names()):
        raise UsageError(f"{SWITCH} is {', '.join(CHOICES)} or some of {','.join(names())}; not {given!r}")
    return chosen


def folder(env: Mapping[str, str]) -> Path:
    """Returns the folder of built libraries. Raises OSError where other users may put libraries there."""
    return code_dir(env, "native")


def of_wheels() -> Path:
    """Returns the folder in the package where a wheel has its kernels for the installed TensorFlow. Need not exist."""
    return HERE / "ahead" / f"tensorflow-{_tensorflow()}"


def of_wheel(name: str) -> Path | None:
    """Returns the library of a kernel that came with the wheel, compiled against the very version of TensorFlow that is
    installed, for the highest level that this CPU has; or None."""
    features = set(cpu().split())
    paths = (of_wheels() / level / f"{name}.so" for level, needed in LEVELS.items() if needed <= features)
    return next((path for path in paths if path.is_file()), None)


def of_here(name: str, env: Mapping[str, str]) -> Path:
    """Returns the place of the library of a kernel that is built here, in the user's cache. It bears the hash of all
    that it is made of (source, flags, compiler, TensorFlow, this CPU's features), so that it is never stale and never
    used on another kind of machine. Raises OSError where other users may put libraries there."""
    files = (source(name), *sorted(source(name).parent.glob("*.h")))
    program = compiler(env)
    if program:  # its size and time change with its version
        found = Path(program[0]).stat()
        program += [str(found.st_size), str(found.st_mtime_ns)]
    made_of = repr([FLAGS, LINKED.get(name), program, _tensorflow(), cpu()]).encode()
    key = hashlib.blake2b(b"\0".join([*(path.read_bytes() for path in files), made_of]), digest_size=12).hexdigest()
    return folder(env) / f"{name}-{key}.so"


def built(env: Mapping[str, str]) -> Mapping[str, Path] | None:
    """Returns the libraries of the permitted kernels by name, built here or from the wheel; None if one is missing
    or if a name is wrong, which is an error only when they are loaded."""
    with contextlib.suppress(OSError, UsageError):
        found = {name: ready(name, env) for name in permitted(env)}
        return None if None in found.values() else {name: path for name, path in found.items() if path}
    return None


def ready(name: str, env: Mapping[str, str]) -> Path | None:
    """Returns the library of a kernel, or of the wire, as it was built here or as the wheel has it; or None. Raises
    OSError where other users may put libraries into the cache."""
    here = of_here(name, env)
    return here if here.is_file() else of_wheel(name)


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
        try:
            done = subprocess.run(
                [*command, "-o", made], capture_output=True, text=True, timeout=BUILD_LIMIT_S, stdin=subprocess.DEVNULL
            )
        except subprocess.TimeoutExpired:
            raise BuildError(f"the compiler took more than {BUILD_LIMIT_S:g} s") from None
        if done.returncode:
            said = done.stderr.strip() or f"exit code {done.returncode}"
            raise BuildError(f"{command[0]} failed: {' | '.join(said.splitlines()[:4])}")
        with open(made, "rb") as file:
            os.fsync(file.fileno())  # after a power failure no half-written file may have its name
        os.replace(made, result)


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


def _tensorflow() -> str:
    for package in ("tensorflow", "tensorflow-cpu"):
        with contextlib.suppress(PackageNotFoundError):
            return version(package)
    return "unknown"


@functools.cache
def cpu() -> str:
    """Returns the instruction set that `-march=native` stands for."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().split("\n"):
            if line.startswith(("flags", "Features")):
                return platform.machine() + line
    return platform.machine() + platform.processor()
