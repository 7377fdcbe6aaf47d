"""Processes that run TensorFlow, whatever the plane: the memory that they ask for, and the noise that they print."""

from __future__ import annotations

import re
from collections.abc import Mapping

TUNABLES = "GLIBC_TUNABLES"
HUGE_PAGES = "glibc.malloc.hugetlb"
_NOISE = re.compile(
    # TensorFlow 2.14 to 2.17 without a GPU register the CUDA plug-ins twice (tensorflow#62075).
    r"Unable to register cu(DNN|FFT|BLAS) factory"
    # The cost estimate of a convolution whose batch size is not known; a kilobyte a line, hundreds of them.
    r"|op_level_cost_estimator.cc:\d+\] Error in PredictCost"
    r"|All log messages before absl::InitializeLog"
    # The end of an epoch of a served data set is reported as a cancelled read.
    r"|tf_data_service.*Cancelled|OUT_OF_RANGE: End of sequence"
    # A served data set without autotuning, and one whose dispatcher is started again: 30 and 10 lines a second.
    r"|tf.data Model is null in DataServiceIteratorContext|Failed to (heartbeat to dispatcher from|release) iteration"
)
"""Lines that look like errors and are none."""


def in_huge_pages(env: Mapping[str, str], wanted: bool = True) -> dict[str, str]:
    """`env` for a process that moves large batches: in pages of 2 MiB. A choice that `env` makes already stays. Linux.

    The C library gives the memory of a large tensor back to the kernel when the tensor is gone, and gets the next one's
    as fresh pages, each of which costs a fault: for a batch of 77 MB about as much CPU as all of its way over the wire
    (`tfhet bench transport`: `small_pages`). Huge pages are 512 times as large, so there are 512 times fewer faults.
    glibc reads the variable from 2.35 on (its manual, Memory Allocation Tunables); other C libraries ignore it.
    """
    given = [tunable for tunable in env.get(TUNABLES, "").split(":") if tunable]
    if any(tunable.startswith(f"{HUGE_PAGES}=") for tunable in given):
        return dict(env)
    return {**env, TUNABLES: ":".join([*given, f"{HUGE_PAGES}={int(wanted)}"])}


def is_noise(line: str) -> bool:
    """Whether the log can omit a line that a process has printed."""
    return _NOISE.search(line) is not None
