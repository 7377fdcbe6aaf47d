"""The C library's allocator in processes that make and move batches: what they ask of it, by `GLIBC_TUNABLES`."""

from __future__ import annotations

from collections.abc import Mapping

TUNABLES = "GLIBC_TUNABLES"
HUGE_PAGES = {"glibc.malloc.hugetlb": 1}
"""Memory in pages of 2 MiB, from glibc 2.35 on."""
THRESHOLDS = {"glibc.malloc.mmap_threshold": 32 << 20, "glibc.malloc.trim_threshold": 64 << 20}
"""Bytes of the smallest piece that is memory of its own, and of free memory from which on a heap is given back."""
_OLDER = {"MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"}
"""Variables that set the same thresholds."""


def with_malloc_tunables(env: Mapping[str, str]) -> dict[str, str]:
    """`env` for a process that makes or moves batches: its memory comes in huge pages, and stays with the process until
    the next batch. What `env` says of either already stays. Linux; C libraries other than glibc ignore it.

    glibc gives memory back to the kernel when a batch is gone, and gets the next one's as fresh pages, each of which
    costs a fault. Huge pages are 512 times as large, so a batch that is memory of its own costs 512 times fewer faults
    (`benchmarks.transport`: `small_pages`). Decoded photos lie in heaps, whose end glibc gives back as soon as 128 KiB
    of it are free. It raises both thresholds when it frees a piece of up to 32 MiB that was memory of its own
    (mallopt(3), M_MMAP_THRESHOLD), to the size of the piece and to twice that: these here are where that ends.
    Processes that make batches of photos do not get there by themselves (`python -m benchmarks.malloc`).
    """
    given = [tunable for tunable in env.get(TUNABLES, "").split(":") if tunable]
    names = {tunable.partition("=")[0] for tunable in given}
    wanted = {} if names & HUGE_PAGES.keys() else HUGE_PAGES
    if not names & THRESHOLDS.keys() and not _OLDER & env.keys():  # each of them is meant for the other
        wanted = wanted | THRESHOLDS
    asked = [f"{name}={value}" for name, value in wanted.items()]
    return {**env, TUNABLES: ":".join([*given, *asked])} if asked else dict(env)
