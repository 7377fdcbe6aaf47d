"""Settings of the C library's allocator for processes that make and move batches, in `GLIBC_TUNABLES`."""

from __future__ import annotations

from collections.abc import Mapping

TUNABLES = "GLIBC_TUNABLES"
HUGE_PAGES = {"glibc.malloc.hugetlb": 1}
"""Pages of 2 MiB, since glibc 2.35."""
THRESHOLDS = {"glibc.malloc.mmap_threshold": 32 << 20, "glibc.malloc.trim_threshold": 64 << 20}
"""Minimum bytes of a piece with a mapping of its own, and of free memory that a heap returns to the kernel."""
_OLDER = {"MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"}
"""Variables that set the same thresholds."""


def with_malloc_tunables(env: Mapping[str, str]) -> dict[str, str]:
    """Returns `env` with settings for huge pages and for memory that stays with the process; settings of the user win.
    Other C libraries than glibc ignore them.

    By default glibc returns the memory of a batch to the kernel, and each fresh page of the next batch costs a fault.
    Huge pages are 512 times as large, so they cost 512 times fewer faults. Decoded photos are in heaps, which glibc
    shrinks as soon as 128 KiB at their end are free. The thresholds here are the largest that glibc would choose itself
    (mallopt(3), M_MMAP_THRESHOLD); it never chooses them for batches of photos.
    """
    present = [tunable for tunable in env.get(TUNABLES, "").split(":") if tunable]
    names = {tunable.partition("=")[0] for tunable in present}
    wanted = {} if names & HUGE_PAGES.keys() else HUGE_PAGES
    if not names & THRESHOLDS.keys() and not _OLDER & env.keys():  # setting one disables the other's default
        wanted = wanted | THRESHOLDS
    added = [f"{name}={value}" for name, value in wanted.items()]
    return {**env, TUNABLES: ":".join([*present, *added])} if added else dict(env)
