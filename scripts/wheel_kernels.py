"""Builds all kernels into the package that it imports, for every level of CPUs, and prints their folder."""

from __future__ import annotations

import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tfhet.native import compile_into, kernels
from tfhet.native.library import build_command

VBMI = "x86-64-v4-vbmi"
FLAGS: Mapping[str, tuple[str, ...]] = {
    "x86-64-v3": ("-march=x86-64-v3",),
    "x86-64-v4": ("-march=x86-64-v4",),
    VBMI: ("-march=x86-64-v4", "-mavx512vbmi"),  # only of kernels with code of its own for it
}
"""The flags of each of `kernels.LEVELS`."""


def build() -> Path:
    """Returns the folder. There a library looks first for what it is linked with. Raises BuildError."""
    jobs = []
    for level, cpu in FLAGS.items():
        (kernels.of_wheels() / level).mkdir(parents=True, exist_ok=True)
        for name in kernels.names():
            if level != VBMI or "AVX512VBMI" in (kernels.HERE / f"{name}.cc").read_text(encoding="utf-8"):
                command = [*build_command(name, cpu), "-s", "-Wl,-rpath,$ORIGIN/.."]
                jobs.append((kernels.of_wheels() / level / f"{name}.so", command))
    # It computes nothing, so that one level does.
    command = [*build_command(kernels.WIRE, FLAGS["x86-64-v3"]), "-s", "-Wl,-rpath,$ORIGIN/.."]
    jobs.append((kernels.of_wheels() / "x86-64-v3" / f"{kernels.WIRE}.so", command))
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        list(threads.map(lambda job: compile_into(*job), jobs))
    return kernels.of_wheels()


if __name__ == "__main__":
    print(build())
