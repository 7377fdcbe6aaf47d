"""The kernels: their names and libraries, and the compiler. Needs no TensorFlow."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tfhet.cluster import code_dir, environment
from tfhet.errors import UsageError
from tfhet.kernels import FLAGS as CORE_FLAGS, LEVELS, compiler, cpu

HERE = Path(__file__).parent
CORE = HERE.parent / "kernels"
"""The C++ code of the kernels that needs no framework. The files of this folder make TensorFlow ops of it."""
SWITCH = "TFHET_NATIVE"
"""The environment variable that switches compiled ops: `auto` uses those that can be built, `off` none, `on` raises an
error where one cannot be built. Names with commas select kernels: a rank gets those that every data worker has."""
CHOICES = ("auto", "off", "on")


# No kernel computes with Eigen, and its headers in TensorFlow 2.21 do not compile for CPUs with AVX512-FP16.
FLAGS = (*CORE_FLAGS, "-shared", "-DEIGEN_DONT_VECTORIZE")
CHAIN = "chain"
"""Name of the op that runs chains of the compiled core (`tfhet.kernels`). It is not optional."""
WIRE = "wire"
"""Name of the library of the data service's wire: no ops, and not optional where that plane is used."""
LINKED: Mapping[str, tuple[str, ...]] = {CHAIN: ("-ldl",), WIRE: ("-l:libtensorflow_cc.so.2",)}
"""The flags that link the libraries that a kernel needs besides TensorFlow."""


def names() -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in HERE.glob("*.cc")))


def source(name: str) -> Path:
    """Returns the C++ file of a kernel, or of the wire."""
    return HERE / WIRE / f"{WIRE}.cc" if name == WIRE else HERE / f"{name}.cc"


def permitted(env: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """Returns the kernels that `TFHET_NATIVE` lets this process use, always with the compiled core's. Raises UsageError
    for an unknown name in it."""
    given = (environment() if env is None else env).get(SWITCH) or "auto"
    if given in CHOICES:
        return (CHAIN,) if given == "off" else names()
    chosen = tuple(sorted({CHAIN, *given.split(",")}))
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
    headers = [*source(name).parent.glob("*.h"), *(CORE.glob("*.h") if name != WIRE else ())]
    files = (source(name), *sorted(headers))
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


def _tensorflow() -> str:
    for package in ("tensorflow", "tensorflow-cpu"):
        with contextlib.suppress(PackageNotFoundError):
            return version(package)
    return "unknown"
