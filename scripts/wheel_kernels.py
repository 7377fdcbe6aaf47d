"""Builds the core and all ops into the package that it imports, for every level of CPUs, and prints their folders.

Argument: the machine (x86_64 or aarch64) that has these CPUs. The variable CXX names a compiler for it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from tfhet.kernels import compile_into, loader
from tfhet.native import kernels
from tfhet.native.library import build_command

VBMI = "x86-64-v4-vbmi"
FLAGS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "x86_64": {
        "x86-64-v3": ("-march=x86-64-v3",),
        "x86-64-v4": ("-march=x86-64-v4",),
        VBMI: ("-march=x86-64-v4", "-mavx512vbmi"),  # the core alone has code of its own for it
    },
    "aarch64": {"aarch64": ("-march=armv8-a",)},
}
"""The flags of each of `kernels.LEVELS`, by machine, the lowest level first."""


def build(machine: str) -> None:
    """Builds the core, and the ops for the installed TensorFlow. Raises BuildError."""
    jobs = []
    for level, cpu in FLAGS[machine].items():
        command, libraries = loader.build_command(cpu)
        (loader.WHEEL / level).mkdir(parents=True, exist_ok=True)
        # RPATH, not RUNPATH: the libraries of image formats find their own libraries there, too.
        linking = [*libraries, "-s", "-Wl,--disable-new-dtags,-rpath,$ORIGIN/.."]
        loader.compile_into(loader.WHEEL / level / "core.so", command, linking)
        if level == VBMI:
            continue
        (kernels.of_wheels() / level).mkdir(parents=True, exist_ok=True)
        for name in kernels.names():
            jobs.append((kernels.of_wheels() / level / f"{name}.so", [*build_command(name, cpu), "-s"]))
    # It computes nothing, so that one level does.
    lowest, cpu = next(iter(FLAGS[machine].items()))
    command = [*build_command(kernels.WIRE, cpu), "-s"]
    jobs.append((kernels.of_wheels() / lowest / f"{kernels.WIRE}.so", command))
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        list(threads.map(lambda job: compile_into(*job), jobs))


if __name__ == "__main__":
    build(sys.argv[1])
    print(loader.WHEEL)
    print(kernels.of_wheels())
