"""Builds the core and all ops into the package that it imports, for every level of CPUs, and prints their folders."""

from __future__ import annotations

import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from tfhet.kernels import compile_into, loader
from tfhet.native import kernels
from tfhet.native.library import build_command

VBMI = "x86-64-v4-vbmi"
FLAGS: Mapping[str, tuple[str, ...]] = {
    "x86-64-v3": ("-march=x86-64-v3",),
    "x86-64-v4": ("-march=x86-64-v4",),
    VBMI: ("-march=x86-64-v4", "-mavx512vbmi"),  # the core alone has code of its own for it
}
"""The flags of each of `kernels.LEVELS`."""


def build() -> None:
    """Builds the core, and the ops for the installed TensorFlow. Raises BuildError."""
    jobs = []
    for level, cpu in FLAGS.items():
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
    command = [*build_command(kernels.WIRE, FLAGS["x86-64-v3"]), "-s"]
    jobs.append((kernels.of_wheels() / "x86-64-v3" / f"{kernels.WIRE}.so", command))
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        list(threads.map(lambda job: compile_into(*job), jobs))


if __name__ == "__main__":
    build()
    print(loader.WHEEL)
    print(kernels.of_wheels())
